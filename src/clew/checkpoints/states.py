"""What is at a path, as a value: a file by its hash, a link by its target, nothing; and what a checkpoint holds."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec

from clew.errors import Tampered

Kind = Literal["file", "link", "dir", "missing", "skipped", "unseen"]
Stamp = tuple[int, int, int, int]
"""Time of change, time of content, number and size of a file: another stamp may be another file."""
ANY = -1
"""The mode of a folder of which it does not matter: it was walked through, or is made for what comes into it."""

_RAW, _DEFLATED = b"\x01", b"\x02"
_WORTH = 0.9
_SAMPLE = 1 << 16
_TAG, _MANIFEST = b"\x01", b"\x02"
"""How a payload was written. A manifest behind the first tag may call a path missing that was never looked at."""


class State(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is at a path. `digest` is the SHA-256 of a file's content in hex; `blob` is where that is stored.

    A directory whose mode is `ANY` may have any. What was skipped has a reason, and a stamp by which it is known again.
    `missing` means that somebody looked and nothing was there; `unseen`, that nobody could look: the path was ignored,
    or in a folder that could not be read.
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
            return self.mode == other.mode or ANY in (self.mode, other.mode)
        return self.target == other.target and self.stamp == other.stamp


MISSING = State("missing")
UNSEEN = State("unseen")
FOLDER = State("dir", ANY)


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
        """With more entries. What is there stays: the first state of a path is the one that counts.

        Something that was unseen and is there gives way to what it is found to be. A path that has entries below it
        was a folder when they were made, whatever became of it since.
        """
        known = {entry.path: entry for entry in self.files}
        folders = {folder for path in self.paths() for folder in folders_of(path)}
        for entry in entries:
            old = known.get(entry.path)
            if old is None:
                fits = entry.state.kind == "dir" or unpacked(entry.path) not in folders
            else:
                fits = old.state == UNSEEN and entry.state.kind not in ("missing", "unseen")
            if fits:
                known[entry.path] = entry
        return msgspec.structs.replace(self, files=tuple(known.values()))

    def left(self, after: dict[str, State]) -> Manifest:
        """With how paths were left, as far as that was seen; those it does not have are passed over."""
        known = {path: None if state == UNSEEN else state for path, state in after.items()}
        files = (
            msgspec.structs.replace(entry, after=known[entry.path]) if entry.path in known else entry
            for entry in self.files
        )
        return msgspec.structs.replace(self, files=tuple(files))


def write(value: msgspec.Struct) -> bytes:
    """A struct as the payload of a ref: a tag, then JSON."""
    return (_MANIFEST if isinstance(value, Manifest) else _TAG) + msgspec.json.encode(value)


def read(payload: bytes, type: type[Any], what: str) -> Any:
    """The struct that `write` made the payload of. Tampered."""
    tag = payload[:1]
    if tag != _TAG and (tag != _MANIFEST or type is not Manifest):
        raise Tampered(what, f"its data has the unknown tag {tag.hex()}")
    try:
        value = msgspec.json.decode(payload[1:], type=type)
    except msgspec.DecodeError as error:
        raise Tampered(what, f"its data does not decode ({error.__class__.__name__})") from None
    return _doubted(value) if type is Manifest and tag == _TAG else value


def _doubted(manifest: Manifest) -> Manifest:
    """A manifest of the first form, read safely: only what a rewind has put somewhere is known to have been missing.

    There the mode 0 of a folder stands for any.
    """

    def left(entry: Entry) -> Entry:
        any_mode = entry.after is not None and entry.after.kind == "dir" and not entry.after.mode
        return msgspec.structs.replace(entry, after=FOLDER) if any_mode else entry

    def sure(entry: Entry) -> bool:
        put = manifest.to is not None and entry.after is not None and not entry.after.same(entry.state)
        return put or entry.state.kind != "missing"

    files = (left(entry) if sure(entry) else Entry(entry.path, UNSEEN) for entry in manifest.files)
    return msgspec.structs.replace(manifest, files=tuple(files))


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


def folders_of(path: str) -> Iterator[str]:
    """The folders that a path is in, the outermost first."""
    for at, letter in enumerate(path):
        if letter == "/":
            yield path[:at]


def is_reserved(name: str) -> bool:
    """True for the name of a folder that belongs to git or to clew: nothing in it is kept or changed."""
    return name.lower() in (".git", ".clew")


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
