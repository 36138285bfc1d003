"""Chooses the model: from a flag, the session, the settings, or the API keys; else `offline`."""

from __future__ import annotations

import os
import re
import shlex
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from clew.base.visible import plain
from clew.cli.setup import settings
from clew.cli.setup.installation import has_sdk, install_command
from clew.cli.setup.settings import SettingValue
from clew.errors import Invalid, clip
from clew.providers.errors import InvalidBaseURL
from clew.providers.registry import COMPATIBLE, OFFLINE, PROVIDERS, Provider, canonical, key_variables

if TYPE_CHECKING:
    import clew

ALIASES = {short: f"{row.name}/{model}" for row in PROVIDERS.values() for short, model in row.short_names.items()}
"""Built-in aliases; settings take precedence."""
_LOCAL = "claude-local"
HOW = f"To use a model, set {key_variables()}; choose the model with CLEW_MODEL or -m PROVIDER/MODEL."


class ModelChoice(NamedTuple):
    """A model, its provider, and the address."""

    provider: str
    model: str
    base_url: str | None = None
    """The address used before in this session; None to use the settings."""

    def __str__(self) -> str:
        return self.model or self.provider


def choose(typed: str | None = None, session: clew.Session | None = None) -> ModelChoice:
    """The requested model, that of the session, or that of the settings. Invalid."""
    if typed is not None:
        return parse(typed)
    own = None if session is None else _session_model(session)
    if own is not None:
        return own
    for name in ("model", "provider"):
        found = settings.current().find(name)
        if found.value:
            return parse(found.value, (name, found))
    return parse(next((row.name for row in PROVIDERS.values() if _usable(row)), OFFLINE))


def _usable(row: Provider) -> bool:
    """True if a provider can be used without a choice: it has a model, an API key, and its package."""
    return bool(row.default_model and api_key(row.name) and has_sdk(row))


def parse(typed: str, origin: tuple[str, SettingValue] | None = None) -> ModelChoice:
    """Parses an alias, PROVIDER/MODEL, a provider, or the name of a model. Invalid.

    `origin` is the name and value of the setting that `typed` comes from, if any.
    """
    used = [] if origin is None else [origin]
    alias = settings.current().names("aliases").get(typed)
    if alias is not None:
        used.append((f"aliases.{typed}", alias))
        typed = str(alias.value)
    typed = canonical(ALIASES.get(typed, typed))
    provider, slash, model = typed.partition("/")
    provider = canonical(provider)
    if slash and provider in provider_names() and model:
        return _check_allowed(ModelChoice(provider, model), used)
    default = PROVIDERS[typed].default_model if typed in PROVIDERS else ""
    if default or typed == _LOCAL:
        return _check_allowed(ModelChoice(typed, default), used)
    found = settings.current().find("provider")
    if found.value and found.value != OFFLINE:
        return _check_allowed(ModelChoice(canonical(found.value), typed), [("provider", found)])
    for row in PROVIDERS.values():
        if row.model_pattern and re.match(row.model_pattern, typed):
            return ModelChoice(row.name, typed)
    if setting("base_url") is not None:  # the user's own server knows the names of its models
        return ModelChoice(COMPATIBLE, typed)
    raise Invalid(f"unknown model {clip(typed)}", hint=f"Use PROVIDER/MODEL. Providers: {', '.join(provider_names())}")


def _check_allowed(choice: ModelChoice, used: list[tuple[str, SettingValue]]) -> ModelChoice:
    """The choice. Invalid if a project file selects a provider that may start a program."""
    for name, found in used if choice.provider not in PROVIDERS else ():
        if found.source == "project":
            raise settings.forbidden(name, found.origin, f"it may only choose one of {', '.join(PROVIDERS)}")
    return choice


def aliases() -> dict[str, str]:
    """All aliases with their models; those of the settings take precedence."""
    return {**ALIASES, **{name: str(found.value) for name, found in settings.current().names("aliases").items()}}


def provider_names() -> list[str]:
    """The names of all providers."""
    return [*PROVIDERS, _LOCAL]


def setting(name: str) -> str | None:
    """The value of a setting, or None."""
    return settings.current().value(name) or None


def is_configured() -> bool:
    """True if a setting selects the provider or the model."""
    return setting("provider") is not None or setting("model") is not None


