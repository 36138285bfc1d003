"""Sends requests through the provider's SDK, which also retries.

An SDK is imported when a client needs it. It always gets a base URL and an API key, so that it reads neither from the
environment. Redirects are not followed, because only the original address was checked.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from typing import NamedTuple, Protocol

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
