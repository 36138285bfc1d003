"""Anthropic's Messages API: requests, answers, and how they are sent. The system prompt has a field of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from clew.base.messages import Text, Thinking, ToolCall, ToolResult
from clew.providers import wire
from clew.providers.json_values import Json
from clew.providers.transport import AsyncSDKTransport, AsyncTransport, Endpoint, SDKTransport, Transport, load_sdk

MAX_TOKENS = 8192
"""Default maximum tokens of an answer: the API requires a number."""
_ENVELOPE = frozenset({"id", "type", "model", "stop_reason", "stop_sequence", "usage"})
"""The fields of an answer other than role and content."""
_RULES: wire.Rules = (
    (lambda message: message.get("role") not in ("user", "assistant", "system"), "its role is unknown"),
    *wire.content_rules("content"),
    (lambda message: not message["content"], "its content is empty"),
    (
        lambda message: any(
            block["type"] == "tool_result" and not isinstance(block.get("tool_use_id"), str)
            for block in wire.blocks(message)
        ),
        "it does not say which tool call it answers",
    ),
    (
        lambda message: not all(map(_is_call, (one for one in wire.blocks(message) if one["type"] == "tool_use"))),
        "it has a tool call without an id, a name or an input object",
    ),
    (
        lambda message: any(
            block["type"] == "thinking" and not isinstance(block.get("signature"), str)
            for block in wire.blocks(message)
        ),
        "it has thinking without a signature",
    ),
    (
        lambda message: not _ENVELOPE.isdisjoint(message),
        "it has fields of an answer that no request can have, such as usage",
    ),
)
_COUNTS = {"input": ["input_tokens"], "output": ["output_tokens"], "cached": ["cache_read_input_tokens"],
           "cache_write": ["cache_creation_input_tokens"]}  # fmt: skip


class ClaudeWire:
    """Requests and answers of the Messages API."""

    provider = "claude"
    accepts = frozenset({"claude"})
    results_in: wire.ResultsIn = "next turn"

    def user(self, text: str) -> bytes:
        return wire.dump({"role": "user", "content": text})

    def opening_messages(self, system: str) -> list[bytes]:
        return []

    def history_prefix(self, system: str) -> list[bytes]:
        return []

    def place_system(self, messages: list[bytes], system: str) -> tuple[list[bytes], str]:
        return messages, system

    def results(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> list[bytes]:
        blocks: list[Json] = []
        for call, result in zip(calls, results, strict=True):
            block = {"type": "tool_result", "tool_use_id": call.id, "content": wire.text_of(result)}
            blocks.append({**block, "is_error": True} if result.is_error else block)
        return [wire.dump({"role": "user", "content": blocks})]

    def request(self, asked: wire.ChatRequest, *, stream: bool) -> Json:
        body: Json = {
            "model": asked.model,
            "max_tokens": asked.max_tokens or MAX_TOKENS,
            "messages": [wire.load(raw) for raw in asked.messages],
        }
        if asked.system:
            body["system"] = asked.system
        if asked.tools:
            body["tools"] = [
                {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
                for tool in asked.tools
            ]
        if asked.schema is not None:
            body["output_config"] = {"format": {"type": "json_schema", "schema": asked.schema}}
        return {**body, "stream": True} if stream else body

    def answer(self, body: bytes) -> wire.Answer:
        try:
            found = _body(body)
        except msgspec.MsgspecError:
            raise wire.unreadable(self.provider) from None
        message = b'{"role":"assistant","content":' + bytes(found.content) + b"}"
        return _answer([message], found.usage, found.stop_reason, found.model)

    def collect(self) -> wire.Collector:
        return _Stream()

    def check(self, message: Json, *, first: bool = False) -> str | None:
        if first and message.get("role") == "system":
            return "the system prompt is not a message: it is the snapshot's system_prompt"
        if first and message.get("role") == "assistant":
            return "the first message must be the user's"
        return wire.broken_rule(_RULES, message)

    def calls(self, message: Json) -> wire.CallIds:
        blocks = wire.blocks(message)
        made = [block["id"] for block in blocks if block["type"] == "tool_use"]
        answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        return wire.CallIds(made, answered, message["role"] == "assistant")


def _is_call(block: Json) -> bool:
    return (
        isinstance(block.get("id"), str) and isinstance(block.get("name"), str) and isinstance(block.get("input"), dict)
    )


class _Body(msgspec.Struct):
    content: msgspec.Raw
    usage: dict[str, Any] | None = None
    stop_reason: str | None = None
    model: str | None = None


_body = msgspec.json.Decoder(_Body).decode


class _Stream:
    """An answer's blocks, each with its deltas."""

    def __init__(self) -> None:
        self._blocks: dict[int, Json] = {}
        self._written: dict[int, list[str]] = {}
        """The pieces of a tool call's arguments as JSON."""
        self._closed: set[int] = set()
        self._usage: Json = {}
        self._stop: str | None = None
        self._model: str | None = None
        self._whole = False

    def feed(self, event: Json) -> Iterator[Text | Thinking]:
        kind, at = event.get("type"), event.get("index", 0)
        if kind == "message_start":
            self._model = event["message"].get("model")
            self._usage.update(event["message"].get("usage") or {})
        elif kind == "content_block_start":
            self._blocks[at] = block = dict(event["content_block"])
            yield from _display_blocks(block.get("type"), block)
        elif kind == "content_block_delta":
            yield from self._delta(at, event["delta"])
        elif kind == "content_block_stop":
            self._close(at)
        elif kind == "message_delta":
            self._stop = event["delta"].get("stop_reason")
            self._usage.update({name: value for name, value in (event.get("usage") or {}).items() if value is not None})
        elif kind == "message_stop":
            self._whole = True

    def answer(self) -> wire.Answer | None:
        if not self._whole:
            return None
        return _answer([_assistant(list(self._blocks.values()))], self._usage, self._stop, self._model)

    def partial_messages(self) -> list[bytes]:
        blocks = [block for at, block in self._blocks.items() if self._keeps(at, block)]
        return [_assistant(blocks)] if any(block["type"] == "text" for block in blocks) else []

    def _delta(self, at: int, delta: Json) -> Iterator[Text | Thinking]:
        block, kind = self._blocks[at], delta.get("type")
        if kind == "input_json_delta":
            self._written.setdefault(at, []).append(delta["partial_json"])
        elif kind == "citations_delta":
            block["citations"] = [*(block.get("citations") or []), delta["citation"]]
        else:
            for name, value in delta.items():
                if name != "type":
                    together = isinstance(value, str) and isinstance(block.get(name), str)
                    block[name] = block[name] + value if together else value
            yield from _display_blocks(block.get("type"), delta)

    def _close(self, at: int) -> None:
        self._closed.add(at)
        written = "".join(self._written.get(at, ()))
        if written:
            try:
                self._blocks[at]["input"] = wire.load(written)
            except ValueError:  # truncated at the token limit; the tool will report that its arguments do not fit
                self._blocks[at]["input"] = {"": written}

    def _keeps(self, at: int, block: Json) -> bool:
        if block.get("type") == "text":
            return bool(block.get("text"))
        # The API does not accept thinking without its signature, which comes last.
        return block.get("type") in ("thinking", "redacted_thinking") and at in self._closed


