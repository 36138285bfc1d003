"""JSONL: one JSON object on each line, read with upper limits, and kept with its bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import msgspec

from clew.base.messages import Native
from clew.errors import Invalid
from clew.providers.json_values import Json
from clew.providers.view import parse
from clew.sources.contract import ENVELOPE, PAUSE, Part, Skip
from clew.sources.items import BOM, Item
from clew.sources.lines import LONGEST, read_lines
from clew.sources.values import object_or_empty


class JsonLine(NamedTuple):
    """A line, its bytes with the newline, and what it says."""

    number: int
    data: bytes
    fields: Json

    def native(self, provider: str, body: bytes | None = None, **extra: Any) -> Native:
        """The line as a message, or the `body` in it, with the text around it. What is None in `extra` is left out."""
        raw = self.data.removeprefix(BOM).strip() if body is None else body
        before, _, after = self.data.partition(raw)
        known = {name: value for name, value in extra.items() if value is not None}
        return Native(provider, raw, extra={ENVELOPE: [before.decode(), after.decode()], **known})


def json_lines(item: Item) -> Iterator[JsonLine | Skip]:
    """The finished lines of a file; one that is no JSON object is skipped, an empty one is passed over."""
    with item.open() as file:
        for line in read_lines(file):
            if line.data is None and line.size == 0:
                yield PAUSE
            elif line.data is None:
                yield Skip(line.number, f"the line has {line.size:,} bytes, more than {LONGEST:,}")
            elif line.data.strip():
                try:
                    yield JsonLine(line.number, line.data, parse(line.data.removeprefix(BOM)))
                except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                    yield Skip(line.number, f"not JSON: {type(error).__name__}")
                except Invalid:
                    yield Skip(line.number, "not a JSON object")


class LineReader(Protocol):
    """What a format makes of its lines."""

    def line(self, line: JsonLine) -> Iterator[Part]:
        """What is in a line."""

    def end(self) -> Iterator[Part]:
        """What is known after the last line."""


def read_lines_with(reader: LineReader, item: Item) -> Iterator[Part]:
    """What `reader` makes of the lines of a file; lines that cannot be read are skipped."""
    for line in json_lines(item):
        if isinstance(line, Skip):
            yield line
        else:
            yield from reader.line(line)
    yield from reader.end()


def head_lines(head: bytes) -> Iterator[Json]:
    """The JSON objects among the first lines of a file, to recognise it by."""
    return (line for text in head.split(b"\n")[:20] if (line := object_or_empty(text)))
