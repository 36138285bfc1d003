"""JSON lines: one compact object per line, ended by a single newline byte."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from clew.base import codec
from clew.base.outside import READ, as_file, close_fd, open_fd
from clew.errors import ClewError, Invalid, NotFound, Unavailable
from clew.providers.view import integer

LINE_LIMIT = 10 * 1024 * 1024
"""Maximum bytes of one line, including its newline."""
_BLOCK = 1 << 16

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_any = msgspec.json.Decoder().decode


class JsonlLine(NamedTuple):
    """A line of a file: its number (from 1), and its object or the reason it is skipped."""

    number: int
    data: bytes
    why: str = ""


def compact(raw: bytes | str) -> bytes:
    """A JSON object without whitespace between its parts; keeps numbers and key order. Raises Invalid."""
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
        raise Invalid("this is JSON but not an object")
    codec.ensure_shallow(done)
    return done


def encode(value: Mapping[str, Any]) -> bytes:
    """`value` as a compact JSON object. Raises Invalid if JSON cannot represent it."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # a lone surrogate, as some programs cut text; its escape can be stored
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        return codec.to_json(value)  # raises with the reason


def decode(raw: bytes) -> Any:
    """Decodes JSON. Keeps lone surrogates, which strict readers refuse; a number too long for Python becomes text."""
    try:
        return _any(raw)
    except msgspec.DecodeError:
        return json.loads(raw, parse_int=integer)


def fields(raw: bytes) -> dict[str, bytes]:
    """The fields of a JSON object, each as its original bytes. Raises Invalid if it is not an object."""
    try:
        return {name: bytes(value) for name, value in _fields(raw).items()}
    except msgspec.ValidationError:
        raise Invalid("this is JSON but not an object") from None
    except msgspec.DecodeError:
        parts = json.loads(_lenient(raw), parse_int=integer)
        return {name: json.dumps(value, separators=(",", ":")).encode() for name, value in parts.items()}


def _lenient(raw: bytes) -> bytes:
    """`raw`, if a parser that allows escaped lone surrogates reads it as an object. Raises Invalid."""

    def refuse(word: str) -> None:
        raise ValueError(word)

    try:
        value = json.loads(raw, parse_int=integer, parse_constant=refuse)
    except RecursionError:
        raise Invalid("the data is nested too deeply") from None
    except ValueError:
        raise Invalid("this is not JSON", hint="Each line must be one complete JSON object.") from None
    if not isinstance(value, dict):
        raise Invalid("this is JSON but not an object")
    return json.dumps(value, separators=(",", ":")).encode()


def read(path: str, *, limit: int = LINE_LIMIT) -> Iterator[JsonlLine]:
    """The lines of a file that are not empty; an unusable line has a reason instead of an object.

    Never holds more than `limit` bytes of a line in memory. Yields nothing if the file does not exist. Raises
    Unavailable if it cannot be read.
    """
    try:
        fd = open_regular(path)
    except NotFound:
        return
    number = 0
    with as_file(fd, buffering=_BLOCK) as file:
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
    """Opens a regular file for reading; does not follow links or block on pipes. Raises NotFound, Unavailable."""
    try:
        fd = open_fd(path, READ | os.O_NOFOLLOW)
    except FileNotFoundError:
        raise NotFound("file", path) from None
    except OSError as error:
        raise _unread(path, error) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        close_fd(fd)
        raise Unavailable(f"{path} is not a regular file", hint="Pass a regular file.")
    return fd


def _readline(file: Any, size: int, path: str) -> bytes:
    try:
        line: bytes = file.readline(size)
    except OSError as error:
        raise _unread(path, error) from error
    return line


def _unread(path: str, error: OSError) -> ClewError:
    return Unavailable(f"{path} cannot be read: {error.strerror}", hint="Check its permissions and the disk.")


def _line(number: int, piece: bytes, size: int, limit: int) -> JsonlLine:
    if size > limit:
        return JsonlLine(number, b"", f"it has {size:,} bytes; the limit is {limit:,}")
    if not piece.strip(b"\0 \t\r\n"):
        return JsonlLine(number, b"", "it contains only zero bytes")
    try:
        done = compact(piece)
    except Invalid as error:
        torn = "" if piece.endswith(b"\n") else "; the file ends within it"
        return JsonlLine(number, b"", error.message + torn)
    return JsonlLine(number, done)
