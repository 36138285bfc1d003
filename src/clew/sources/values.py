"""Values in the JSON of other programs, where every field may be missing or of another type; and pieces of a record."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from clew.base.messages import Message, Native
from clew.errors import Invalid
from clew.providers.json_values import Json
from clew.providers.view import parse, view
from clew.sources.contract import ENVELOPE, moment

fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
"""The fields of an object, each with its own bytes."""
elements = msgspec.json.Decoder(list[msgspec.Raw]).decode
"""The elements of an array, each with its own bytes."""
_NUL = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")
_SURROGATE = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F]..")
"""Half of a character: an escaped high surrogate without a low one after it, or a low one without a high one before."""


def without_surrogates(text: bytes) -> bytes:
    """JSON with each half of a character replaced by U+FFFD. The length stays, and so does every other byte.

    Programs that cut a text between two surrogates write half of a character, and strict readers refuse it.
    """
    return _SURROGATE.sub(rb"\\ufffd", text)


def object_or_empty(raw: bytes | str) -> Json:
    """A JSON object; an empty one if it is something else."""
    try:
        return parse(raw.encode() if isinstance(raw, str) else raw)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, Invalid):
        return {}


def storable(text: str) -> str:
    """A text without characters that stores refuse: NUL, and bytes of a file's name that are not UTF-8."""
    return text.replace("\0", "\ufffd").encode(errors="replace").decode()


def nonblank(value: object) -> str | None:
    """A text that is not blank; None for everything else."""
    return value if isinstance(value, str) and value.strip() else None


def when(value: object) -> datetime | None:
    """A time in any form that programs use: ISO 8601, or seconds since 1970 and their thousandths to billionths."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 20:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return moment(value)
    if value < 0:
        return None
    for unit in (1, 10**3, 10**6, 10**9):
        if value < unit * 10**11:
            return moment(value / unit)
    return None


def tokens(**counts: object) -> dict[str, int] | None:
    """Token counts by the names of `Usage`, as the free data of a message has them; None if none is known."""
    known = {name: count for name, count in counts.items() if type(count) is int and count >= 0}
    return known or None


def folder_of(uri: object) -> str | None:
    """The folder that a ``file://`` address names."""
    if not isinstance(uri, str):
        return None
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    return unquote(parts.path) or None if parts.scheme == "file" else None


def digest(*parts: bytes | str) -> str:
    """A short text that differs if any part differs."""
    found = hashlib.sha256()
    for part in parts:
        data = part.encode(errors="surrogatepass") if isinstance(part, str) else part
        found.update(len(data).to_bytes(8))
        found.update(data)
    return found.hexdigest()[:32]


def composed(provider: str, data: Json, **extra: object) -> Message:
    """A message in clew's own form, for one that no record has as a whole. It has no bytes of its own in the file.

    A NUL character, which no message may have, is replaced.
    """
    known = {
        name: storable(value) if isinstance(value, str) else value for name, value in extra.items() if value is not None
    }
    raw = _NUL.sub(rb"\1\\ufffd", msgspec.json.encode(data))
    return msgspec.structs.replace(view(Native(provider, raw, extra=known)), extra=None)


class RecordPiece(NamedTuple):
    """A part of a record that has one message: joined, the pieces of a record are the record."""

    raw: bytes
    message: Native


def pieces(
    provider: str, data: bytes, bodies: Sequence[bytes], extras: Sequence[dict[str, Any]] = ()
) -> list[RecordPiece]:
    """A record cut into pieces, each with one of the `bodies`, which are in it in this order."""
    cuts: list[tuple[int, int]] = []
    at = 0
    for body in bodies:
        start = data.index(body, at)
        at = start + len(body)
        cuts.append((start, at))
    found: list[RecordPiece] = []
    for number, (start, end) in enumerate(cuts):
        before = data[:start] if number == 0 else b""
        after = data[end : cuts[number + 1][0] if number + 1 < len(cuts) else len(data)]
        extra = {ENVELOPE: [before.decode(), after.decode()], **(extras[number] if extras else {})}
        found.append(RecordPiece(before + data[start:end] + after, Native(provider, data[start:end], extra=extra)))
    return found


def field_bytes(raw: bytes, *names: str) -> bytes:
    """The bytes of a field, by the names of the fields that lead to it; empty if there is none."""
    try:
        for name in names:
            raw = all_fields(raw).get(name, b"")
    except msgspec.MsgspecError:
        return b""
    return raw


def all_fields(raw: bytes) -> dict[str, bytes]:
    """The bytes of each field of a JSON object. MsgspecError."""
    try:
        return {name: bytes(one) for name, one in fields(raw).items()}
    except msgspec.MsgspecError:
        shape = without_surrogates(raw)
        # a name may be there twice, so that the order is not that of the bytes
        return {name: next(_in_place(raw, shape, [one])) for name, one in fields(shape).items()}


def element_bytes(raw: bytes) -> list[bytes]:
    """The bytes of each element of a JSON array; none if it is not an array."""
    try:
        return [bytes(one) for one in elements(raw)]
    except msgspec.MsgspecError:
        shape = without_surrogates(raw)
    try:
        return list(_in_place(raw, shape, elements(shape)))
    except msgspec.MsgspecError:
        return []


def _in_place(raw: bytes, shape: bytes, parts: Iterable[msgspec.Raw]) -> Iterator[bytes]:
    """The bytes at the places where `shape`, which is as long as `raw`, has these parts, in their order."""
    at = 0
    for part in parts:
        at = shape.index(part, at)
        yield raw[at : at + len(bytes(part))]
        at += len(bytes(part))
