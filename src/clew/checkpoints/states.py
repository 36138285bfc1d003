"""What is at a path, as a value: a file by its hash, a link by its target, nothing; and what a checkpoint holds."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from clew.errors import Tampered

Kind = Literal["file", "link", "dir", "missing", "skipped"]
Stamp = tuple[int, int, int, int]
"""Time of change, time of content, number and size of a file: another stamp may be another file."""

_RAW, _DEFLATED = b"\x01", b"\x02"
_WORTH = 0.9
_SAMPLE = 1 << 16
_TAG = b"\x01"


class State(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is at a path. `digest` is the SHA-256 of a file's content in hex; `blob` is where that is stored.

    A directory whose mode is 0 may have any. What was skipped has a reason, and a stamp by which it is known again.
    """

    kind: Kind
    mode: int = 0
    size: int = 0
    digest: str = ""
    blob: str = ""
    target: str = ""
    why: str = ""
    stamp: Stamp | None = None

    def same(self, other: State) -> bool:
        """True if nobody could tell one from the other."""
        if self.kind != other.kind:
            return False
        if self.kind == "file":
            return self.digest == other.digest and self.mode == other.mode
        if self.kind == "dir":
            return self.mode == other.mode or not self.mode or not other.mode
        return self.target == other.target and self.stamp == other.stamp


MISSING = State("missing")
FOLDER = State("dir")


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A path as a checkpoint found it, and as it was `after`, when whoever was about to change it was done.

    The path is relative to the root; one that is not valid UTF-8 is written as `packed` says.
    """

    path: str
    state: State
    after: State | None = None


class Heads(msgspec.Struct, frozen=True):
    """Where the conversation stood before a rewind, and where it was put."""

    before: str | None
    after: str | None


class Manifest(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the ref of a checkpoint carries. `to` is what was rewound to, if this is the state before a rewind."""

    message: str
    root: str
    files: tuple[Entry, ...] = ()
    also: tuple[str, ...] = ()
    to: str | None = None
    heads: Heads | None = None

    def paths(self) -> dict[str, Entry]:
        """Its entries by path, as the file system has it."""
        return {unpacked(entry.path): entry for entry in self.files}

    def having(self, entries: Iterable[Entry]) -> Manifest:
        """With more entries. What is there stays: the first state of a path is the one that counts."""
        known = {entry.path for entry in self.files}
        fresh = {entry.path: entry for entry in entries if entry.path not in known}
        return msgspec.structs.replace(self, files=(*self.files, *fresh.values()))

    def left(self, after: dict[str, State]) -> Manifest:
        """With how paths were left; those it does not have are passed over."""
        files = tuple(
            msgspec.structs.replace(entry, after=after[entry.path]) if entry.path in after else entry
            for entry in self.files
        )
        return msgspec.structs.replace(self, files=files)


def write(value: msgspec.Struct) -> bytes:
    """A struct as the payload of a ref: a tag, then JSON."""
    return _TAG + msgspec.json.encode(value)


def read(payload: bytes, type: type[Any], what: str) -> Any:
    """The struct that `write` made the payload of. Tampered."""
    try:
        if payload[:1] != _TAG:
            raise Tampered(what, f"its data has the unknown tag {payload[:1].hex()}")
        return msgspec.json.decode(payload[1:], type=type)
    except msgspec.DecodeError as error:
        raise Tampered(what, f"its data does not decode ({error.__class__.__name__})") from None


def packed(path: str) -> str:
    """A path as text that can be stored: if it is not valid UTF-8, NUL and then its bytes as letters of Latin-1."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return "\0" + path.encode("utf-8", "surrogateescape").decode("latin-1")
    return path


def unpacked(path: str) -> str:
    """The path that `packed` made this text of."""
    return path[1:].encode("latin-1").decode("utf-8", "surrogateescape") if path.startswith("\0") else path


def is_inside(path: str) -> bool:
    """True for a path that leads down from where it begins, and nowhere else."""
    return "\0" not in path and not {"", ".", ".."} & set(path.split("/"))


def hashed(data: bytes) -> str:
    """The SHA-256 of a content, in hex."""
    return hashlib.sha256(data).hexdigest()


def pack(data: bytes) -> bytes:
    """A file's content as a blob has it: a tag, then the bytes, deflated where that is worth it."""
    sample = data[:_SAMPLE]
    if len(zlib.compress(sample, 1)) < len(sample) * _WORTH:
        return _DEFLATED + zlib.compress(data, 3)
    return _RAW + data


def unpack(payload: bytes, state: State) -> bytes | None:
    """The content that `pack` made this blob of; None if it is not the one that the state names."""
    if payload[:1] == _DEFLATED:
        try:
            data = zlib.decompressobj().decompress(payload[1:], state.size + 1)
        except zlib.error:
            return None
    elif payload[:1] == _RAW:
        data = payload[1:]
    else:
        return None
    return data if hashed(data) == state.digest else None
