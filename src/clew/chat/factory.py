"""Connects to a provider: checks the settings and the address, then makes the client."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any, Literal

from clew.base.loading import loading
from clew.chat import claude_program
from clew.chat.claude_program import ClaudeLocal
from clew.chat.client import Client
from clew.chat.conversation import MAX_STEPS
from clew.chat.protocols import Tools
from clew.errors import Invalid, clip
from clew.providers import registry
from clew.providers.base_url import ascii_host, host_of, validate_base_url
from clew.providers.errors import InvalidBaseURL
from clew.providers.transport import Endpoint
from clew.providers.wire import WireFormat

_LOGGERS = ("httpx", "httpx2")


class _Unlogged(logging.Filter):
    """Drops the records that name an address at one host."""

    def __init__(self, host: str) -> None:
        super().__init__()
        self.host = host

    def filter(self, record: logging.LogRecord) -> bool:
        given = record.args if isinstance(record.args, tuple) else ()
        return not any("://" in (text := str(one)) and ascii_host(text) == self.host for one in given)


def keep_unlogged(base_url: str) -> None:
    """Stops the libraries from logging requests to the host of this address, for the whole process."""
    host = ascii_host(base_url)
    for logger in map(logging.getLogger, _LOGGERS):
        if host and not any(isinstance(one, _Unlogged) and one.host == host for one in logger.filters):
            logger.addFilter(_Unlogged(host))


LOGGER = logging.getLogger("clew.chat")


LOCAL = claude_program.PROVIDER


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
    """Creates a client for ``claude``, ``openai``, ``openai-responses``, ``openai-compatible``, ``gemini`` or
    ``offline``. Sends nothing before the first question. Invalid; InvalidBaseURL.

    ``anthropic`` is an alias of ``claude``. ``claude-local`` runs `program` instead, which has its own login and
    history. `options` are further fields of each request, as the provider names them; None removes a field. `timeout`,
    in seconds, and `max_retries` are passed to the SDK. `allow_insecure` allows an http address, for a server on this
    machine or in a network that you trust; set it in code, never from a file. Redirects are not followed: they raise a
    ProviderError that names the host.
    """
    if provider == LOCAL:
        return _local(model, token, base_url, system, tools, timeout, program)
    endpoint, settings = check_settings(
        provider, model, token=token, base_url=base_url, system=system, tools=tools, max_tokens=max_tokens,
        max_steps=max_steps, timeout=timeout, max_retries=max_retries, options=options, allow_insecure=allow_insecure,
    )  # fmt: skip
    client = Client(wire_format(endpoint), open_transport("connect", endpoint), **settings)
    announce(endpoint)
    return client


def check_settings(
    provider: str,
    model: str = "",
    *,
    token: str | None = None,
    base_url: str = "",
    timeout: float | None = None,
    max_retries: int | None = None,
    allow_insecure: bool = False,
    **settings: Any,
) -> tuple[Endpoint, dict[str, Any]]:
    """The endpoint and the settings of a client, checked before anything is created."""
    _check(provider=provider, model=model, token=token, timeout=timeout, max_retries=max_retries, **settings)
    if type(allow_insecure) is not bool:
        raise Invalid("allow_insecure is True or False", hint="Set it in code, not from a configuration file.")
    validate_base_url(base_url, allow_insecure)
    row = registry.find(provider)
    if row is None:
        known = ", ".join([*registry.PROVIDERS, LOCAL])
        raise Invalid(f"unknown provider {clip(str(provider), 32)}", hint=f"Use one of {known}.")
    provider = row.name
    if row.needs_base_url and not base_url:
        raise InvalidBaseURL(f"is missing, and {provider} needs one")
    if row.needs_api_key and not token:
        hint = f"Pass token=…; clew does not read {row.api_keys[0] if row.api_keys else 'the environment'}."
        raise Invalid(f"no API key for {provider}", hint=hint)
    if not model and provider == registry.OFFLINE:
        model = row.default_model
    if not model:
        raise Invalid(f"no model for {provider}", hint="Pass model=…, as the provider spells it.")
    # Always pass an address and an API key: otherwise an SDK would read them from the environment.
    endpoint = Endpoint(provider, base_url or row.base_url, token or "none", timeout, max_retries)
    return endpoint, {"model": model, "base_url": endpoint.base_url, **settings}


def _check(**given: object) -> None:
    """Invalid if a setting has a wrong type. Checked here so that no error, of clew or a library, shows the API key."""
    for name, value in given.items():
        kind, least = _KINDS.get(name, (object, None))
        if not isinstance(value, kind) or (isinstance(value, bool) and least is not None):
            raise Invalid(f"{name} cannot be {type(value).__name__}")
        if least is not None and value is not None and not value >= least:
            raise Invalid(f"{name} must be at least {least}")
    if isinstance(token := given["token"], str) and token and not _TOKEN.fullmatch(token):
        hint = "Check it. A key that was read from a file may end with a newline."
        raise Invalid("the API key has invalid characters", hint=hint)


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
"""The type of each setting, and the minimum of a number."""


def wire_format(endpoint: Endpoint) -> WireFormat:
    """The wire format of the endpoint's provider."""
    row = registry.PROVIDERS[endpoint.provider]
    return registry.load(row, "requests").wire_format(row.name)  # type: ignore[no-any-return]


def open_transport(face: Literal["connect", "connect_async"], endpoint: Endpoint) -> Any:
    """A transport, sync or async. InvalidBaseURL if the SDK does not accept the address."""
    module = registry.load(registry.PROVIDERS[endpoint.provider], "requests")
    try:
        with loading:  # SDKs, and the codec of host names
            keep_unlogged(endpoint.base_url)
            return getattr(module, face)(endpoint)
    except Exception as error:
        if isinstance(error, UnicodeError) or type(error).__name__ == "InvalidURL":
            raise InvalidBaseURL("is not accepted by the SDK") from None
        raise


def announce(endpoint: Endpoint) -> None:
    """Logs the host of the endpoint; never the path or the query, which may identify someone."""
    if host := host_of(endpoint.base_url):
        LOGGER.info("chat provider initialised provider=%s endpoint_host=%s", endpoint.provider, host)
    else:
        LOGGER.info("chat provider initialised provider=%s", endpoint.provider)


def _local(
    model: str, token: str | None, base_url: str, system: str, tools: Tools, timeout: float | None, program: str
) -> ClaudeLocal:
    _check(model=model, token=token, system=system, timeout=timeout, program=program)
    if token or base_url:
        raise Invalid(f"{LOCAL} takes no API key and no base URL: the program has its own")
    announce(Endpoint(LOCAL, "", ""))
    return ClaudeLocal(model=model, system=system, tools=tools, timeout=timeout, program=program)
