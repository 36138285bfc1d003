"""How a request reaches its provider and the response comes back: through the provider's own SDK, which also retries.

An SDK is imported when a client needs it. It always gets an address and an API key, so that it takes neither from the
environment. No SDK follows redirects: the address was checked, the address that it points to was not.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from typing import NamedTuple, Protocol

from clew.providers.json_values import Json


class Endpoint(NamedTuple):
    """Where requests go, and with which API key. Its repr does not show the key."""

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
        """The arguments that the SDKs of Anthropic and OpenAI share."""
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