def api_key(provider: str) -> str | None:
    """The provider's API key, from the variable of its SDK."""
    names = PROVIDERS[provider].api_keys if provider in PROVIDERS else ()
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def connect(choice: ModelChoice, *, system: str = "", allow_insecure: bool = False) -> Any:
    """A client for a model. Invalid without API key or SDK, or if the session used another address."""
    from clew import chat

    provider, model, _ = choice
    if provider == _LOCAL:
        return chat.connect(provider=provider, model=model, system=system)
    secret, address = (None, "") if provider == OFFLINE else (api_key(provider), _address(choice))
    insecure = allow_insecure or _is_here(address)
    try:
        chat.validate_base_url(address, insecure)  # before the API key: a wrong address is the first thing to correct
        if PROVIDERS[provider].needs_api_key and not secret:
            variable = PROVIDERS[provider].api_keys[0]
            hint = f"Set {variable}, choose another model with -m, or start a new conversation with -n."
            raise Invalid(f"no API key for {provider}", hint=hint)
        return chat.connect(
            provider=provider, model=model, system=system, token=secret, base_url=address, allow_insecure=insecure
        )
    except InvalidBaseURL as error:
        error.hint = error.hint.replace("allow_insecure=True", "--allow-insecure")
        raise
    except ImportError as error:
        why, _, what = str(error).partition(": ")
        row = PROVIDERS[provider]
        hint = what if has_sdk(row) else f"Install it: {install_command(row.extra)}"
        raise Invalid(f"{provider}: {why}", hint=hint) from error


def _address(choice: ModelChoice) -> str:
    """The address for requests; empty for the provider's own. Invalid.

    The address stored in a session is only compared with the configured ones: someone else may have written the store,
    and must not receive an API key.
    """
    row = PROVIDERS[choice.provider]
    configured = setting("base_url") or os.environ.get(row.base_url_variable, "")
    if choice.base_url is None:
        return configured
    held = choice.base_url.rstrip("/")
    if held == row.base_url.rstrip("/"):
        return ""
    if held != configured.rstrip("/"):
        hint = f"To use that address, set CLEW_BASE_URL={shlex.quote(plain(held[:200]))}; or choose a model with -m."
        raise Invalid(f"this conversation used {choice.provider} at another address", hint=hint)
    return configured


def refuse_offline(choice: ModelChoice, session: clew.Session | None) -> None:
    """Invalid if offline, which only echoes, would answer in a session with a real model."""
    if choice.provider != OFFLINE or session is None:
        return
    from clew.store.setup import setup_of

    provider = canonical(setup_of(session).provider)
    for node in reversed(session.path()):
        if provider:
            break
        if node.role == "assistant":
            provider = _provider_of(node)
    if provider:
        variables = PROVIDERS[provider].api_keys if provider in PROVIDERS else ()
        keys = variables[0] if variables else key_variables()
        model = plain(session.model or provider)
        raise Invalid(
            f"`offline` cannot continue a conversation with {model}: it only echoes your input",
            hint=f"Set {keys}, choose a real model with -m, or start a new conversation with -n.",
        )


def _provider_of(node: clew.Node) -> str:
    """The provider of an answer, or its model; empty if unknown or offline."""
    native = node.native
    name = canonical(native.provider) if native is not None else node.message.model or ""
    return "" if name == OFFLINE else name


def _is_here(url: str) -> bool:
    """True for an address of this machine, where plain http is safe."""
    try:
        return urlsplit(url).hostname in ("127.0.0.1", "::1", "localhost")
    except ValueError:
        return False


def _session_model(session: clew.Session) -> ModelChoice | None:
    """The last model of a session and its address; None if clew cannot connect to it."""
    from clew.store.setup import setup_of

    answers = [node for node in session.path() if node.role == "assistant"]
    native = answers[-1].native if answers else None
    provider = canonical(native.provider) if native is not None else ""
    row = PROVIDERS.get(provider)
    if row is None or row.name == OFFLINE:
        return None
    model = answers[-1].message.model or session.model or row.default_model
    if not model:
        return None
    setup = setup_of(session)
    return ModelChoice(provider, model, setup.base_url or None if canonical(setup.provider) == provider else None)