def _display_blocks(kind: object, piece: Json) -> Iterator[Text | Thinking]:
    if kind == "text" and piece.get("text"):
        yield Text(text=piece["text"])
    elif kind == "thinking" and piece.get("thinking"):
        yield Thinking(text=piece["thinking"])


def _assistant(blocks: list[Json]) -> bytes:
    return wire.dump({"role": "assistant", "content": blocks})


def _answer(messages: list[bytes], used: Json | None, stop: str | None, model: str | None) -> wire.Answer:
    usage = wire.read_usage(used, _COUNTS)
    return wire.answer("claude", messages, usage=usage, stop=stop, model=model, again=stop == "pause_turn")


def wire_format(provider: str) -> wire.WireFormat:
    """The format of requests and answers."""
    return ClaudeWire()


def connect(to: Endpoint) -> Transport:
    """A transport to Claude."""
    anthropic = load_sdk(to)
    http = anthropic.DefaultHttpxClient(follow_redirects=False)
    client = anthropic.Anthropic(http_client=http, **to.settings())
    return SDKTransport(to, client, client.messages)


def connect_async(to: Endpoint) -> AsyncTransport:
    """`connect`, for async programs."""
    anthropic = load_sdk(to)
    http = anthropic.DefaultAsyncHttpxClient(follow_redirects=False)
    client = anthropic.AsyncAnthropic(http_client=http, **to.settings())
    return AsyncSDKTransport(to, client, client.messages)
