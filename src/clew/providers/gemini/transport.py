"""Requests to Gemini, through the SDK of Google."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, closing
from typing import Any

from clew.providers.failures import translate_errors
from clew.providers.json_values import Json
from clew.providers.sdk_transport import load_sdk
from clew.providers.transport import Endpoint
from clew.providers.wire import load

API_VERSION = "v1beta"
"""The version that accepts JSON Schema for tools and answers."""
RETRIES = 2
"""The number of retries that the other SDKs make by default; this one makes none."""


class GeminiTransport:
    """Sends requests to Gemini."""

    def __init__(self, to: Endpoint) -> None:
        self._to = to
        self._types, self._sdk = _client(to)

    def send(self, body: Json) -> bytes:
        with translate_errors(self._to, body):
            response = self._sdk.models.generate_content(**_arguments(self._types, body))
            return str(response.sdk_http_response.body).encode()

    def stream(self, body: Json) -> Generator[Json, None, None]:
        asked = self._sdk._api_client.request_streamed(*_stream_request(body))
        with translate_errors(self._to, body) as progress, closing(asked) as chunks:
            for chunk in chunks:
                progress.begun = True
                yield load(chunk.body)

    def close(self) -> None:
        self._sdk.close()


class AsyncGeminiTransport:
    """Sends requests to Gemini."""

    def __init__(self, to: Endpoint) -> None:
        self._to = to
        self._types, self._sdk = _client(to)

    async def send(self, body: Json) -> bytes:
        with translate_errors(self._to, body):
            response = await self._sdk.aio.models.generate_content(**_arguments(self._types, body))
            return str(response.sdk_http_response.body).encode()

    async def stream(self, body: Json) -> AsyncGenerator[Json, None]:
        with translate_errors(self._to, body) as progress:
            async with aclosing(await self._sdk._api_client.async_request_streamed(*_stream_request(body))) as chunks:
                async for chunk in chunks:
                    progress.begun = True
                    yield load(chunk.body)

    async def close(self) -> None:
        await self._sdk.aio.aclose()


connect = GeminiTransport
connect_async = AsyncGeminiTransport


def _client(to: Endpoint) -> tuple[Any, Any]:
    genai = load_sdk(to)
    types = genai.types
    options = types.HttpOptions(
        base_url=to.base_url,
        api_version=API_VERSION,
        client_args={"follow_redirects": False},
        async_client_args={"follow_redirects": False, "allow_redirects": False},  # httpx's name, and aiohttp's
        timeout=None if to.timeout is None else round(to.timeout * 1000),
        retry_options=types.HttpRetryOptions(attempts=1 + (RETRIES if to.max_retries is None else to.max_retries)),
    )
    return types, genai.Client(api_key=to.token, vertexai=False, http_options=options)


def _arguments(types: Any, body: Json) -> dict[str, Any]:
    """The SDK's types refuse unknown fields, so the body bypasses them in both directions."""
    rest = {name: value for name, value in body.items() if name != "model"}
    config = types.GenerateContentConfig(
        http_options=types.HttpOptions(extra_body=rest), should_return_http_response=True
    )
    return {"model": body["model"], "contents": ".", "config": config}


def _stream_request(body: Json) -> tuple[str, str, Json]:
    """A streamed request for the SDK's own HTTP client: its typed stream drops unknown fields."""
    model = body["model"] if "/" in body["model"] else f"models/{body['model']}"
    rest = {name: value for name, value in body.items() if name != "model"}
    return "post", f"{model}:streamGenerateContent?alt=sse", rest
