"""The elements of a large JSON array, found without reading the array into memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from mmap import mmap

import msgspec

from clew.sources.contract import Entry, Part, Skip
from clew.sources.frames import PLACE, DocumentPlace
from clew.sources.items import Item

LARGEST = 256 * 1024 * 1024
"""Bytes of one element at most that a source reads."""
_AROUND = 1 << 20
"""Most bytes that are kept between two conversations, including elements that are not conversations."""
# A text without an end goes to the end of the data: it must not be looked for again from each quote in it.
_TOKENS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
_OBJECT = re.compile(rb"(?:\xef\xbb\xbf)?\s*\{")


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
