"""OpenAI's chat completions, which many other servers support too: requests, answers, and how they are sent.

The system prompt is the first message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from clew.base.messages import Text, Thinking, ToolCall, ToolResult
from clew.providers import wire
from clew.providers.json_values import Json
from clew.providers.registry import COMPATIBLE, OFFLINE
from clew.providers.transport import (
    AsyncSDKTransport,
    AsyncTransport,
    Endpoint,
    SDKTransport,
    Transport,
    load_sdk,
)

_COUNTS = {
    "input": ["prompt_tokens"], "output": ["completion_tokens"],
    "cached": ["prompt_tokens_details", "cached_tokens"],
    "reasoning": ["completion_tokens_details", "reasoning_tokens"],
}  # fmt: skip
_INSTEAD = ("tool_calls", "function_call", "refusal", "audio", "reasoning_content", "reasoning")
"""The fields of an answer that may come without content."""
_RULES: wire.Rules = (
    (
        lambda message: message.get("role") not in ("system", "developer", "user", "assistant", "tool", "function"),
        "its role is unknown",
    ),
    (
        lambda message: not all(map(_is_call, _calls(message))),
        "its tool calls are not a list of calls with ids",
    ),
    (
        lambda message: message["role"] == "tool" and not isinstance(message.get("tool_call_id"), str),
        "it does not say which tool call it answers",
    ),
    (
        lambda message: message["role"] == "assistant" and not _says_something(message),
        "it has neither content nor tool calls",
    ),
    *wire.content_rules(
        "content",
        unless=lambda message: message.get("content") is None and message["role"] in ("assistant", "function"),
    ),
)


class CompletionsWire:
    """Requests and answers of chat completions, for messages of `provider`."""

    results_in: wire.ResultsIn = "next messages"

    def __init__(self, provider: str, *, accepts: Iterable[str] = ("openai", COMPATIBLE)) -> None:
        self.provider = provider
        self.accepts = frozenset(accepts)

    def user(self, text: str) -> bytes:
        return wire.dump({"role": "user", "content": text})

    def opening_messages(self, system: str) -> list[bytes]:
        return [wire.dump({"role": "system", "content": system})] if system else []

    def history_prefix(self, system: str) -> list[bytes]:
        return []

    def place_system(self, messages: list[bytes], system: str) -> tuple[list[bytes], str]:
        first = wire.load(messages[0]) if messages else {}
        if first.get("role") not in ("system", "developer"):
            return [*self.opening_messages(system), *messages], system
        content = first.get("content")
        return messages, content if isinstance(content, str) else system

    def results(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> list[bytes]:
        return [
            wire.dump({"role": "tool", "tool_call_id": call.id, "content": result_text(result)})
            for call, result in zip(calls, results, strict=True)
        ]

    def request(self, asked: wire.ChatRequest, *, stream: bool) -> Json:
        body: Json = {"model": asked.model, "messages": [wire.load(raw) for raw in asked.messages]}
        if asked.max_tokens is not None:
            # Other servers support only the older name.
            body["max_completion_tokens" if self.provider == "openai" else "max_tokens"] = asked.max_tokens
        if asked.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
                }
                for tool in asked.tools
            ]
        if asked.schema is not None:
            wanted = {"name": "answer", "schema": asked.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": wanted}
        return {**body, "stream": True, "stream_options": {"include_usage": True}} if stream else body

    def answer(self, body: bytes) -> wire.Answer:
        try:
            found = _body(body)
            first = found.choices[0]
        except (msgspec.MsgspecError, IndexError):
            raise wire.unreadable(self.provider) from None
        return self._answer([bytes(first.message)], found.usage, first.finish_reason, found.model)

    def collect(self) -> wire.Collector:
        return _Stream(self)

    def check(self, message: Json, *, first: bool = False) -> str | None:
        return wire.broken_rule(_RULES, message)

    def calls(self, message: Json) -> wire.CallIds:
        answered = [message["tool_call_id"]] if message["role"] == "tool" else []
        return wire.CallIds([call["id"] for call in _calls(message)], answered, message["role"] == "assistant")

    def _answer(self, messages: list[bytes], used: Json | None, stop: str | None, model: str | None) -> wire.Answer:
        return wire.answer(self.provider, messages, usage=wire.read_usage(used, _COUNTS), stop=stop, model=model)


def _calls(message: Json) -> list[Any]:
    calls = message.get("tool_calls") or []
    return calls if isinstance(calls, list) else [calls]


def _says_something(message: Json) -> bool:
    return message.get("content") is not None or any(message.get(name) for name in _INSTEAD)


def _is_call(call: object) -> bool:
    if not isinstance(call, dict) or not isinstance(call.get("id"), str):
        return False
    about = call.get("custom" if call.get("type") == "custom" else "function")
    return isinstance(about, dict) and isinstance(about.get("name"), str)


class _Choice(msgspec.Struct):
    message: msgspec.Raw
    finish_reason: str | None = None


class _Body(msgspec.Struct):
    choices: list[_Choice]
    usage: dict[str, Any] | None = None
    model: str | None = None


_body = msgspec.json.Decoder(_Body).decode


class _Stream:
    """A message assembled from the deltas of chunks."""

    def __init__(self, completions: CompletionsWire) -> None:
        self._completions = completions
        self._message: Json = {"role": "assistant", "content": None}
        self._calls: list[Json] = []
        self._counted: dict[int, Json] = {}
        """The calls by the numbers that the server gives them."""
        self._usage: Json | None = None
        self._stop: str | None = None
        self._model: str | None = None

    def feed(self, event: Json) -> Iterator[Text | Thinking]:
        self._model = event.get("model") or self._model
        self._usage = event.get("usage") or self._usage
        for choice in event.get("choices") or ():
            if choice.get("index", 0) != 0:
                continue
            self._stop = choice.get("finish_reason") or self._stop
            delta = dict(choice.get("delta") or {})
            for call in delta.pop("tool_calls", None) or ():
                added = {name: value for name, value in call.items() if name != "index"}
                _join(self._call(call.get("index"), call.get("id")), added)
            delta.pop("role", None)
            _join(self._message, delta)
            yield from _display_blocks(delta)

    def answer(self) -> wire.Answer | None:
        if self._stop is None:
            return None
        message = {**self._message, "tool_calls": self._calls} if self._calls else self._message
        return self._completions._answer([wire.dump(message)], self._usage, self._stop, self._model)

    def partial_messages(self) -> list[bytes]:
        return [wire.dump(self._message)] if self._message.get("content") else []

    def _call(self, number: object, id: object) -> Json:
        """The call that a piece belongs to. Some servers give all calls of an answer the same number, or none."""
        there = self._calls[-1] if self._calls else None
        if isinstance(number, int):
            there = self._counted.get(number)
        if there is None or (id and there.get("id", id) != id):
            there = {}
            self._calls.append(there)
        if isinstance(number, int):
            self._counted[number] = there
        return there


def _join(into: Json, added: Json) -> None:
    """Merges a delta: appends text and lists, merges inner objects, and replaces other values.

    Ids and kinds are replaced, not appended: some servers repeat them, and the name, in every piece.
    """
    for name, value in added.items():
        there = into.get(name)
        if there and (value == "" or (name == "name" and value == there)):
            continue
        if isinstance(value, dict) and isinstance(there, dict):
            _join(there, value)
        elif _can_append(there, value) and name not in ("id", "type"):
            into[name] = there + value
        elif value is not None or name not in into:
            into[name] = dict(value) if isinstance(value, dict) else value


def _can_append(there: object, value: object) -> bool:
    return any(isinstance(there, kind) and isinstance(value, kind) for kind in (str, list))


def _display_blocks(delta: Json) -> Iterator[Text | Thinking]:
    for name in ("reasoning_content", "reasoning"):  # of servers that send the reasoning of their models
        if isinstance(words := delta.get(name), str) and words:
            yield Thinking(text=words)
    for name in ("content", "refusal"):
        if isinstance(words := delta.get(name), str) and words:
            yield Text(text=words)


def result_text(result: ToolResult) -> str:
    """A tool's result as text, which must also say that it is an error: there is no flag for it."""
    return f"Error: {wire.text_of(result)}" if result.is_error else wire.text_of(result)


def wire_format(provider: str) -> wire.WireFormat:
    """The format of requests and answers."""
    return CompletionsWire(provider, accepts=[OFFLINE]) if provider == OFFLINE else CompletionsWire(provider)


def connect(to: Endpoint) -> Transport:
    """A transport for chat completions."""
    client = open_client(to)
    return SDKTransport(to, client, client.chat.completions)


def connect_async(to: Endpoint) -> AsyncTransport:
    """`connect`, for async programs."""
    client = open_async_client(to)
    return AsyncSDKTransport(to, client, client.chat.completions)


def open_client(to: Endpoint) -> Any:
    """A client of the SDK."""
    openai = load_sdk(to)
    http = openai.DefaultHttpxClient(follow_redirects=False)
    return _without_organization(openai.OpenAI(http_client=http, **to.settings()))


def open_async_client(to: Endpoint) -> Any:
    """A client of the SDK for async programs."""
    openai = load_sdk(to)
    http = openai.DefaultAsyncHttpxClient(follow_redirects=False)
    return _without_organization(openai.AsyncOpenAI(http_client=http, **to.settings()))


def _without_organization(client: Any) -> Any:
    """The SDK takes organization and project from the environment; other servers must not learn them."""
    client.organization = client.project = None
    return client
