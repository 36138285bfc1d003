"""OpenAI: chat completions and the Responses API."""
