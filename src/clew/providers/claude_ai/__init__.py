"""Claude.ai: messages of its export, to read."""
