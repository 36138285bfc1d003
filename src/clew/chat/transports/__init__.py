"""How a request reaches its provider and the response comes back: through the provider's own SDK, which also retries.

An SDK is imported when a client that needs it is made. Address and token are always given to it, so that it takes
neither from the environment.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NamedTuple, Protocol

from clew.chat.dialects import Json
from clew.errors import ClewError, ProviderError


class Endpoint(NamedTuple):
    """Where requests go, and as whom. Its repr shows no token."""

    provider: str
    base_url: str
    token: str
    timeout: float | None = None
    """Seconds; None leaves it to the SDK."""
    max_retries: int | None = None
    """None leaves it to the SDK."""

    def __repr__(self) -> str:
        return f"<Endpoint {self.provider}>"

    def settings(self) -> Json:
        """What the constructors of the SDKs of Anthropic and OpenAI both take."""
        given = {"timeout": self.timeout, "max_retries": self.max_retries}
        known = {name: value for name, value in given.items() if value is not None}
        return {"base_url": self.base_url, "api_key": self.token, **known}


class Transport(Protocol):
    """Carries requests to one provider. Everything its SDK raises becomes a ProviderError."""

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


def sdk(name: str, extra: str) -> ModuleType:
    """A provider's SDK. ImportError, saying what to install, if it is not there."""
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f"this provider needs its SDK: pip install 'clew[{extra}]'") from error


def plain(event: Any) -> Json:
    """What an event of an SDK says, with the fields that its type does not know. ValueError if it is no event."""
    if not hasattr(event, "to_dict"):
        raise ValueError(f"an event is an object, not {type(event).__name__}")
    return event.to_dict(warnings=False)  # type: ignore[no-any-return]


class Progress:
    """Whether a response has begun: what goes wrong after that is told otherwise."""

    begun = False


@contextmanager
def translated(provider: str) -> Iterator[Progress]:
    """Turns what an SDK, the network or a malformed response raises into a ProviderError, with that as its cause."""
    progress = Progress()
    try:
        yield progress
    except ClewError:
        raise
    except Exception as error:
        if isinstance(error, OSError | ValueError) or type(error).__module__.partition(".")[0] in _SDKS:
            raise _error(provider, error, progress.begun) from error
        raise


_SDKS = ("anthropic", "openai", "google", "httpx", "httpx2", "httpcore", "httpcore2", "aiohttp")
_AGAIN = "Try again later."
_STATUS = {
    400: ("the request was refused", "What the provider said is the cause of this error."),
    401: ("the token was refused", "Check the token."),
    403: ("the token may not do this", "Check what the token is allowed to do."),
    404: ("there is no such model or address", "Check the model's name and the base URL."),
    413: ("the request is too large", "Begin a new conversation, or compact this one."),
    429: ("too many requests, or the quota is used up", _AGAIN),
}


def _error(provider: str, error: Exception, begun: bool) -> ProviderError:
    status = getattr(error, "status_code", None) or getattr(error, "code", None)
    if isinstance(status, int) and status >= 400:
        failed = ("the provider failed", _AGAIN) if status >= 500 else ("the request was refused", "")
        why, hint = _STATUS.get(status, failed)
        return ProviderError(provider, f"{why} ({status})", status=status, hint=hint)
    name = type(error).__name__
    if begun:
        return ProviderError(provider, f"the answer broke off ({name})", hint="What arrived is kept; go on from it.")
    if "Timeout" in name:
        return ProviderError(provider, "no answer came in time", hint=_AGAIN)
    if "Connect" in name:
        return ProviderError(provider, "it cannot be reached", hint="Check the network and the base URL.")
    return ProviderError(provider, f"there was no answer ({name})", hint=_AGAIN)
