"""Files of lines: read one line at a time with upper limits, as JSON, or from where the last import stopped."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import IO, Any, NamedTuple, Protocol

import msgspec

from clew.base.messages import Native
from clew.errors import Invalid
from clew.providers.json_values import Json
from clew.providers.view import parse
from clew.sources.contract import ENVELOPE, PAUSE, Part, ReadMark, Skip, StaleMark
from clew.sources.items import BOM, Item
from clew.sources.values import object_or_empty

LONGEST = 64 * 1024 * 1024
"""Bytes of a line at most. A longer one is skipped; it is read in blocks, and never held as a whole."""
_BLOCK = 1 << 20
LARGE = 1 << 20
"""Files with fewer bytes get no mark: reading them again is cheap."""


class Line(NamedTuple):
    """A line with its newline. `data` is None if it is too long; `size` says how long, or 0 before it is known."""

    number: int
    data: bytes | None
    size: int


def read_lines(file: IO[bytes], number: int = 0) -> Iterator[Line]:
    """The finished lines of a file, after `number` others. An unfinished last line is left for the next import."""
    while True:
        data = file.readline(LONGEST + 1)
        number += 1
        if not data:
            return
        if data.endswith(b"\n"):
            yield Line(number, data, len(data))
            continue
        if len(data) <= LONGEST:
            return
        yield Line(number, None, 0)
        size = len(data)
        while block := file.readline(_BLOCK):
            size += len(block)
            if block.endswith(b"\n"):
                break
        else:
            return
        yield Line(number, None, size)


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


class GrowingReader(Protocol):
    """Reads the lines of a log in one format."""

    @property
    def is_done(self) -> bool:
        """True if no further line is needed."""

    def line(self, number: int, data: bytes) -> Iterable[Part]:
        """The parts of a line, which has its newline. StaleMark."""

    def end(self) -> Iterable[Part]:
        """The parts that are known only after the last line."""

    def state(self) -> dict[str, Any]:
        """The state that later lines may refer to, as JSON."""

    def resume(self, state: dict[str, Any]) -> None:
        """Restores what `state` returned."""


def read_growing(
    file: IO[bytes], reader: GrowingReader, mark: ReadMark | None, *, marks: bool
) -> Generator[Part, None, ReadMark | None]:
    """The parts that `reader` finds in a file, from `mark` on. Returns the next mark, if `marks` allows one."""
    offset, last = 0, 0
    if mark is not None:
        try:
            reader.resume(mark.state)
        except (KeyError, TypeError, ValueError):  # another version of clew has written it
            raise StaleMark from None
        offset, last = file.seek(mark.offset), mark.line
    for number, data, size in read_lines(file, last):
        if data is not None:
            offset, last = offset + size, number
            yield from reader.line(number, data.removeprefix(BOM) if number == 1 else data)
            if reader.is_done:
                break
        elif size == 0:
            yield PAUSE
        else:
            offset, last = offset + size, number
            yield Skip(number, f"the line has {size:,} bytes, more than {LONGEST:,}")
    yield from reader.end()
    return ReadMark(offset=offset, line=last, state=reader.state()) if marks and offset >= LARGE else None
