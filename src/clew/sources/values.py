"""Values in the JSON of other programs: every field may be missing or of another type."""

from __future__ import annotations

import hashlib
import re
from datetime import datetime
from urllib.parse import unquote, urlsplit

import msgspec

from clew.base.messages import Message, Native
from clew.errors import Invalid
from clew.providers.json_values import Json
from clew.providers.view import parse, view
from clew.sources.contract import moment

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


def title_of(value: object) -> str | None:
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
