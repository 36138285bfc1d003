"""Google's Gemini API: requests, answers, and how they are sent.

The system prompt is part of the configuration, and the history shows it first.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Iterator, Sequence
from contextlib import aclosing, closing
from typing import Any

import msgspec

from clew.base.messages import Text, Thinking, ToolCall, ToolResult
from clew.providers import wire
from clew.providers.json_values import Json
from clew.providers.transport import Endpoint, load_sdk, translate_errors
from clew.providers.wire import load

_RULES: wire.Rules = (
    (
        lambda message: message.get("role", "user") not in ("user", "model", "function"),
        "its role is neither user nor model",
    ),
    (
        lambda message: (
            not isinstance(parts := message.get("parts"), list) or not all(isinstance(part, dict) for part in parts)
        ),
        "its parts are not a list of objects",
    ),
    (lambda message: not message["parts"] or not all(message["parts"]), "it has no parts, or an empty one"),
)
_COUNTS = {
    "input": ["promptTokenCount"], "output": ["candidatesTokenCount"], "cached": ["cachedContentTokenCount"],
    "reasoning": ["thoughtsTokenCount"],
}  # fmt: skip


class GeminiWire:
    """Requests and answers of the Gemini API."""

    provider = "gemini"
    accepts = frozenset({"gemini"})
    results_in: wire.ResultsIn = "next message"

    def user(self, text: str) -> bytes:
        return wire.dump({"role": "user", "parts": [{"text": text}]})

    def opening_messages(self, system: str) -> list[bytes]:
        return []

    def history_prefix(self, system: str) -> list[bytes]:
        return [wire.dump({"role": "system", "parts": [{"text": system}]})] if system else []

    def place_system(self, messages: list[bytes], system: str) -> tuple[list[bytes], str]:
        return messages, system

    def results(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> list[bytes]:
        parts = []
        for call, result in zip(calls, results, strict=True):
            answered = {"name": call.name, "response": {"error" if result.is_error else "result": wire.text_of(result)}}
            # A call without an id is identified by its name, and its result by its position.
            parts.append({"functionResponse": answered if call.id == call.name else {"id": call.id, **answered}})
        return [wire.dump({"role": "user", "parts": parts})]

    def request(self, asked: wire.ChatRequest, *, stream: bool) -> Json:
        body: Json = {"model": asked.model, "contents": [wire.load(raw) for raw in asked.messages]}
        if asked.system:
            body["systemInstruction"] = {"parts": [{"text": asked.system}]}
        if asked.tools:
            functions = [
                {"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.parameters}
                for tool in asked.tools
            ]
            body["tools"] = [{"functionDeclarations": functions}]
        config: Json = {}
        if asked.max_tokens is not None:
            config["maxOutputTokens"] = asked.max_tokens
        if asked.schema is not None:
            config |= {"responseMimeType": "application/json", "responseJsonSchema": asked.schema}
        return {**body, "generationConfig": config} if config else body

    def answer(self, body: bytes) -> wire.Answer:
        try:
            found = _body(body)
        except msgspec.MsgspecError:
            raise wire.unreadable(self.provider) from None
        if not found.candidates:
            if not found.feedback:
                raise wire.unreadable(self.provider)
            return _answer([], found.usage, found.feedback.get("blockReason"), found.model)
        first = found.candidates[0]
        messages = [bytes(first.content)] if bytes(first.content) else []
        return _answer(messages, found.usage, first.reason, found.model)

    def collect(self) -> wire.Collector:
        return _Stream()

    def check(self, message: Json, *, first: bool = False) -> str | None:
        return wire.broken_rule(_RULES, message)

    def calls(self, message: Json) -> wire.CallIds:
        # Ids are optional; a result always has the name of the function.
        by_model = message.get("role") == "model"
        return wire.CallIds(_names(message, "functionCall"), _names(message, "functionResponse"), by_model)


def _names(message: Json, kind: str) -> list[str]:
    found = (part.get(kind) for part in message["parts"])
    return [one["name"] for one in found if isinstance(one, dict) and isinstance(one.get("name"), str)]


class _Candidate(msgspec.Struct):
    content: msgspec.Raw = msgspec.Raw(b"")
    reason: str | None = msgspec.field(default=None, name="finishReason")


class _Body(msgspec.Struct):
    candidates: list[_Candidate] | None = None
    usage: dict[str, Any] | None = msgspec.field(default=None, name="usageMetadata")
    feedback: dict[str, Any] | None = msgspec.field(default=None, name="promptFeedback")
    model: str | None = msgspec.field(default=None, name="modelVersion")


_body = msgspec.json.Decoder(_Body).decode


class _Stream:
    """The parts of an answer; consecutive text becomes one part."""

    def __init__(self) -> None:
        self._parts: list[Json] = []
        self._usage: Json | None = None
        self._stop: str | None = None
        self._model: str | None = None

    def feed(self, event: Json) -> Iterator[Text | Thinking]:
        self._model = event.get("modelVersion") or self._model
        self._usage = event.get("usageMetadata") or self._usage
        self._stop = (event.get("promptFeedback") or {}).get("blockReason") or self._stop
        for candidate in (event.get("candidates") or ())[:1]:
            self._stop = candidate.get("finishReason") or self._stop
            for part in (candidate.get("content") or {}).get("parts") or ():
                self._add(part)
                if isinstance(words := part.get("text"), str) and words:
                    yield Thinking(text=words) if part.get("thought") else Text(text=words)

    def answer(self) -> wire.Answer | None:
        if self._stop is None:
            return None
        return _answer([_content(self._parts)] if self._parts else [], self._usage, self._stop, self._model)

    def partial_messages(self) -> list[bytes]:
        parts = [part for part in self._parts if part.get("text")]
        return [_content(parts)] if any(not part.get("thought") for part in parts) else []

    def _add(self, part: Json) -> None:
        last = self._parts[-1] if self._parts else {}
        # A part with a signature must not change.
        if _words(part) and _words(last) and part.get("thought") == last.get("thought"):
            last["text"] += part["text"]
        elif part:
            self._parts.append(dict(part))


def _words(part: Json) -> bool:
    return "text" in part and part.keys() <= {"text", "thought"}


def _content(parts: list[Json]) -> bytes:
    return wire.dump({"role": "model", "parts": parts})


def _answer(messages: list[bytes], used: Json | None, stop: str | None, model: str | None) -> wire.Answer:
    return wire.answer("gemini", messages, usage=wire.read_usage(used, _COUNTS), stop=stop, model=model)


def wire_format(provider: str) -> wire.WireFormat:
    """The format of requests and answers."""
    return GeminiWire()


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
