"""Sends requests through the provider's SDK, which also retries, and translates errors into ProviderError.

An SDK is imported when a client needs it. It always gets a base URL and an API key, so that it reads neither from the
environment. Redirects are not followed, because only the original address was checked.

The message of an error includes the provider's own explanation, which is often the only one. It is shortened, and the
API key, control characters and longer quotes of the request are removed.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple, Protocol

from clew.base.loading import loading
from clew.errors import ClewError, install_hint
from clew.providers import registry
from clew.providers.base_url import host_of
from clew.providers.errors import ProviderError
from clew.providers.json_values import Json


class Endpoint(NamedTuple):
    """The base URL and the API key of requests. Its repr does not show the key."""

    provider: str
    base_url: str
    token: str
    timeout: float | None = None
    """In seconds; None for the SDK's default."""
    max_retries: int | None = None
    """None for the SDK's default."""

    def __repr__(self) -> str:
        return f"<Endpoint {self.provider}>"

    def settings(self) -> Json:
        """The arguments that the SDKs of Anthropic and OpenAI share."""
        given = {"timeout": self.timeout, "max_retries": self.max_retries}
        known = {name: value for name, value in given.items() if value is not None}
        return {"base_url": self.base_url, "api_key": self.token, **known}


class Transport(Protocol):
    """Sends requests to one provider. Translates every error of its SDK to ProviderError."""

    def send(self, body: Json) -> bytes:
        """The response to a request, as its bytes."""

    def stream(self, body: Json) -> Generator[Json, None, None]:
        """The events of a streamed response. Closing the iterator ends the connection."""

    def close(self) -> None:
        """Ends all connections."""


class AsyncTransport(Protocol):
    """`Transport`, awaited."""

    async def send(self, body: Json) -> bytes:
        """The response to a request, as its bytes."""

    def stream(self, body: Json) -> AsyncGenerator[Json, None]:
        """The events of a streamed response. Closing the iterator ends the connection."""

    async def close(self) -> None:
        """Ends all connections."""


LONGEST_TEXT = 300
"""Maximum characters of a provider's explanation in an error."""
LONGEST_QUOTE = 24
"""Maximum characters of the request that an explanation may quote in one piece."""
_SHORTEST = 4
"""Minimum length of a message that is removed if quoted completely: shorter ones occur in any text."""
_SPOKEN = ("content", "text", "system", "output", "result", "error")
"""Fields of any provider's request that hold the text of messages."""
_READ = 2000
"""Maximum characters of an explanation that are examined."""

_LIBRARIES = ("httpx", "httpx2", "httpcore", "httpcore2", "aiohttp")
"""Packages that the SDKs send their requests with."""
_AGAIN = "Try again later."
_STATUS = {
    400: ("the request was refused", ""),
    401: ("the API key was refused", "Check the API key."),
    403: ("the API key has no permission for this", "Check the permissions of the API key."),
    404: ("there is no such model or address", "Check the model's name and the base URL."),
    413: ("the request is too large", "Begin a new conversation, or compact this one."),
    429: ("too many requests, or the quota is used up", _AGAIN),
}


class Progress:
    """Whether a response has begun: later errors have another message."""

    begun = False


@contextmanager
def translate_errors(to: Endpoint, body: Json) -> Iterator[Progress]:
    """Raises errors of an SDK, the network or a malformed response as ProviderError, with the original as its cause."""
    progress = Progress()
    try:
        yield progress
    except ClewError:
        raise
    except Exception as error:
        if isinstance(error, OSError | ValueError) or _is_of_sdk(error):
            raise _error(to, body, error, progress.begun) from error
        raise


def _is_of_sdk(error: Exception) -> bool:
    packages = {row.sdk.partition(".")[0] for row in registry.PROVIDERS.values() if row.sdk}
    return type(error).__module__.partition(".")[0] in packages.union(_LIBRARIES)


def _error(to: Endpoint, body: Json, error: Exception, begun: bool) -> ProviderError:
    provider, explanation = to.provider, clean(_explanation(error), to.token, body)
    status = getattr(error, "status_code", None) or getattr(error, "code", None)
    if isinstance(status, int) and 300 <= status < 400:
        return _redirect_error(to, error, status)
    if isinstance(status, int) and status >= 400:
        failed = ("the provider failed", _AGAIN) if status >= 500 else ("the request was refused", "")
        why, hint = _STATUS.get(status, failed)
        return ProviderError(provider, f"{why} ({status})", status=status, said=explanation, hint=hint)
    name = type(error).__name__
    if begun:
        hint = "The conversation keeps what arrived; continue from there."
        return ProviderError(provider, f"the answer broke off ({name})", said=explanation, hint=hint)
    if "Timeout" in name:
        return ProviderError(provider, "no answer came in time", hint=_AGAIN)
    if "Connect" in name:
        return ProviderError(provider, "it cannot be reached", hint="Check the network and the base URL.")
    return ProviderError(provider, f"there was no answer ({name})", said=explanation, hint=_AGAIN)


def check_response(to: Endpoint, body: Json, response: Json) -> None:
    """ProviderError if a response of the Responses API reports a failure, which it does with status 200."""
    if response.get("status") == "failed":
        explanation = clean(_text(response.get("error")), to.token, body)
        raise ProviderError(to.provider, "the model failed to answer", said=explanation, hint=_AGAIN)


def check_event(to: Endpoint, body: Json, event: Json) -> None:
    """The same for an event in a stream of the Responses API."""
    kind, response = event.get("type"), event.get("response")
    if kind == "response.failed":
        check_response(
            to, body, {"status": "failed", "error": response.get("error") if isinstance(response, dict) else None}
        )
    elif kind == "error":
        check_response(to, body, {"status": "failed", "error": event})


