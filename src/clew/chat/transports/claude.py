"""Requests to Claude, through the SDK of Anthropic."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from typing import Any

from clew.chat.dialects import Json
from clew.chat.transports import Endpoint, plain, sdk, translated

BASE_URL = "https://api.anthropic.com"


class ClaudeTransport:
    """Carries requests to Claude."""

    def __init__(self, to: Endpoint) -> None:
        self._provider = to.provider
        self._sdk = sdk("anthropic", "anthropic").Anthropic(**to.settings())

    def send(self, body: Json) -> bytes:
        with translated(self._provider):
            response = self._sdk.messages.with_raw_response.create(**_arguments(body))
            return bytes(response.http_response.content)

    def stream(self, body: Json) -> Generator[Json, None, None]:
        with translated(self._provider) as progress, self._sdk.messages.create(**_arguments(body)) as events:
            for event in events:
                progress.begun = True
                yield plain(event)

    def close(self) -> None:
        self._sdk.close()


class AsyncClaudeTransport:
    """Carries requests to Claude."""

    def __init__(self, to: Endpoint) -> None:
        self._provider = to.provider
        self._sdk = sdk("anthropic", "anthropic").AsyncAnthropic(**to.settings())

    async def send(self, body: Json) -> bytes:
        with translated(self._provider):
            response = await self._sdk.messages.with_raw_response.create(**_arguments(body))
            return bytes(response.http_response.content)

    async def stream(self, body: Json) -> AsyncGenerator[Json, None]:
        with translated(self._provider) as progress:
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
