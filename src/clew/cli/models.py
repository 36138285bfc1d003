"""Which model answers: from a flag, the settings, the keys that are set; else the one that needs none."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from clew.cli import settings
from clew.cli.settings import Found
from clew.errors import Invalid, clip

if TYPE_CHECKING:
    import clew

OFFLINE = "offline"
KEYS = {
    "claude": ("ANTHROPIC_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "openai-responses": ("OPENAI_API_KEY",),
    "openai-compatible": ("OPENAI_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
}
"""The variables in which the SDKs of the providers look for a token."""
ADDRESSES = {
    "claude": "ANTHROPIC_BASE_URL",
    "openai": "OPENAI_BASE_URL",
    "openai-responses": "OPENAI_BASE_URL",
    "openai-compatible": "OPENAI_BASE_URL",
    "gemini": "GOOGLE_GEMINI_BASE_URL",
}
"""And for an address."""
DEFAULTS = {"claude": "claude-sonnet-5-5", "openai": "gpt-6-sol", "gemini": "gemini-3.8-flash", OFFLINE: "offline"}
"""The model of a provider, if nobody says which. Names age: each is one that the SDK of its provider knows."""
ALIASES = {
    "sonnet": "claude/claude-sonnet-5-5",
    "opus": "claude/claude-opus-5-5",
    "haiku": "claude/claude-haiku-5-5",
    "gpt": "openai/gpt-6-sol",
    "mini": "openai/gpt-5.4-mini",
    "flash": "gemini/gemini-3.8-flash",
    "pro": "gemini/gemini-3.1-pro-preview",
}
"""Short names of models, unless a setting gives them another meaning."""
_MADE_BY = {
    "claude": re.compile("claude-"),
    "openai": re.compile(r"gpt-|chatgpt-|o\d"),
    "gemini": re.compile("gemini-"),
}
_LOCAL = "claude-local"
HOW = (
    "Set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY for a model that thinks; "
    "CLEW_MODEL or -m PROVIDER/MODEL says which."
)


class Choice(NamedTuple):
    """A model, and who gives it."""

    provider: str
    model: str

    def __str__(self) -> str:
        return self.model or self.provider


def choose(typed: str | None = None, session: clew.Session | None = None) -> Choice:
    """The model that was asked for; or the one the session is talked in with, or that of the settings. Invalid."""
    if typed is not None:
        return parse(typed)
    own = None if session is None else _own(session)
    if own is not None:
        return own
    for name in ("model", "provider"):
        found = settings.current().find(name)
        if found.value:
            return parse(found.value, (name, found))
    return parse(next((name for name in ("claude", "openai", "gemini") if token(name)), OFFLINE))


def parse(typed: str, origin: tuple[str, Found] | None = None) -> Choice:
    """A model as people write it: an alias, PROVIDER/MODEL, a provider, or the name of a model. Invalid.

    `origin` is the setting it comes from, with its name, if it was not typed.
    """
    used = [] if origin is None else [origin]
    alias = settings.current().names("aliases").get(typed)
    if alias is not None:
        used.append((f"aliases.{typed}", alias))
        typed = str(alias.value)
    typed = ALIASES.get(typed, typed)
    provider, slash, model = typed.partition("/")
    if slash and provider in known() and model:
        return _allowed(Choice(provider, model), used)
    if typed in (*DEFAULTS, _LOCAL):
        return _allowed(Choice(typed, DEFAULTS.get(typed, "")), used)
    found = settings.current().find("provider")
    if found.value and found.value != OFFLINE:
        return _allowed(Choice(found.value, typed), [("provider", found)])
    for maker, begins in _MADE_BY.items():
        if begins.match(typed):
            return Choice(maker, typed)
    if setting("base_url") is not None:  # a server of somebody's own: what its models are called, it knows
        return Choice("openai-compatible", typed)
    raise Invalid(
        f"nobody is known to give the model {clip(typed)}", hint=f"Write PROVIDER/MODEL: {', '.join(known())}."
    )


def _allowed(choice: Choice, used: list[tuple[str, Found]]) -> Choice:
    """The choice. Invalid if a setting of a project has led to a provider that may start a program."""
    names = (*KEYS, OFFLINE)
    for name, found in used if choice.provider not in names else ():
        if found.source == "project":
            raise settings.forbidden(name, found.origin, f"it may only choose one of {', '.join(names)}")
    return choice


def aliases() -> dict[str, str]:
    """Short names of models, and what they mean: those of the settings, and ours where they say nothing else."""
    return {**ALIASES, **{name: str(found.value) for name, found in settings.current().names("aliases").items()}}


def known() -> list[str]:
    """The providers there are, by name."""
    return [*KEYS, OFFLINE, _LOCAL]


def setting(name: str) -> str | None:
    """What a setting is, by the environment or by a file."""
    return settings.current().value(name) or None


def asked_for() -> bool:
    """Whether a setting says who answers."""
    return setting("provider") is not None or setting("model") is not None


def token(provider: str) -> str | None:
    """The provider's token, from the variable of its SDK."""
    return next((os.environ[name] for name in KEYS.get(provider, ()) if os.environ.get(name)), None)


def connect(choice: Choice, *, system: str = "") -> Any:
    """A client for a model. Invalid if there is no token for it, or its SDK is not installed."""
    from clew import chat

    provider, model = choice
    secret, address = token(provider), setting("base_url") or os.environ.get(ADDRESSES.get(provider, ""), "")
    if provider == _LOCAL:
        return chat.connect(provider=provider, model=model, system=system)
    if provider in KEYS and provider != "openai-compatible" and not secret:
        raise Invalid(f"there is no token for {provider}", hint=f"Set {KEYS[provider][0]}; or try -m offline.")
    if provider == OFFLINE:
        secret, address = None, ""
    try:
        return chat.connect(
            provider=provider, model=model, system=system, token=secret, base_url=address,
            allow_insecure=_is_here(address),
        )  # fmt: skip
    except ImportError as error:
        why, _, what = str(error).partition(": ")
        raise Invalid(f"{provider}: {why}", hint=what) from error


def _is_here(url: str) -> bool:
    """True for an address of this machine: a server of models often has no https, and nothing leaves the machine."""
    try:
        return urlsplit(url).hostname in ("127.0.0.1", "::1", "localhost")
    except ValueError:
        return False


def _own(session: clew.Session) -> Choice | None:
    """The model that a session is talked in with, if it can be reached from here."""
    answers = [node for node in session.path(last=8) if node.role == "assistant"]
    native = answers[-1].native if answers else None
    if native is None or native.provider == OFFLINE or not token(native.provider):
        return None
    model = answers[-1].message.model or session.model
    return Choice(native.provider, model) if model else None
