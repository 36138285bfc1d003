"""How a request reaches its provider and the response comes back: through the provider's own SDK, which also retries.

An SDK is imported when a client that needs it is made. Address and token are always given to it, so that it takes
neither from the environment. No SDK follows a redirect: the address was checked, and where it points to was not.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from types import ModuleType
from typing import Any, NamedTuple, Protocol

from clew.chat.dialects import Json


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
