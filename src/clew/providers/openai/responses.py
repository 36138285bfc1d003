"""OpenAI's Responses API without storage at the provider. Each item is a message; the first is the system prompt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from clew.base.messages import Text, Thinking, ToolCall, ToolResult
from clew.providers import wire
from clew.providers.json_values import Json
from clew.providers.openai.requests import CompletionsWire, open_async_client, open_client, result_text
from clew.providers.transport import (
    AsyncSDKTransport,
    AsyncTransport,
    Endpoint,
    SDKBase,
    SDKTransport,
    Transport,
    check_event,
    check_response,
)

_COUNTS = {
    "input": ["input_tokens"], "output": ["output_tokens"], "cached": ["input_tokens_details", "cached_tokens"],
    "reasoning": ["output_tokens_details", "reasoning_tokens"],
}  # fmt: skip
_RULES: wire.Rules = (
    (
        lambda item: "role" in item and item["role"] not in ("system", "developer", "user", "assistant"),
        "its role is unknown",
    ),
    (
        lambda item: "role" not in item and not isinstance(item.get("type"), str),
        "it has neither a role nor a type",
    ),
    (lambda item: item.get("type") == "message" and "role" not in item, "its role is unknown"),
    *wire.content_rules("content", unless=lambda item: "role" not in item),
    (
        lambda item: (
            item.get("type") in ("function_call", "function_call_output") and not isinstance(item.get("call_id"), str)
        ),
        "it does not say which tool call it is",
    ),
    *wire.content_rules("output", unless=lambda item: item.get("type") != "function_call_output"),
)
_CLOSING = ("response.completed", "response.incomplete")


class ResponsesWire(CompletionsWire):
    """Requests and answers of the Responses API."""

    results_in: wire.ResultsIn = "any message"

    def __init__(self) -> None:
        super().__init__("openai-responses", accepts=["openai-responses"])

    def results(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> list[bytes]:
        return [
            wire.dump({"type": "function_call_output", "call_id": call.id, "output": result_text(result)})
            for call, result in zip(calls, results, strict=True)
        ]

    def request(self, asked: wire.ChatRequest, *, stream: bool) -> Json:
        body: Json = {
            "model": asked.model,
            "input": [wire.load(raw) for raw in asked.messages],
            # Without storage at the provider, each request must contain everything, including reasoning.
            "store": False,
            "include": ["reasoning.encrypted_content"],
        }
        if asked.max_tokens is not None:
            body["max_output_tokens"] = asked.max_tokens
        if asked.tools:
            body["tools"] = [
                {
                    "type": "function", "name": tool.name, "description": tool.description,
                    "parameters": tool.parameters, "strict": False,
                }
                for tool in asked.tools
            ]  # fmt: skip
        if asked.schema is not None:
            body["text"] = {"format": {"type": "json_schema", "name": "answer", "schema": asked.schema}}
        return {**body, "stream": True} if stream else body

    def answer(self, body: bytes) -> wire.Answer:
        try:
            found = _body(body)
        except msgspec.MsgspecError:
            raise wire.unreadable(self.provider) from None
        return _answer([bytes(item) for item in found.output], found.usage, _stop(found), found.model)

    def collect(self) -> wire.Collector:
        return _Stream()

    def check(self, message: Json, *, first: bool = False) -> str | None:
        return wire.broken_rule(_RULES, message)

    def calls(self, message: Json) -> wire.CallIds:
        call = message.get("call_id")
        ids = [call] if isinstance(call, str) else []
        if message.get("type") == "function_call_output":
            return wire.CallIds([], ids, by_model=False)
        return wire.CallIds(ids, [], by_model=bool(ids) or message.get("role") == "assistant")


class _Body(msgspec.Struct):
    output: list[msgspec.Raw]
    usage: dict[str, Any] | None = None
    status: str | None = None
    incomplete_details: dict[str, Any] | None = None
    model: str | None = None


_body = msgspec.json.Decoder(_Body).decode


class _Stream:
    """The finished items, and the text of the unfinished one."""

    def __init__(self) -> None:
        self._items: dict[int, Json] = {}
        self._words: dict[int, str] = {}
        self._closing: Json | None = None

    def feed(self, event: Json) -> Iterator[Text | Thinking]:
        kind, at = event.get("type"), event.get("output_index", 0)
        if kind in ("response.output_text.delta", "response.refusal.delta"):
            self._words[at] = self._words.get(at, "") + event["delta"]
            yield Text(text=event["delta"])
        elif kind in ("response.reasoning_summary_text.delta", "response.reasoning_text.delta"):
            yield Thinking(text=event["delta"])
        elif kind == "response.output_item.done":
            self._items[at] = event["item"]
        elif kind in _CLOSING:
            self._closing = event["response"]

    def answer(self) -> wire.Answer | None:
        if self._closing is None:
            return None
        found = _body(wire.dump({"output": [], **self._closing}))
        items = [wire.dump(item) for _, item in sorted(self._items.items())]
        return _answer(items, found.usage, _stop(found), found.model)

    def partial_messages(self) -> list[bytes]:
        # The API accepts reasoning only together with the item after it, so keep only the text.
        words = "".join(text for _, text in sorted(self._words.items()))
        return [wire.dump({"role": "assistant", "content": words})] if words else []


def _stop(body: _Body) -> str | None:
    return (body.incomplete_details or {}).get("reason") or body.status


def _answer(items: list[bytes], used: Json | None, stop: str | None, model: str | None) -> wire.Answer:
    return wire.answer("openai", items, usage=wire.read_usage(used, _COUNTS), stop=stop, model=model)


def wire_format(provider: str) -> wire.WireFormat:
    """The format of requests and answers."""
    return ResponsesWire()


def connect(to: Endpoint) -> Transport:
    """A transport for the Responses API."""
    client = open_client(to)
    return _ResponsesTransport(to, client, client.responses)


def connect_async(to: Endpoint) -> AsyncTransport:
    """`connect`, for async programs."""
    client = open_async_client(to)
    return _AsyncResponsesTransport(to, client, client.responses)


class _ResponsesBase(SDKBase):
    """The Responses API reports a failed model in a response with status 200: ProviderError."""

    def check(self, body: Json, response: Any) -> bytes:
        content = super().check(body, response)
        if b'"failed"' in content:
            with suppress(ValueError):  # not JSON: the wire format raises an error
                found = wire.load(content)
                check_response(self._to, body, found if isinstance(found, dict) else {})
        return content

    def check_event(self, body: Json, event: Any) -> Json:
        found = super().check_event(body, event)
        check_event(self._to, body, found)
        return found


class _ResponsesTransport(_ResponsesBase, SDKTransport):
    pass


class _AsyncResponsesTransport(_ResponsesBase, AsyncSDKTransport):
    pass
