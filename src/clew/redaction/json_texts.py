"""Finds the texts in a JSON document, their places, and those that must not be changed.

Nothing is parsed into values and written again: a text that changes is replaced in the bytes, and every other byte of
the document (its numbers, the order of its keys, its escapes, its spaces) stays as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from clew.base.messages import RECORD
from clew.redaction.protected_keys import FORMS, KEYS

_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|-?[0-9][-+.0-9eE]*+|[\[\]{},:]')
_decode = msgspec.json.Decoder(str).decode

LONG = 12
"""Numbers with at least this many digits are searched like text: a card number may be without quotes."""

_FREE = frozenset({"extra", "arguments", "data", "metadata", "parameters"})
"""Members of clew's own objects that hold free data."""
_FIXED = frozenset({"type", "role", "modality", "blob", "cwd", "forked_from", "forked_at"})
"""Members of clew's own objects whose values are clew's words, or names of other things in the store."""

SIGNATURES = {
    ("thinking", "signature"),
    ("reasoning.text", "signature"),
    ("reasoningText", "signature"),
}
"""Where providers put a signature: the type of the object, or else the name under which it stands, and the member."""
_SIGNED_PARTS = frozenset({"thoughtSignature", "thought_signature"})
CIPHERTEXTS = {
    ("thinking", "redacted"),
    ("redacted_thinking", "data"),
    ("reasoning", "encrypted_content"),
    ("reasoning.encrypted", "data"),
    ("reasoningContent", "redactedContent"),
    ("compaction", "encrypted_content"),
    ("web_search_result", "encrypted_content"),
    ("web_search_result_location", "encrypted_index"),
}
"""Members that hold data which only the provider can read."""
_INPUTS = frozenset({"input", "arguments", "args", "response"})
"""Members that hold a tool's own data, in any form."""


Where = tuple[int | None, str]
"""The number of a block and its kind; or None, and the member of the message."""
BLOCK = 3
"""How deep the blocks of a message are: its object, one of its lists, and the block in there."""


class JsonPath:
    """An object or a list in the document."""

    __slots__ = ("above", "changed", "depth", "free", "input", "name", "record", "type")

    def __init__(self, above: JsonPath | None, name: str | int, *, free: bool, input: bool) -> None:
        self.above = above
        self.name = name
        self.depth: int = 0 if above is None else above.depth + 1
        self.type: str | None = None
        self.free = free
        """True if its keys and numbers are its author's, not clew's."""
        self.input = input
        """True if nothing in it is a provider's signature."""
        self.record: bool = above is not None and (above.record or (name == RECORD and above.name == "extra"))
        """True for what a record keeps in free data, and what is in it."""
        self.changed = False

    def change(self) -> None:
        """Notes that something in it is to be replaced."""
        place: JsonPath | None = self
        while place is not None and not place.changed:
            place.changed = True
            place = place.above

    def block(self) -> Where | None:
        """The block of the message that it is or is part of; None if it is in none."""
        place = self
        while place.depth > BLOCK and place.above is not None:
            place = place.above
        if place.depth != BLOCK or place.above is None or not isinstance(place.name, int):
            return None
        return place.name, place.type or str(place.above.name)


class JsonLeaf(NamedTuple):
    """A text, a key or a long number: its bytes in the document, and what it is the value or the key of."""

    start: int
    end: int
    place: JsonPath
    name: str | int
    is_key: bool
    text: str

    @property
    def where(self) -> Where:
        """The block it is in, or the member of the message."""
        place = self.place
        block = place.block()
        if block is not None:
            return block
        while place.depth > BLOCK - 1 and place.above is not None:
            place = place.above
        return None, str(self.name if place.depth < BLOCK - 1 else place.name)

    @property
    def touchable(self) -> bool:
        """False for clew's own words: its keys, its numbers, names of kinds and of other things."""
        if self.place.free:
            return True
        return not self.is_key and self.name not in _FIXED

    @property
    def formal(self) -> bool:
        """True for what a record consists of beside words: its names, and what has the form that its name demands."""
        place = self.place
        if self.is_key:
            return self.text == RECORD if place.name == "extra" else place.record and self.text in KEYS
        form = FORMS.get(str(place.name if isinstance(self.name, int) else self.name))
        return (place.record or not place.free) and form is not None and form.fullmatch(self.text) is not None

    @property
    def kind(self) -> str:
        """``signature``, ``ciphertext``, or ``text``."""
        place = self.place
        if self.is_key or place.input or not isinstance(self.name, str):
            return "text"
        where = (place.type or str(place.name), self.name)
        if where in SIGNATURES or self.name in _SIGNED_PARTS:
            return "signature"
        return "ciphertext" if where in CIPHERTEXTS else "text"

    @property
    def signed(self) -> JsonPath:
        """The object that a signature signs: the one around it. A block of clew's has the signature in its extra."""
        place = self.place
        return place.above if place.name == "extra" and place.above is not None and not place.above.free else place


def leaves(raw: bytes, *, free: bool, signed: bool) -> list[JsonLeaf]:
    """The leaves of a valid JSON document, in order. It does not recurse, however deep the document is nested.

    `free` if the document is not clew's own, `signed` if it may have a provider's signatures.
    """
    found: list[JsonLeaf] = []
    place, is_key = JsonPath(None, "", free=free, input=not signed), False
    here: str | int = ""
    stack: list[tuple[JsonPath, str | int, bool]] = []
    for token in _TOKEN.finditer(raw):
        start, end = token.span()
        first = raw[start]
        if first == 0x22:
            text = _text(raw[start:end])
            found.append(JsonLeaf(start, end, place, here, is_key, text))
            if is_key:
                here = text
            elif here == "type":
                place.type = text
        elif first in b"{[":
            stack.append((place, here, is_key))
            place = JsonPath(place, here, free=place.free or here in _FREE, input=place.input or here in _INPUTS)
            here, is_key = (0, False) if first == 0x5B else ("", True)
        elif first in b"}]":
            place, here, is_key = stack.pop()
        elif first == 0x3A:
            is_key = False
        elif first == 0x2C:
            if isinstance(here, int):
                here += 1
            else:
                is_key = True
        elif end - start >= LONG and (place.free or here in _FREE):
            found.append(JsonLeaf(start, end, place, here, False, raw[start:end].decode()))
    return found


def spliced(raw: bytes, changes: Mapping[tuple[int, int], bytes]) -> bytes:
    """`raw` with the bytes of some leaves replaced."""
    parts: list[bytes] = []
    done = 0
    for (start, end), new in sorted(changes.items()):
        parts += (raw[done:start], new)
        done = end
    return b"".join([*parts, raw[done:]])


def to_json_string(text: str) -> bytes:
    """A text as JSON."""
    try:
        return json.dumps(text, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(text).encode()


def is_json(text: str) -> bool:
    """True if a text is a JSON object, list or text with escapes in it, behind which something may be hidden."""
    if not text.lstrip().startswith(("{", "[", '"')) or "\\" not in text:
        return False
    try:
        json.loads(text, parse_int=len)  # a number may be longer than Python cares to read
    except (ValueError, RecursionError):
        return False
    return True


def _text(literal: bytes) -> str:
    if b"\\" not in literal:
        return literal[1:-1].decode()
    try:
        return _decode(literal)
    except msgspec.MsgspecError:  # a lone surrogate, which some programs write
        return str(json.loads(literal))