def _redirect_error(to: Endpoint, error: Exception, status: int) -> ProviderError:
    """The error for a redirect. It contains both hosts and no other part of the addresses."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    try:
        host = host_of(str(headers.get("location", "")))
    except ValueError:
        host = ""
    host = re.sub(r"[^a-z0-9.:_-]", "?", host)[:255]
    here = host_of(to.base_url)
    why = f"{here} redirects to {host or 'another address'} ({status}), and redirects are not followed"
    hint = "If you trust that host, use it as the base URL."
    return ProviderError(to.provider, why, status=status, hint=hint)


def _explanation(error: Exception) -> str:
    """The provider's own explanation of an error; empty if there is none, or it is an HTML page."""
    return _text(getattr(error, "body", None) or getattr(error, "details", None))


def _text(body: Any) -> str:
    for _ in range(3):  # {"error": {"message": …}}, without the one or the other, or the text alone
        if isinstance(body, list) and body:
            body = body[0]
        elif isinstance(body, dict):
            body = body.get("message") or body.get("error") or body.get("detail")
    text = body if isinstance(body, str) else ""
    return "" if text.lstrip().startswith("<") else text


def clean(text: str, token: str, body: Json) -> str:
    """A provider's explanation, cleaned for an error message."""
    text = text[:_READ].replace(token, "***") if token else text[:_READ]
    # Providers quote the beginning of a key, so match that too.
    text = re.sub(re.escape(token[:8]) + r"[^\s\"'.,]*", "***", text) if len(token) >= 16 else text
    text = "".join(char if char.isprintable() else " " for char in text)
    text = " ".join(_unquote(text, body).split())
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1].rstrip() + "…"


def _unquote(text: str, body: Json) -> str:
    """The text without messages that it quotes whole, and without longer pieces of the request."""
    found = [(name, "".join(char if char.isprintable() else " " for char in one)) for name, one in _texts(body)]
    for message in {one.strip() for name, one in found if name in _SPOKEN}:
        if len(message) >= _SHORTEST:
            text = text.replace(message, "…")
    request = "\n".join(one for _, one in found)
    size, kept, at = LONGEST_QUOTE + 1, list[str](), 0
    while at < len(text):
        end = at + size
        if end > len(text) or text[at:end] not in request:
            kept.append(text[at])
            at += 1
            continue
        while end < len(text) and text[end - size + 1 : end + 1] in request:
            end += 1
        kept.append("…")
        at = end
    return "".join(kept)


def _texts(body: Json) -> Iterator[tuple[str, str]]:
    """Every text in a request, with the name of the field it is in."""
    left: list[tuple[str, object]] = [("", body)]
    while left:
        name, one = left.pop()
        if isinstance(one, str):
            yield name, one
        elif isinstance(one, dict):
            left += [*one.items(), *(("", key) for key in one)]
        elif isinstance(one, list):
            left += [(name, inner) for inner in one]


_NAMED = ("model", "max_tokens", "messages", "input", "stream")


def load_sdk(to: Endpoint) -> ModuleType:
    """The SDK of a provider. ImportError, with the command that installs it, if it is missing."""
    row = registry.PROVIDERS[to.provider]
    try:
        with loading:
            return import_module(row.sdk)
    except ImportError as error:
        raise ImportError(f"this provider needs its SDK. {install_hint(f'clew[{row.extra}]')}") from error


class SDKBase:
    """Sends requests through `calls`, a resource of the SDK's `client`."""

    def __init__(self, to: Endpoint, client: Any, calls: Any) -> None:
        self._to = to
        self._sdk = client
        self._calls = calls

    def check(self, body: Json, response: Any) -> bytes:
        """The content of a response. A subclass may raise ProviderError."""
        return bytes(response.http_response.content)

    def check_event(self, body: Json, event: Any) -> Json:
        """An event, including fields that the SDK does not know. ValueError if it is not an event."""
        if not hasattr(event, "to_dict"):
            raise ValueError(f"an event is an object, not {type(event).__name__}")
        return event.to_dict(warnings=False)  # type: ignore[no-any-return]


class SDKTransport(SDKBase):
    """See `Transport`."""

    def send(self, body: Json) -> bytes:
        with translate_errors(self._to, body):
            return self.check(body, self._calls.with_raw_response.create(**_arguments(body)))

    def stream(self, body: Json) -> Generator[Json, None, None]:
        with translate_errors(self._to, body) as progress, self._calls.create(**_arguments(body)) as events:
            for event in events:
                progress.begun = True
                yield self.check_event(body, event)

    def close(self) -> None:
        self._sdk.close()

    def __del__(self) -> None:
        if hasattr(self, "_sdk"):  # the SDK does not close an HTTP client that it was given
            self.close()


class AsyncSDKTransport(SDKBase):
    """`SDKTransport`, awaited."""

    async def send(self, body: Json) -> bytes:
        with translate_errors(self._to, body):
            return self.check(body, await self._calls.with_raw_response.create(**_arguments(body)))

    async def stream(self, body: Json) -> AsyncGenerator[Json, None]:
        with translate_errors(self._to, body) as progress:
            async with await self._calls.create(**_arguments(body)) as events:
                async for event in events:
                    progress.begun = True
                    yield self.check_event(body, event)

    async def close(self) -> None:
        await self._sdk.close()


def _arguments(body: Json) -> dict[str, Any]:
    """The arguments of a call. Fields that the SDK does not require go into the body, so that it need not know them."""
    named: dict[str, Any] = {name: body[name] for name in _NAMED if name in body}
    return {**named, "extra_body": {name: value for name, value in body.items() if name not in named}}
