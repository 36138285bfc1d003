"""JSON lines: one compact object per line, ended by a newline byte and by nothing else."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from clew import codec
from clew.errors import ClewError, Invalid, NotFound, Unavailable
from clew.providers import integer

LINE_LIMIT = 10 * 1024 * 1024
"""Bytes of one line at most, its newline included."""
_BLOCK = 1 << 16

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_any = msgspec.json.Decoder().decode


class Line(NamedTuple):
    """A line of a file: its number, from 1 on, and either the object it holds or why it has to be skipped."""

    number: int
    data: bytes
    why: str = ""


def compact(raw: bytes | str) -> bytes:
    """A JSON object without the space between its parts: numbers and the order of keys stay. Invalid if it is none."""
    try:
        given = raw.encode() if isinstance(raw, str) else bytes(raw)
        given.decode()
    except UnicodeError:
        raise Invalid("the text is not valid Unicode") from None
    try:
        done = msgspec.json.format(given, indent=-1)
    except RecursionError:
        raise Invalid("the data is nested too deeply") from None
    except msgspec.DecodeError:
        done = _lenient(given)
    if not done.startswith(b"{"):
        raise Invalid("this is JSON, and not an object")
    codec._shallow(done)
    return done


def encode(value: Mapping[str, Any]) -> bytes:
    """`value` as a compact JSON object. Invalid if JSON cannot hold it."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # half a character, as some programs cut them: its escape can be kept
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        return codec.to_json(value)  # it says what is wrong


def decode(raw: bytes) -> Any:
    """What a JSON text says. Half a character, which strict readers refuse, is kept; a number too long for Python is
    its text.
    """
    try:
        return _any(raw)
    except msgspec.DecodeError:
        return json.loads(raw, parse_int=integer)


def fields(raw: bytes) -> dict[str, bytes]:
    """The fields of a JSON object, each as the bytes it was written with. Invalid if it is no object."""
    try:
        return {name: bytes(value) for name, value in _fields(raw).items()}
    except msgspec.ValidationError:
        raise Invalid("this is JSON, and not an object") from None
    except msgspec.DecodeError:
        parts = json.loads(_lenient(raw), parse_int=integer)
        return {name: json.dumps(value, separators=(",", ":")).encode() for name, value in parts.items()}


def _lenient(raw: bytes) -> bytes:
    """`raw`, if a reader that allows escaped halves of characters takes it for an object. Invalid."""

    def refuse(word: str) -> None:
        raise ValueError(word)

    try:
        value = json.loads(raw, parse_int=integer, parse_constant=refuse)
    except RecursionError:
        raise Invalid("the data is nested too deeply") from None
    except ValueError:
        raise Invalid("this is not JSON", hint="A line is one JSON object, complete.") from None
    if not isinstance(value, dict):
        raise Invalid("this is JSON, and not an object")
    return json.dumps(value, separators=(",", ":")).encode()


def read(path: str, *, limit: int = LINE_LIMIT) -> Iterator[Line]:
    """The lines of a file that are not empty, whatever is in them: one that cannot be used says why.

    A line is never held in memory beyond `limit`. Nothing if there is no such file; Unavailable if it cannot be read.
    """
    try:
        fd = open_regular(path)
    except NotFound:
        return
    number = 0
    with os.fdopen(fd, "rb", buffering=_BLOCK) as file:
        while piece := _readline(file, limit + 1, path):
            number += 1
            size = len(piece)
            while not piece.endswith(b"\n") and size > limit:
                rest = _readline(file, _BLOCK, path)
                if not rest:
                    break
                size += len(rest)
                piece = rest[-1:]
            if piece.strip(b" \t\r\n") or size > limit:
                yield _line(number, piece, size, limit)


def open_regular(path: str) -> int:
    """A descriptor of a regular file, to read: a link is not followed, a pipe not waited for. NotFound, Unavailable."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise NotFound("file", path) from None
    except OSError as error:
        raise _unread(path, error) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise Unavailable(f"{path} is not a regular file", hint="Name the file itself.")
    return fd


def _readline(file: Any, size: int, path: str) -> bytes:
    try:
        line: bytes = file.readline(size)
    except OSError as error:
        raise _unread(path, error) from error
    return line


def _unread(path: str, error: OSError) -> ClewError:
    return Unavailable(f"{path} cannot be read: {error.strerror}", hint="Check its permissions and the disk.")


def _line(number: int, piece: bytes, size: int, limit: int) -> Line:
    if size > limit:
        return Line(number, b"", f"it has {size:,} bytes, the limit is {limit:,}")
    if not piece.strip(b"\0 \t\r\n"):
        return Line(number, b"", "it holds nothing but zeros")
    try:
        done = compact(piece)
    except Invalid as error:
        torn = "" if piece.endswith(b"\n") else ", and the file ends in it"
        return Line(number, b"", error.message + torn)
    return Line(number, done)
