"""Anthropic: Messages API."""
