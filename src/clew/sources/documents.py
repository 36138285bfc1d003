"""Files that are one JSON document: read as a whole or by elements, and kept so that they can be written again.

A document is kept as a frame: its text without the messages, and between two texts the message that belongs there. Of a
file with several conversations, each also keeps its place: what is before it, and what is after the last one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from mmap import mmap

import msgspec

from clew.errors import Invalid
from clew.sources.contract import Entry, Part, Skip
from clew.sources.items import BOM, Item

FRAME, PLACE = "frame", "place"
"""Keys of the entries of a conversation that have its frame and its place."""
LARGEST = 256 * 1024 * 1024
"""Bytes of one element at most that a source reads."""
_AROUND = 1 << 20
"""Most bytes that are kept between two conversations, including elements that are not conversations."""
# A text without an end goes to the end of the data: it must not be looked for again from each quote in it.
_TOKENS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
_OBJECT = re.compile(rb"(?:\xef\xbb\xbf)?\s*\{")


def read_document(item: Item, read: Callable[[bytes], Iterator[Part]]) -> Iterator[Part]:
    """What `read` makes of the bytes of a file; one that is too large or is not the JSON it should be is skipped."""
    with item.open() as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read(LARGEST + 1) if size <= LARGEST else b""
    if max(size, len(data)) > LARGEST:
        yield Skip(None, f"the file has {size:,} bytes, more than {LARGEST:,}")
        return
    try:
        yield from read(data.removeprefix(BOM))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        yield Skip(None, f"not JSON: {type(error).__name__}")
    except Invalid as error:
        yield Skip(None, error.message)


class DocumentPlace(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a conversation is in a file with several."""

    file: str
    """A hash of the file: all of its conversations have the same."""
    size: int
    """Bytes of the file."""
    start: int
    """Where its part of the file begins, with the text before it."""
    end: int
    before: str
    after: str = ""
    """Empty for all but the last one."""


def short_hash(data: bytes) -> str:
    """A short hash that distinguishes different bytes of one message."""
    return sha256(data).hexdigest()[:8]


def frame(raw: bytes, bodies: Mapping[str, bytes]) -> bytes:
    """A document without the messages in it, whose bodies come by their ids, in the order in which they are in `raw`.

    A JSON list of text and, between two texts, the id of a message and the hash of its bytes.
    """
    parts: list[str] = []
    for id, body in bodies.items():
        before, found, rest = raw.partition(body)
        if found:
            parts += [before.decode(), f"{id} {short_hash(body)}"]
            raw = rest
    return msgspec.json.encode([*parts, raw.decode()])


def framed_row(record: bytes, column: str, body: bytes, bodies: Mapping[str, bytes]) -> bytes:
    """The record of a row, one column of which is a document: a JSON object with its frame."""
    framed = msgspec.Raw(frame(body, bodies))
    return msgspec.json.encode({"record": msgspec.Raw(record), "column": column, "frame": framed})


def unframe(framed: bytes, find: Callable[[str, str], bytes]) -> bytes:
    """The document of a frame. `find` returns the bytes of a message by its id and their hash."""
    if framed[:1] == b"[":
        return _join(msgspec.json.decode(framed, type=list[str]), find)
    row = msgspec.json.decode(framed)
    record = row["record"]
    record["row"][row["column"]] = _join(row["frame"], find).decode()
    return msgspec.json.encode(record)


def _join(parts: list[str], find: Callable[[str, str], bytes]) -> bytes:
    found: list[bytes] = []
    for at, part in enumerate(parts):
        id, _, hash = part.partition(" ")
        found.append(find(id, hash) if at % 2 else part.encode())
    return b"".join(found)


def elements(data: bytes | mmap) -> Iterator[tuple[int, int]]:
    """Where each object or array of the outermost array begins and ends. Numbers and texts among them are passed over.

    The JSON is not checked. If the array has no end, what comes after the last element is the last one: it begins where
    that one ends.
    """
    depth, start, last = 0, 0, 0
    for token in _TOKENS.finditer(data):
        first = data[token.start()]
        if first in b"[{":
            if depth == 1:
                start = token.start()
            depth += 1
        elif first in b"]}":
            depth -= 1
            if depth == 1:
                last = token.end()
                yield start, last
            elif depth == 0:
                return
    if depth > 0:
        yield last, len(data)


def read_elements(item: Item, read: Callable[[int, bytes], Iterator[Part]]) -> Iterator[Part]:
    """What `read` makes of each element of a file, by its number and bytes; one that cannot be read is skipped.

    Each conversation also has an entry with its place in the file. A file that is one object, and no array, is its only
    element.
    """
    data = item.data()
    first = _OBJECT.match(data)
    found = [(first.end() - 1, len(data))] if first is not None else elements(data)
    places, last = _Places(data), 0
    for number, (start, end) in enumerate(found, 1):
        last, before = end, last
        if first is None and start == before:
            yield Skip(number, "the file ends in the middle; it was not written or copied as a whole")
            continue
        if end - start > LARGEST:
            yield Skip(number, f"the conversation has {end - start:,} bytes, more than {LARGEST:,}")
            continue
        conversation: str | None = None
        try:
            for part in read(number, bytes(data[start:end])):
                conversation = part.conversation if isinstance(part, Entry) else conversation
                yield part
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            yield Skip(number, f"not JSON: {type(error).__name__}")
        if conversation is not None:
            yield from places.add(conversation, start, end)
    yield from places.close()


class _Places:
    """The places of the conversations of a file. Each is known once the next one is; the last has the file's end."""

    def __init__(self, data: bytes | mmap) -> None:
        self._data = data
        self._hash = ""
        self._end = 0
        self._last: tuple[str, int, int, int] | None = None
        """The conversation that was added last: where the text before it begins, and where itself does and ends."""

    def add(self, conversation: str, start: int, end: int) -> Iterator[Entry]:
        """Adds a conversation; gives the place of the one before it."""
        yield from self._place(b"")
        self._last = conversation, self._end, start, end
        self._end = end

    def close(self) -> Iterator[Entry]:
        """The place of the last conversation."""
        rest = len(self._data) - self._end
        yield from self._place(bytes(self._data[self._end :]) if rest <= _AROUND else None)

    def _place(self, after: bytes | None) -> Iterator[Entry]:
        """The place, unless the text around it is too long or not UTF-8. Then the file cannot be exported unchanged."""
        if self._last is None or after is None:
            return
        conversation, begin, start, end = self._last
        if start - begin > _AROUND:
            return
        self._hash = self._hash or sha256(self._data).hexdigest()[:16]
        with suppress(UnicodeDecodeError):
            before = bytes(self._data[begin:start]).decode()
            place = DocumentPlace(self._hash, len(self._data), begin, end + len(after), before, after.decode())
            yield Entry(conversation=conversation, raw=msgspec.json.encode(place), key=PLACE)
