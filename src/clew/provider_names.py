"""The names of providers: which mean the same one, and where each has its system prompt."""

from __future__ import annotations

_SAME = {"anthropic": "claude"}
_PROMPT_FIRST = frozenset({"openai", "openai-compatible", "openai-responses", "offline"})


def canonical(provider: str) -> str:
    """The one name of a provider that has several: ``anthropic`` is ``claude``."""
    return _SAME.get(provider, provider)


def prompt_is_message(provider: str) -> bool:
    """True if the provider takes the system prompt as the first message, and not as a parameter of its own."""
    return provider in _PROMPT_FIRST
