"""OpenTelemetry: model calls in OTLP JSON, one export request on each line, or one in a document.

A span or a log record of a call has the messages that went in and came out (``gen_ai.input.messages``,
``gen_ai.output.messages``). The input repeats the conversation so far: a message is named by its content and the
message before it, so that it is one message however often it is repeated. Messages have no bytes of their own: the
lines are kept as they are. Spans of agents and tools repeat what their calls say, and are only kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from clew.providers.json_values import Json, as_dict, as_list, decoded
from clew.providers.view import parse
from clew.sources.contract import About, Entry, Home, Part, Skip, derived_id
from clew.sources.documents import read_document
from clew.sources.items import Item
from clew.sources.lines import json_lines
from clew.sources.values import composed, digest, nonblank, object_or_empty, tokens, when

NAME = "otel"
_INPUT, _OUTPUT, _SYSTEM = "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions"
_REPEATS = ("invoke_agent", "create_agent", "execute_tool", "invoke_workflow", "embeddings")
_MOST_WAITING = 64 * 1024 * 1024
"""Bytes of lines at most that wait for the first conversation of a file."""


class OTel:
    """See `clew.sources.contract.Source`."""

    name = NAME
    title = "OpenTelemetry GenAI"
    deletes_after = None

    def discover(self, home: Home) -> tuple[str, ...]:
        return ()

    def resume(self, conversation: str) -> None:
        return None

    def recognise(self, path: str, head: bytes) -> bool:
        is_otlp = b'"resourceSpans"' in head or b'"resourceLogs"' in head
        return head.lstrip()[:1] == b"{" and is_otlp and b"gen_ai." in head

    def read(self, item: Item) -> Iterator[Part]:
        reader = _Reader()
        first, newline, _ = item.head().partition(b"\n")
        name = item.member or item.path
        if name.endswith(".jsonl") or (newline and object_or_empty(first)):
            return reader.lines(item)
        return read_document(item, reader.document)


class _Call(NamedTuple):
    """A model call: its conversation, whether the source names it, what was said, and what it cost."""

    conversation: str
    is_named: bool
    input: list[Json]
    output: list[Json]
    start: datetime | None
    end: datetime | None
    model: str | None
    usage: dict[str, int] | None


class _Reader:
    """One file on its way. Memory grows with the number of messages, not with their bytes."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        """Ids of messages."""
        self._tails: dict[str, str] = {}
        """For each conversation: its last message."""
        self._current: str | None = None
        self._waiting: list[Entry] = []

    def lines(self, item: Item) -> Iterator[Part]:
        for line in json_lines(item):
            if isinstance(line, Skip):
                yield line
            else:
                yield from self._request(line.number, line.data, line.fields)
        yield from self._end()

    def document(self, raw: bytes) -> Iterator[Part]:
        yield from self._request(1, raw, parse(raw))
        yield from self._end()

    def _end(self) -> Iterator[Part]:
        if self._waiting:
            yield Skip(None, "no model call with messages")

    def _request(self, number: int, raw: bytes, fields: Json) -> Iterator[Part]:
        """One export request. A record without a conversation is kept with the conversation before it, or the first."""
        calls = list(_calls(fields))
        self._current = calls[0].conversation if calls else self._current
        record = Entry(conversation=self._current or "", raw=raw, key=f"line {number}")
        if self._current is None:
            self._waiting.append(record)
            if sum(len(one.raw) for one in self._waiting) > _MOST_WAITING:
                self._waiting = [record]
                yield Skip(number, "the lines before it have no model call with messages")
            return
        for waiting in self._waiting:
            yield msgspec.structs.replace(waiting, conversation=self._current)
        self._waiting = []
        yield record
        for call in calls:
            yield from self._call(call)

    def _call(self, call: _Call) -> Iterator[Part]:
        key, parent = "", None
        said = [(message, call.start, False) for message in call.input]
        said += [(message, call.end, True) for message in call.output]
        for at, (message, time, is_output) in enumerate(said):
            key = digest(key, _canonical(message))
            id = derived_id(NAME, call.conversation, key)
            if id not in self._seen:
                self._seen.add(id)
                is_last = at == len(said) - 1 and is_output
                yield Entry(
                    conversation=call.conversation,
                    raw=b"",
                    key=key,
                    id=id,
                    message=composed(
                        NAME, message, model=call.model if is_output else None, usage=call.usage if is_last else None
                    ),
                    parent=parent,
                    derived=self._tails.get(call.conversation) if parent is None and call.is_named else None,
                    created_at=time,
                )
            parent = id
        if parent is not None:
            self._tails[call.conversation] = parent
            yield About(conversation=call.conversation, model=call.model, head=parent)


def _calls(request: Json) -> Iterator[_Call]:
    """The model calls in the spans, their events, and the log records of an export request."""
    for outer, scoped, listed in (
        ("resourceSpans", "scopeSpans", "spans"),
        ("resourceLogs", "scopeLogs", "logRecords"),
    ):
        for resource in as_list(request.get(outer)):
            for scope in as_list(resource.get(scoped)):
                for record in as_list(scope.get(listed)):
                    about = _pairs(record.get("attributes"))
                    events = [_pairs(event.get("attributes")) for event in as_list(record.get("events"))]
                    for more in ({}, *events, as_dict(_value(record.get("body")))):
                        if call := _call(record, {**about, **more}):
                            yield call
                            break


def _call(record: Json, known: Json) -> _Call | None:
    given, said = _messages(known.get(_INPUT)), _messages(known.get(_OUTPUT))
    if not (given or said) or known.get("gen_ai.operation.name") in _REPEATS:
        return None
    system = _list(known.get(_SYSTEM))
    if system:
        given = [{"role": "system", "parts": system}, *given]
    named = nonblank(known.get("gen_ai.conversation.id"))
    start = when(record.get("startTimeUnixNano")) or when(record.get("timeUnixNano"))
    return _Call(
        named or f"trace {nonblank(record.get('traceId')) or 'unknown'}",
        named is not None,
        given,
        said,
        start,
        when(record.get("endTimeUnixNano")) or start,
        nonblank(known.get("gen_ai.response.model")) or nonblank(known.get("gen_ai.request.model")),
        tokens(
            input=known.get("gen_ai.usage.input_tokens"),
            output=known.get("gen_ai.usage.output_tokens"),
            cached=known.get("gen_ai.usage.cache_read.input_tokens"),
        ),
    )


def _messages(value: object) -> list[Json]:
    return [message for message in _list(value) if nonblank(message.get("role"))]


def _list(value: object) -> list[Json]:
    """Objects that an attribute holds, as values or as JSON text."""
    return as_list(decoded(value))


def _canonical(message: Json) -> bytes:
    """What makes a message the same one when it comes back as input: who said what."""
    return msgspec.json.encode([message.get("role"), message.get("name"), message.get("parts")], order="sorted")


def _pairs(listed: object) -> Json:
    """Keys with values of OTLP."""
    return {key: _value(one.get("value")) for one in as_list(listed) if isinstance(key := one.get("key"), str)}


def _value(value: object) -> Any:
    """A value of OTLP, which names its type, as plain JSON."""
    if not isinstance(value, dict):
        return None
    for name, inner in value.items():
        if name == "intValue":
            is_number = isinstance(inner, str) and inner.removeprefix("-").isdecimal() and len(inner) < 20
            return int(inner) if is_number else inner
        if name == "arrayValue":
            return [_value(one) for one in as_list(as_dict(inner).get("values"))]
        if name == "kvlistValue":
            return _pairs(as_dict(inner).get("values"))
        return inner
    return None
