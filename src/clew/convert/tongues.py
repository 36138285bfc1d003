"""The tongues that clew writes, by the names of the providers that understand them."""

from __future__ import annotations

from clew.convert.anthropic import Anthropic
from clew.convert.gemini import Gemini
from clew.convert.openai import OpenAIChat, OpenAIResponses
from clew.convert.target import Target
from clew.errors import Invalid, clip
from clew.provider_names import canonical

_TARGETS: dict[str, Target] = {
    "anthropic": Anthropic(),
    "claude": Anthropic(),
    "openai": OpenAIChat(),
    "openai-compatible": OpenAIChat(),
    "openai-responses": OpenAIResponses(),
    "offline": OpenAIChat(),
    "gemini": Gemini(),
}
_FAMILY = {"openai-compatible": "openai", "openai-responses": "openai", "offline": "openai"}

PROVIDERS = tuple(_TARGETS)
"""The names under which a tongue can be asked for."""


def target(provider: str) -> Target:
    """The tongue of a provider. Invalid if clew does not know it."""
    found = _TARGETS.get(provider) if isinstance(provider, str) else None
    if found is None:
        shown = clip(provider) if isinstance(provider, str) else type(provider).__name__
        raise Invalid(f"clew cannot write messages of {shown}", hint=f"It knows {', '.join(_TARGETS)}.")
    return found


def family(provider: str) -> str:
    """The provider under the first of its names."""
    return _FAMILY.get(provider, canonical(provider))
