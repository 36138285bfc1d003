"""Requests to OpenAI and to servers like it, through the SDK of OpenAI."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from typing import Any

from clew.chat.dialects import Json
from clew.chat.transports import Endpoint, plain, sdk
from clew.chat.transports.failures import translated

BASE_URL = "https://api.openai.com/v1"


class OpenAITransport:
    """Carries chat completions, or requests of the Responses API."""

    def __init__(self, to: Endpoint) -> None:
        self._to = to
        openai = sdk("openai", "openai")
        http = openai.DefaultHttpxClient(follow_redirects=False)
        self._sdk = _nobodys(openai.OpenAI(http_client=http, **to.settings()))
        self._calls = _resource(self._sdk, to.provider)

    def send(self, body: Json) -> bytes:
        with translated(self._to, body):
            return bytes(self._calls.with_raw_response.create(**_arguments(body)).http_response.content)

    def stream(self, body: Json) -> Generator[Json, None, None]:
        with translated(self._to, body) as progress, self._calls.create(**_arguments(body)) as events:
            for event in events:
                progress.begun = True
                yield plain(event)

    def close(self) -> None:
        self._sdk.close()

    def __del__(self) -> None:
        if hasattr(self, "_sdk"):  # the SDK only closes a client of its own making
            self.close()


class AsyncOpenAITransport:
    """Carries chat completions, or requests of the Responses API."""

    def __init__(self, to: Endpoint) -> None:
        self._to = to
        openai = sdk("openai", "openai")
        http = openai.DefaultAsyncHttpxClient(follow_redirects=False)
        self._sdk = _nobodys(openai.AsyncOpenAI(http_client=http, **to.settings()))
        self._calls = _resource(self._sdk, to.provider)

    async def send(self, body: Json) -> bytes:
        with translated(self._to, body):
            response = await self._calls.with_raw_response.create(**_arguments(body))
            return bytes(response.http_response.content)

    async def stream(self, body: Json) -> AsyncGenerator[Json, None]:
        with translated(self._to, body) as progress:
            async with await self._calls.create(**_arguments(body)) as events:
                async for event in events:
                    progress.begun = True
                    yield plain(event)

    async def close(self) -> None:
        await self._sdk.close()


def _nobodys(client: Any) -> Any:
    """Without the organisation and project of the environment, which are no business of another server."""
    client.organization = client.project = None
    return client


def _resource(client: Any, provider: str) -> Any:
    return client.responses if provider == "openai-responses" else client.chat.completions


def _arguments(body: Json) -> dict[str, Any]:
    """What the SDK insists on; the rest goes as it is, so that it need not know a field to send it."""
    named: dict[str, Any] = {name: body[name] for name in ("model", "messages", "input", "stream") if name in body}
    return {**named, "extra_body": {name: value for name, value in body.items() if name not in named}}
