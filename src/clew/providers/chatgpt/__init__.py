"""ChatGPT: messages of its export, to read."""
