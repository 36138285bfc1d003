"""Which model answers: from a flag, the session, the settings, the keys that are set; else the one that needs none."""

from __future__ import annotations

import os
import re
import shlex
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from clew.cli import settings
from clew.cli.settings import Found
from clew.cli.text import plain
from clew.errors import Invalid, InvalidBaseURL, clip
from clew.provider_names import canonical

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
"""The variables in which the SDKs of the providers look for an API key."""
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
    "Set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY to use a model; "
    "CLEW_MODEL or -m PROVIDER/MODEL says which."
)


class Choice(NamedTuple):
    """A model, who provides it, and where."""

    provider: str
    model: str
    base_url: str | None = None
    """Where the session to be continued was held; None leaves it to the settings."""

    def __str__(self) -> str:
        return self.model or self.provider


def choose(typed: str | None = None, session: clew.Session | None = None) -> Choice:
    """The model that was asked for; or the one that the session was held with, or that of the settings. Invalid."""
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
    typed = canonical(ALIASES.get(typed, typed))
    provider, slash, model = typed.partition("/")
    provider = canonical(provider)
    if slash and provider in known() and model:
        return _allowed(Choice(provider, model), used)
    if typed in (*DEFAULTS, _LOCAL):
        return _allowed(Choice(typed, DEFAULTS.get(typed, "")), used)
    found = settings.current().find("provider")
    if found.value and found.value != OFFLINE:
        return _allowed(Choice(canonical(found.value), typed), [("provider", found)])
    for maker, begins in _MADE_BY.items():
        if begins.match(typed):
            return Choice(maker, typed)
    if setting("base_url") is not None:  # a server of somebody's own: what its models are called, it knows
        return Choice("openai-compatible", typed)
    raise Invalid(f"unknown model {clip(typed)}", hint=f"Write PROVIDER/MODEL: {', '.join(known())}.")


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
    """The provider's API key, from the variable of its SDK."""
    return next((os.environ[name] for name in KEYS.get(provider, ()) if os.environ.get(name)), None)


def connect(choice: Choice, *, system: str = "", allow_insecure: bool = False) -> Any:
    """A client for a model. Invalid if it has no API key, its SDK is not installed, or it was held elsewhere."""
    from clew import chat

    provider, model, _ = choice
    if provider == _LOCAL:
        return chat.connect(provider=provider, model=model, system=system)
    secret = token(provider)
    if provider in KEYS and provider != "openai-compatible" and not secret:
        hint = f"Set {KEYS[provider][0]}, or choose another model with -m. -n starts a new session."
        raise Invalid(f"no API key for {provider}", hint=hint)
    address = _address(choice)
    if provider == OFFLINE:
        secret, address = None, ""
    try:
        return chat.connect(
            provider=provider, model=model, system=system, token=secret, base_url=address,
            allow_insecure=allow_insecure or _is_here(address),
        )  # fmt: skip
    except InvalidBaseURL as error:
        error.hint = error.hint.replace("allow_insecure=True", "--allow-insecure")
        raise
    except ImportError as error:
        why, _, what = str(error).partition(": ")
        raise Invalid(f"{provider}: {why}", hint=what) from error


def _address(choice: Choice) -> str:
    """Where requests go; empty for the provider's own address.

    A session says where it was held, and a store may be somebody else's. So its address is compared with those that are
    known here, and never sent an API key for being there. Invalid.
    """
    configured = setting("base_url") or os.environ.get(ADDRESSES.get(choice.provider, ""), "")
    if choice.base_url is None:
        return configured
    from clew.chat.connecting import PROVIDERS

    held = choice.base_url.rstrip("/")
    if held == PROVIDERS[choice.provider].base_url.rstrip("/"):
        return ""
    if held != configured.rstrip("/"):
        hint = f"Continue there with CLEW_BASE_URL={shlex.quote(plain(held[:200]))}, or choose a model with -m."
        raise Invalid(f"the session was held with {choice.provider} at another address", hint=hint)
    return configured


def refuse_offline(choice: Choice, session: clew.Session | None) -> None:
    """Invalid if offline, which only echoes, would answer in a session that was held with a model."""
    if choice.provider != OFFLINE or session is None:
        return
    from clew.snapshots.setup import setup_of

    provider = canonical(setup_of(session).provider)
    for node in reversed(session.path()):
        if provider:
            break
        if node.role == "assistant":
            provider = _held_with(node)
    if provider:
        variables = KEYS.get(provider, ())
        keys = variables[0] if variables else "ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY"
        raise Invalid(
            f"offline only echoes, and this session was held with {plain(session.model or provider)}",
            hint=f"Set {keys} to continue it, choose another model with -m, or start a new session with -n.",
        )


def _held_with(node: clew.Node) -> str:
    """The provider of an answer, or its model if that is all there is; empty if it is offline's, or nobody says."""
    native = node.native
    name = canonical(native.provider) if native is not None else node.message.model or ""
    return "" if name == OFFLINE else name


def _is_here(url: str) -> bool:
    """True for an address of this machine: a server of models often has no https, and nothing leaves the machine."""
    try:
        return urlsplit(url).hostname in ("127.0.0.1", "::1", "localhost")
    except ValueError:
        return False


def _own(session: clew.Session) -> Choice | None:
    """The model that a session was held with, and where; None if it was not held with one that clew can talk to."""
    from clew.snapshots.setup import setup_of

    answers = [node for node in session.path() if node.role == "assistant"]
    native = answers[-1].native if answers else None
    provider = canonical(native.provider) if native is not None else ""
    model = (answers[-1].message.model or session.model or DEFAULTS.get(provider)) if provider in KEYS else None
    if not model:
        return None
    setup = setup_of(session)
    return Choice(provider, model, setup.base_url or None if canonical(setup.provider) == provider else None)
