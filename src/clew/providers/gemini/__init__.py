"""Google: Gemini API."""
