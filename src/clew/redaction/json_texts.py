"""Finds the texts in a JSON document, their places, and those that must not be changed.

The document is not parsed and written again: changed texts are replaced in the bytes, and every other byte (numbers,
order of keys, escapes, spaces) stays the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from clew.base.messages import RECORD

_NUMBERS = (
    "schema", "sequence", "byteLength", "durationMs", "averageLatencyMs", "userUtteranceCount",
    "assistantUtteranceCount", "duration_ms", "average_latency_ms", "user_utterances", "assistant_utterances",
    "size",
)  # fmt: skip
_TIMES = ("created_at", "said_at", "changed_at", "last_interaction_at", "updated_at", "lastUpdatedAt")

FORMS = {
    **dict.fromkeys(_NUMBERS, re.compile(r"[-+.0-9eE]+")),
    **dict.fromkeys(_TIMES, re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")),
    "role": re.compile("user|assistant|system"),
    "type": re.compile("audio|transcript|code|document"),
    "format": re.compile("pcm16|opus"),
    "checksum": re.compile("[0-9a-f]{64}"),
    "uri": re.compile("blobs/[0-9a-f]{64}"),
    "piiTokens": re.compile("([a-z0-9._-]{1,64}:)?[0-9a-f]{32,128}"),
}
"""The pattern of the value under each name; other values are searched like any text."""
KEYS = frozenset({
    *FORMS, "conversation_id", "participants", "id", "displayName", "summary", "synopsis", "keywords", "actionItems",
    "exportable", "consent_capture", "changed", "title", "retention", "metrics", "begun", "frame_id", "privacy",
    "containsSecrets", "redactionRulesApplied", "attachments", "attachmentId", "audio", "sized",
})  # fmt: skip
"""All such keys; other keys are searched."""


_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|-?[0-9][-+.0-9eE]*+|[\[\]{},:]')
_decode = msgspec.json.Decoder(str).decode

LONG = 12
"""Numbers with at least this many digits are searched like text: a card number may be without quotes."""

_FREE = frozenset({"extra", "arguments", "data", "metadata", "parameters"})
"""Members of clew's own objects that hold free data."""
_FIXED = frozenset({"type", "role", "modality", "blob", "cwd", "forked_from", "forked_at"})
"""Members of clew's own objects whose values are keywords of clew, or ids."""

SIGNATURES = {
    ("thinking", "signature"),
    ("reasoning.text", "signature"),
    ("reasoningText", "signature"),
}
"""Where providers put a signature: the type of the object, or else its name, and the member."""
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
"""Depth of the blocks of a message: its object, one of its lists, the block."""


class JsonPath:
    """An object or a list in the document."""

    __slots__ = ("above", "changed", "depth", "free", "input", "name", "record", "type")

    def __init__(self, above: JsonPath | None, name: str | int, *, free: bool, input: bool) -> None:
        self.above = above
        self.name = name
        self.depth: int = 0 if above is None else above.depth + 1
        self.type: str | None = None
        self.free = free
        """True if its keys and numbers are user data, not clew's."""
        self.input = input
        """True if nothing in it is a provider's signature."""
        self.record: bool = above is not None and (above.record or (name == RECORD and above.name == "extra"))
        """True inside the data of a record."""
        self.changed = False

    def change(self) -> None:
        """Marks it and its parents as changed."""
        place: JsonPath | None = self
        while place is not None and not place.changed:
            place.changed = True
            place = place.above

    def block(self) -> Where | None:
        """The block of the message that contains it; None if there is none."""
        place = self
        while place.depth > BLOCK and place.above is not None:
            place = place.above
        if place.depth != BLOCK or place.above is None or not isinstance(place.name, int):
            return None
        return place.name, place.type or str(place.above.name)


class JsonLeaf(NamedTuple):
    """A text, a key or a long number: its bytes in the document, its container and its name."""

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
        """False for clew's own keys, numbers, keywords and ids."""
        if self.place.free:
            return True
        return not self.is_key and self.name not in _FIXED

    @property
    def formal(self) -> bool:
        """True for formal parts of a record: its keys, and values that match the pattern of their key."""
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
        """The object that a signature signs: its container. In clew's own blocks the signature is in `extra`."""
        place = self.place
        return place.above if place.name == "extra" and place.above is not None and not place.above.free else place


def leaves(raw: bytes, *, free: bool, signed: bool) -> list[JsonLeaf]:
    """The leaves of a valid JSON document, in order. Not recursive, so that deep nesting is safe.

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
    """True if a text is a JSON object, list or string with escapes, which may hide a match."""
    if not text.lstrip().startswith(("{", "[", '"')) or "\\" not in text:
        return False
    try:
        json.loads(text, parse_int=len)  # Python refuses to parse very long numbers
    except (ValueError, RecursionError):
        return False
    return True


def _text(literal: bytes) -> str:
    if b"\\" not in literal:
        return literal[1:-1].decode()
    try:
        return _decode(literal)
    except msgspec.MsgspecError:  # a lone surrogate
        return str(json.loads(literal))
