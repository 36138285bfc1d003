"""The state of a path: a file by its hash, a link by its target, or missing; and the content of a checkpoint."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec

from clew.errors import Corrupted

Kind = Literal["file", "link", "dir", "missing", "skipped", "unseen"]
Stamp = tuple[int, int, int, int]
"""Change time, modification time, inode and size of a file. If the stamp differs, the file may differ."""
ANY = -1
"""Mode of a folder when its real mode does not matter, because it was only traversed or is created for its content."""

_RAW, _DEFLATED = b"\x01", b"\x02"
_WORTH = 0.9
_SAMPLE = 1 << 16
_TAG, _MANIFEST = b"\x01", b"\x02"
"""Tags of the payload formats, of manifests and of the rest."""


class FileState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of a path. `digest` is the SHA-256 of a file's content in hex; `blob` is where the content is stored.

    A directory with mode `ANY` matches any mode. A skipped file has a reason, and a stamp to recognise it. `missing`
    means that the path was examined and did not exist; `unseen` means that it could not be examined, because it was
    ignored or in an unreadable folder.
    """

    kind: Kind
    mode: int = 0
    size: int = 0
    digest: str = ""
    blob: str = ""
    target: str = ""
    why: str = ""
    stamp: Stamp | None = None

    def same(self, other: FileState) -> bool:
        """True if the two states cannot be told apart."""
        if self.kind != other.kind:
            return False
        if self.kind == "file":
            return self.digest == other.digest and self.mode == other.mode
        if self.kind == "dir":
            return self.mode == other.mode or ANY in (self.mode, other.mode)
        return self.target == other.target and self.stamp == other.stamp


MISSING = FileState("missing")
UNSEEN = FileState("unseen")
FOLDER = FileState("dir", ANY)


class PathEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A path as a checkpoint found it, and as it was left `after` the change.

    The path is relative to the root; see `pack_path` for paths that are not valid UTF-8.
    """

    path: str
    state: FileState
    after: FileState | None = None


class HeadChange(msgspec.Struct, frozen=True):
    """The head of the conversation before a rewind, and after it."""

    before: str | None
    after: str | None


class Manifest(msgspec.Struct, frozen=True, omit_defaults=True):
    """The payload of a checkpoint's ref. `to` is the target of the rewind, if this is the state before a rewind.

    `imported` means that root and contents are what another program's history says.
    """

    message: str
    root: str
    files: tuple[PathEntry, ...] = ()
    also: tuple[str, ...] = ()
    to: str | None = None
    heads: HeadChange | None = None
    imported: bool = False

    def paths(self) -> dict[str, PathEntry]:
        """Its entries by file system path."""
        return {unpack_path(entry.path): entry for entry in self.files}

    def with_entries(self, entries: Iterable[PathEntry]) -> Manifest:
        """Adds entries. Existing entries stay, because the first state of a path is the original.

        An unseen entry is replaced by what is found later. A path that has entries below it was a folder when they were
        made, even if it is not one now.
        """
        known = {entry.path: entry for entry in self.files}
        folders = {folder for path in self.paths() for folder in folders_of(path)}
        for entry in entries:
            old = known.get(entry.path)
            if old is None:
                fits = entry.state.kind == "dir" or unpack_path(entry.path) not in folders
            else:
                fits = old.state == UNSEEN and entry.state.kind not in ("missing", "unseen")
            if fits:
                known[entry.path] = entry
        return msgspec.structs.replace(self, files=tuple(known.values()))

    def with_walks(self, entries: Iterable[PathEntry]) -> Manifest:
        """Adds entries of later scans.

        A path that these found missing in a folder that was unseen before may have existed, so it stays unseen, with
        the folder.
        """
        dark = {path for path, entry in self.paths().items() if entry.state == UNSEEN}
        return self.with_entries(
            entry
            for entry in entries
            if entry.state.kind != "missing"
            or not any(folder in dark for folder in folders_of(unpack_path(entry.path)))
        )

    def with_final_states(self, after: dict[str, FileState]) -> Manifest:
        """Sets the state in which paths were left, where it was seen. Ignores paths that it does not have."""
        known = {path: None if state == UNSEEN else state for path, state in after.items()}
        files = (
            msgspec.structs.replace(entry, after=known[entry.path]) if entry.path in known else entry
            for entry in self.files
        )
        return msgspec.structs.replace(self, files=tuple(files))


def write(value: msgspec.Struct) -> bytes:
    """Encodes a struct as the payload of a ref: a tag, then JSON."""
    return (_MANIFEST if isinstance(value, Manifest) else _TAG) + msgspec.json.encode(value)


def read(payload: bytes, type: type[Any], what: str) -> Any:
    """Decodes a payload of `write`. Raises Corrupted."""
    tag = payload[:1]
    if tag != (_MANIFEST if type is Manifest else _TAG):
        raise Corrupted(what, f"its data has the unknown tag {tag.hex()}")
    try:
        return msgspec.json.decode(payload[1:], type=type)
    except msgspec.DecodeError as error:
        raise Corrupted(what, f"its data does not decode ({error.__class__.__name__})") from None


def pack_path(path: str) -> str:
    """A path as text that can be stored. If it is not valid UTF-8: NUL, then its bytes as Latin-1."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return "\0" + path.encode("utf-8", "surrogateescape").decode("latin-1")
    return path


def unpack_path(path: str) -> str:
    """Decodes a path of `pack_path`."""
    return path[1:].encode("latin-1").decode("utf-8", "surrogateescape") if path.startswith("\0") else path


def folders_of(path: str) -> Iterator[str]:
    """The parent folders of a path, outermost first."""
    for at, letter in enumerate(path):
        if letter == "/":
            yield path[:at]


def is_reserved(name: str) -> bool:
    """True for the name of a folder of git or clew; checkpoints ignore its content."""
    return name.lower() in (".git", ".clew")


def is_inside(path: str) -> bool:
    """True for a relative path that stays below its start."""
    return "\0" not in path and not {"", ".", ".."} & set(path.split("/"))


def sha256_hex(data: bytes) -> str:
    """The SHA-256 of a content, in hex."""
    return hashlib.sha256(data).hexdigest()


def pack(data: bytes) -> bytes:
    """A file's content as stored in a blob: a tag, then the bytes, compressed where that saves space."""
    sample = data[:_SAMPLE]
    packed = _deflate(sample)
    if len(packed) >= len(sample) * _WORTH:
        return _RAW + data
    return _DEFLATED + (packed if len(data) <= _SAMPLE else _deflate(data))


def _deflate(data: bytes) -> bytes:
    """`data` in zlib's format, with a window as large as the data: setting up a full one takes 50 µs for each file."""
    bits = min(max(len(data).bit_length(), 10), zlib.MAX_WBITS)
    packer = zlib.compressobj(3, zlib.DEFLATED, bits, min(bits - 6, zlib.DEF_MEM_LEVEL))
    return packer.compress(data) + packer.flush()


def unpack(payload: bytes, state: FileState) -> bytes | None:
    """Decodes a blob of `pack`; None if it does not match the state's digest."""
    if payload[:1] == _DEFLATED:
        try:
            data = zlib.decompressobj().decompress(payload[1:], state.size + 1)
        except zlib.error:
            return None
    elif payload[:1] == _RAW:
        data = payload[1:]
    else:
        return None
    return data if sha256_hex(data) == state.digest else None
