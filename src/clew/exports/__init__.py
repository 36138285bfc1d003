"""Conversations as files: clew's own JSONL, Markdown, HTML, and the form of the tool they came from."""
