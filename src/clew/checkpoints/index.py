"""A work tree as it was last seen. A folder in which nothing has changed is told by one comparison of bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from clew.checkpoints.ignored import Tracked
from clew.checkpoints.states import MISSING, UNSEEN, Kind, Stamp, State, packed, unpacked
from clew.errors import Tampered

Row = tuple[str, int, int, int, int]
"""A file's name and its stamp. One whose time of change is 0 is not to be trusted."""

_TAG = b"\x01"
_WHAT = "the index of a work tree"
_KINDS: tuple[Kind, ...] = ("file", "link", "dir", "missing", "skipped")


class Content(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What a file was when it was last read; `text` is a link's target, or why it was skipped."""

    kind: int
    mode: int
    digest: bytes = b""
    blob: bytes = b""
    text: str = ""


class Known(NamedTuple):
    """A file as it was last read, under the stamp that it then had."""

    stamp: Stamp
    state: State


class Folder(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A folder: its mode; rows of its files as bytes, by name; what they were; names that rules leave out.

    Of what is left out, folders end with a slash.
    """

    mode: int
    rows: bytes
    contents: bytes
    ignored: tuple[str, ...] = ()

    def files(self) -> dict[str, Known]:
        """Its files by name."""
        contents = _contents(self.contents)
        found = {}
        for name, *stamp in _rows(self.rows):
            found[unpacked(name)] = Known(_four(stamp), _state(contents[name], _four(stamp)))
        return found


class Index(msgspec.Struct, array_like=True, frozen=True):
    """A whole tree. Folders are named by their path below the root; the root is "". `rules` are stamps; `tracked` are
    files that git tracks although rules leave them out; `unread` are folders that could not be read.

    What is neither in a folder nor ignored in it was not there. An index of version 1 does not tell `unread`.
    """

    version: int = 2
    rules: tuple[tuple[int, ...], ...] = ()
    folders: dict[str, Folder] = {}
    tracked: Tracked = Tracked()
    unread: tuple[str, ...] = ()

    def absent(self, path: str) -> State:
        """What a path was that the index does not have: missing, or unseen if nobody could tell."""
        folder, _, name = path.rpartition("/")
        known = self.folders.get(folder)
        if self.version < 2 or path in self.unread:
            return UNSEEN
        if known is None:  # there was no such folder, unless that is not known either
            return self.absent(folder) if folder else UNSEEN
        return UNSEEN if {packed(name), packed(f"{name}/")} & {*known.ignored} else MISSING


_decode = msgspec.msgpack.Decoder(Index).decode
_rows = msgspec.msgpack.Decoder(list[tuple[str, int, int, int, int]]).decode
_contents = msgspec.msgpack.Decoder(dict[str, Content]).decode


def rows_of(rows: list[Row]) -> bytes:
    """Rows as a folder has them."""
    rows.sort()
    try:
        return msgspec.msgpack.encode(rows)
    except UnicodeEncodeError:
        return msgspec.msgpack.encode(sorted((packed(name), *stamp) for name, *stamp in rows))


def folder_of(mode: int, files: Mapping[str, Known], ignored: Iterable[str]) -> Folder:
    """A folder that has these files."""
    rows: list[Row] = [(name, *known.stamp) for name, known in files.items()]
    contents = {packed(name): _content(known.state) for name, known in files.items()}
    return Folder(mode, rows_of(rows), msgspec.msgpack.encode(contents), tuple(sorted(packed(one) for one in ignored)))


def pack(index: Index) -> bytes:
    """An index as bytes behind a tag. Names that are not valid UTF-8 are written as `states.packed` says."""
    folders = {packed(path): folder for path, folder in index.folders.items()}
    tracked = index.tracked._replace(paths=tuple(map(packed, index.tracked.paths)))
    unread = tuple(map(packed, index.unread))
    return _TAG + msgspec.msgpack.encode(Index(index.version, index.rules, folders, tracked, unread))


def unpack(data: bytes) -> Index:
    """The index that `pack` made these bytes of. Tampered."""
    if data[:1] != _TAG:
        raise Tampered(_WHAT, f"it has the unknown tag {data[:1].hex()}")
    try:
        index = _decode(memoryview(data)[1:])
    except msgspec.DecodeError as error:
        raise Tampered(_WHAT, f"it does not decode ({type(error).__name__})") from None
    tracked = index.tracked._replace(paths=tuple(map(unpacked, index.tracked.paths)))
    folders = {unpacked(path): folder for path, folder in index.folders.items()}
    return Index(index.version, index.rules, folders, tracked, tuple(map(unpacked, index.unread)))


def _content(state: State) -> Content:
    digest, blob = bytes.fromhex(state.digest), bytes.fromhex(state.blob)
    return Content(_KINDS.index(state.kind), state.mode, digest, blob, state.target or state.why)


def _state(content: Content, stamp: Stamp) -> State:
    kind = _KINDS[content.kind]
    if kind == "skipped":
        return State(kind, content.mode, stamp[3], why=content.text, stamp=stamp)
    if kind == "link":
        return State(kind, target=content.text)
    return State(kind, content.mode, stamp[3], content.digest.hex(), content.blob.hex())


def _four(stamp: list[int]) -> Stamp:
    changed, written, number, size = stamp
    return changed, written, number, size
