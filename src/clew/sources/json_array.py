"""The elements of a large JSON array, found without reading the array into memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from mmap import mmap

import msgspec

from clew.sources.contract import Part, Skip
from clew.sources.items import Item

LARGEST = 256 * 1024 * 1024
"""Bytes of one element at most that a source reads."""
_TOKENS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
_OBJECT = re.compile(rb"\s*\{")


def elements(data: bytes | mmap) -> Iterator[tuple[int, int]]:
    """Where each object or array of the outermost array begins and ends. Numbers and texts among them are passed over.

    The JSON is not checked. An element without an end is left out.
    """
    depth, start = 0, 0
    for token in _TOKENS.finditer(data):
        first = data[token.start()]
        if first in b"[{":
            if depth == 1:
                start = token.start()
            depth += 1
        elif first in b"]}":
            depth -= 1
            if depth == 1:
                yield start, token.end()
            elif depth == 0:
                return


def read_elements(item: Item, read: Callable[[int, bytes], Iterator[Part]]) -> Iterator[Part]:
    """What `read` makes of each element of a file, by its number and bytes; one that cannot be read is skipped.

    A file that is one object, and no array, is its only element.
    """
    data = item.data()
    first = _OBJECT.match(data)
    found = [(first.end() - 1, len(data))] if first is not None else elements(data)
    for number, (start, end) in enumerate(found, 1):
        if end - start > LARGEST:
            yield Skip(number, f"the conversation has {end - start:,} bytes, more than {LARGEST:,}")
            continue
        try:
            yield from read(number, bytes(data[start:end]))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            yield Skip(number, f"not JSON: {type(error).__name__}")
