"""From a provider's name to a client. The one place where an address is checked and an SDK's client is made."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from clew.chat.base_url import host_of, validate_base_url
from clew.chat.client import Client
from clew.chat.conversation import MAX_STEPS
from clew.chat.dialects import Dialect
from clew.chat.dialects.claude import Claude
from clew.chat.dialects.gemini import Gemini
from clew.chat.dialects.openai import Completions
from clew.chat.dialects.responses import Responses
from clew.chat.local import ClaudeLocal
from clew.chat.protocols import Tools
from clew.chat.quiet import keep_unlogged
from clew.chat.transports import AsyncTransport, Endpoint, Transport, claude, gemini, offline, openai
from clew.errors import Invalid, InvalidBaseURL, clip
from clew.provider_names import canonical

T = TypeVar("T")
LOGGER = logging.getLogger("clew.chat")


class Provider(NamedTuple):
    """What has to be known of a provider."""

    dialect: Callable[[], Dialect]
    transport: Callable[[Endpoint], Transport]
    async_transport: Callable[[Endpoint], AsyncTransport]
    base_url: str = ""
    """Where requests go unless the caller says."""
    needs_token: bool = True
    needs_base_url: bool = False
    model: str = ""
    """The model unless the caller names one."""


PROVIDERS: Mapping[str, Provider] = {
    "claude": Provider(Claude, claude.ClaudeTransport, claude.AsyncClaudeTransport, claude.BASE_URL),
    "openai": Provider(Completions, openai.OpenAITransport, openai.AsyncOpenAITransport, openai.BASE_URL),
    "openai-responses": Provider(Responses, openai.OpenAITransport, openai.AsyncOpenAITransport, openai.BASE_URL),
    "openai-compatible": Provider(
        lambda: Completions("openai-compatible"),
        openai.OpenAITransport,
        openai.AsyncOpenAITransport,
        needs_token=False,
        needs_base_url=True,
    ),
    "gemini": Provider(Gemini, gemini.GeminiTransport, gemini.AsyncGeminiTransport, gemini.BASE_URL),
    "offline": Provider(
        lambda: Completions("offline", accepts=frozenset({"offline"})),
        offline.OfflineTransport,
        offline.AsyncOfflineTransport,
        needs_token=False,
        model=offline.MODEL,
    ),
}
LOCAL = "claude-local"


def connect(
    provider: str,
    model: str = "",
    *,
    token: str | None = None,
    base_url: str = "",
    system: str = "",
    tools: Tools = (),
    max_tokens: int | None = None,
    max_steps: int = MAX_STEPS,
    timeout: float | None = None,
    max_retries: int | None = None,
    options: Mapping[str, Any] | None = None,
    allow_insecure: bool = False,
    program: str = "claude",
) -> Client | ClaudeLocal:
    """A client for ``claude``, ``openai``, ``openai-responses``, ``openai-compatible``, ``gemini`` or ``offline``.

    ``anthropic`` is another name of ``claude``. ``claude-local`` runs `program` instead, which has its own login and
    keeps its own history. `options` are further fields of each request, in the provider's words; None takes one out.
    `timeout`, in seconds, and `max_retries` are the SDK's. `allow_insecure` allows an http address, for a server on
    this machine or in a network that you trust: it is for code, never for a setting that a file can change. Redirects
    are not followed: that is a ProviderError which names the host. Nothing is sent before the first question. Invalid;
    InvalidBaseURL.
    """
    if provider == LOCAL:
        return _local(model, token, base_url, system, tools, timeout, program)
    known, endpoint, settings = settled(
        provider, model, token=token, base_url=base_url, system=system, tools=tools, max_tokens=max_tokens,
        max_steps=max_steps, timeout=timeout, max_retries=max_retries, options=options, allow_insecure=allow_insecure,
    )  # fmt: skip
    client = Client(known.dialect(), made(known.transport, endpoint), **settings)
    announce(endpoint)
    return client


def settled(
    provider: str,
    model: str = "",
    *,
    token: str | None = None,
    base_url: str = "",
    timeout: float | None = None,
    max_retries: int | None = None,
    allow_insecure: bool = False,
    **settings: Any,
) -> tuple[Provider, Endpoint, dict[str, Any]]:
    """What a client is made of, checked, before anything is made."""
    provider = canonical(provider) if isinstance(provider, str) else provider
    _check(provider=provider, model=model, token=token, timeout=timeout, max_retries=max_retries, **settings)
    if type(allow_insecure) is not bool:
        raise Invalid("allow_insecure is True or False", hint="Write it in code; it is not a setting to be read.")
    validate_base_url(base_url, allow_insecure)
    known = PROVIDERS.get(provider)
    if known is None:
        raise Invalid(f"there is no provider {clip(str(provider), 32)}; there are: {', '.join([*PROVIDERS, LOCAL])}")
    if known.needs_base_url and not base_url:
        raise InvalidBaseURL(f"is missing, and {provider} needs one")
    if known.needs_token and not token:
        raise Invalid(f"{provider} needs a token", hint="Pass it as token=…; clew does not look for it by itself.")
    if not (model or known.model):
        raise Invalid(f"{provider} needs the name of a model", hint="Pass it as model=…, as the provider spells it.")
    # An SDK that is given no address, or no token, would take one from the environment.
    endpoint = Endpoint(provider, base_url or known.base_url, token or "none", timeout, max_retries)
    return known, endpoint, {"model": model or known.model, "base_url": endpoint.base_url, **settings}


def _check(**given: object) -> None:
    """Invalid if a setting is not of its kind. A token is never shown, nor handed to a library that would show it."""
    for name, value in given.items():
        kind, least = _KINDS.get(name, (object, None))
        if not isinstance(value, kind) or (isinstance(value, bool) and least is not None):
            raise Invalid(f"{name} cannot be {type(value).__name__}")
        if least is not None and value is not None and not value >= least:
            raise Invalid(f"{name} is {least} at least")
    if isinstance(token := given["token"], str) and token and not _TOKEN.fullmatch(token):
        hint = "Read it again; at the end of one that comes from a file there may be a newline."
        raise Invalid("the token has characters that no token has", hint=hint)


_TOKEN = re.compile(r"[!-~]+")
_KINDS: Mapping[str, tuple[Any, int | None]] = {
    "provider": (str, None),
    "model": (str, None),
    "token": (str | None, None),
    "system": (str, None),
    "max_tokens": (int | None, 1),
    "max_steps": (int, 1),
    "timeout": (float | int | None, 0),
    "max_retries": (int | None, 0),
    "options": (Mapping | None, None),
    "program": (str, None),
}
"""What each setting is, and of a number the least."""


def made(transport: Callable[[Endpoint], T], endpoint: Endpoint) -> T:
    """A transport. InvalidBaseURL if its SDK reads the address in another way, and refuses it."""
    keep_unlogged(endpoint.base_url)
    try:
        return transport(endpoint)
    except Exception as error:
        if isinstance(error, UnicodeError) or type(error).__name__ == "InvalidURL":
            raise InvalidBaseURL("is not one that the SDK takes") from None
        raise


def announce(endpoint: Endpoint) -> None:
    """Logs which host will be spoken to; never the path or the query, which may identify someone."""
    if host := host_of(endpoint.base_url):
        LOGGER.info("chat provider initialised provider=%s endpoint_host=%s", endpoint.provider, host)
    else:
        LOGGER.info("chat provider initialised provider=%s", endpoint.provider)


def _local(
    model: str, token: str | None, base_url: str, system: str, tools: Tools, timeout: float | None, program: str
) -> ClaudeLocal:
    _check(model=model, token=token, system=system, timeout=timeout, program=program)
    if token or base_url:
        raise Invalid(f"{LOCAL} takes no token and no base URL: the program has its own")
    announce(Endpoint(LOCAL, "", ""))
    return ClaudeLocal(model=model, system=system, tools=tools, timeout=timeout, program=program)
