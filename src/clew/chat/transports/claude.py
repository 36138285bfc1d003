"""Requests to Claude, through the SDK of Anthropic."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from typing import Any

from clew.chat.dialects import Json
from clew.chat.transports import Endpoint, plain, sdk
from clew.chat.transports.failures import translated

BASE_URL = "https://api.anthropic.com"


class ClaudeTransport:
    """Carries requests to Claude."""

    def __init__(self, to: Endpoint) -> None:
        self._to = to
        anthropic = sdk("anthropic", "anthropic")
        http = anthropic.DefaultHttpxClient(follow_redirects=False)
        self._sdk = anthropic.Anthropic(http_client=http, **to.settings())

    def send(self, body: Json) -> bytes:
        with translated(self._to, body):
            response = self._sdk.messages.with_raw_response.create(**_arguments(body))
            return bytes(response.http_response.content)

    def stream(self, body: Json) -> Generator[Json, None, None]:
        with translated(self._to, body) as progress, self._sdk.messages.create(**_arguments(body)) as events:
            for event in events:
                progress.begun = True
                yield plain(event)

    def close(self) -> None:
        self._sdk.close()

    def __del__(self) -> None:
        if hasattr(self, "_sdk"):  # the SDK only closes a client of its own making
            self.close()


class AsyncClaudeTransport:
    """Carries requests to Claude."""

    def __init__(self, to: Endpoint) -> None:
        self._to = to
        anthropic = sdk("anthropic", "anthropic")
        http = anthropic.DefaultAsyncHttpxClient(follow_redirects=False)
        self._sdk = anthropic.AsyncAnthropic(http_client=http, **to.settings())

    async def send(self, body: Json) -> bytes:
        with translated(self._to, body):
            response = await self._sdk.messages.with_raw_response.create(**_arguments(body))
            return bytes(response.http_response.content)

    async def stream(self, body: Json) -> AsyncGenerator[Json, None]:
        with translated(self._to, body) as progress:
            async with await self._sdk.messages.create(**_arguments(body)) as events:
                async for event in events:
                    progress.begun = True
                    yield plain(event)

    async def close(self) -> None:
        await self._sdk.close()


def _arguments(body: Json) -> dict[str, Any]:
    """What the SDK insists on; the rest goes as it is, so that it need not know a field to send it."""
    named: dict[str, Any] = {name: body[name] for name in ("model", "max_tokens", "messages", "stream") if name in body}
    return {**named, "extra_body": {name: value for name, value in body.items() if name not in named}}
