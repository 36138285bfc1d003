"""The last scan of a work tree. One comparison of bytes shows that a folder has not changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from clew.checkpoints.filestate import MISSING, UNSEEN, FileState, Kind, Stamp, pack_path, unpack_path
from clew.checkpoints.gitignore import Tracked
from clew.errors import Corrupted

Row = tuple[str, int, int, int, int]
"""A file's name and stamp. A stamp whose change time is 0 is not trusted."""

_TAG = b"\x01"
_WHAT = "the index of a work tree"
_KINDS: tuple[Kind, ...] = ("file", "link", "dir", "missing", "skipped")


class Content(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The state of a file at the last read; `text` is a link's target, or why the file was skipped."""

    kind: int
    mode: int
    digest: bytes = b""
    blob: bytes = b""
    text: str = ""


class KnownFile(NamedTuple):
    """A file at the last read, with its stamp."""

    stamp: Stamp
    state: FileState


class Folder(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A folder: its mode; its files as bytes, by name; their states; ignored names.

    Ignored folders end with a slash.
    """

    mode: int
    rows: bytes
    contents: bytes
    ignored: tuple[str, ...] = ()

    def files(self) -> dict[str, KnownFile]:
        """Its files by name."""
        contents = _contents(self.contents)
        found = {}
        for name, *stamp in _rows(self.rows):
            found[unpack_path(name)] = KnownFile(_four(stamp), _state(contents[name], _four(stamp)))
        return found


class TreeIndex(msgspec.Struct, array_like=True, frozen=True):
    """A whole tree. Folders are named by their path below the root; the root is "".

    `rules` are stamps; `tracked` are files that git tracks although they are ignored; `unread` are folders that could
    not be read. A path that is neither in a folder nor ignored in it did not exist. An index of version 1 has no
    `unread`.
    """

    version: int = 2
    rules: tuple[tuple[int, ...], ...] = ()
    folders: dict[str, Folder] = {}
    tracked: Tracked = Tracked()
    unread: tuple[str, ...] = ()

    def absent(self, path: str) -> FileState:
        """The state of a path that the index does not have: missing, or unseen if that is uncertain."""
        folder, _, name = path.rpartition("/")
        known = self.folders.get(folder)
        if self.version < 2 or path in self.unread:
            return UNSEEN
        if known is None:  # the folder did not exist, unless that is uncertain too
            return self.absent(folder) if folder else UNSEEN
        return UNSEEN if {pack_path(name), pack_path(f"{name}/")} & {*known.ignored} else MISSING


_decode = msgspec.msgpack.Decoder(TreeIndex).decode
_rows = msgspec.msgpack.Decoder(list[tuple[str, int, int, int, int]]).decode
_contents = msgspec.msgpack.Decoder(dict[str, Content]).decode


def rows_of(rows: list[Row]) -> bytes:
    """Encodes the files of a folder."""
    rows.sort()
    try:
        return msgspec.msgpack.encode(rows)
    except UnicodeEncodeError:
        return msgspec.msgpack.encode(sorted((pack_path(name), *stamp) for name, *stamp in rows))


def folder_of(mode: int, files: Mapping[str, KnownFile], ignored: Iterable[str]) -> Folder:
    """A folder with these files."""
    rows: list[Row] = [(name, *known.stamp) for name, known in files.items()]
    contents = {pack_path(name): _content(known.state) for name, known in files.items()}
    return Folder(
        mode, rows_of(rows), msgspec.msgpack.encode(contents), tuple(sorted(pack_path(one) for one in ignored))
    )


def pack(index: TreeIndex) -> bytes:
    """Encodes an index: a tag, then bytes. See `filestate.pack_path` for names that are not valid UTF-8."""
    folders = {pack_path(path): folder for path, folder in index.folders.items()}
    tracked = index.tracked._replace(paths=tuple(map(pack_path, index.tracked.paths)))
    unread = tuple(map(pack_path, index.unread))
    return _TAG + msgspec.msgpack.encode(TreeIndex(index.version, index.rules, folders, tracked, unread))


def unpack(data: bytes) -> TreeIndex:
    """Decodes an index of `pack`. Raises Corrupted."""
    if data[:1] != _TAG:
        raise Corrupted(_WHAT, f"it has the unknown tag {data[:1].hex()}")
    try:
        index = _decode(memoryview(data)[1:])
    except msgspec.DecodeError as error:
        raise Corrupted(_WHAT, f"it does not decode ({type(error).__name__})") from None
    tracked = index.tracked._replace(paths=tuple(map(unpack_path, index.tracked.paths)))
    folders = {unpack_path(path): folder for path, folder in index.folders.items()}
    return TreeIndex(index.version, index.rules, folders, tracked, tuple(map(unpack_path, index.unread)))


def _content(state: FileState) -> Content:
    digest, blob = bytes.fromhex(state.digest), bytes.fromhex(state.blob)
    return Content(_KINDS.index(state.kind), state.mode, digest, blob, state.target or state.why)


def _state(content: Content, stamp: Stamp) -> FileState:
    kind = _KINDS[content.kind]
    if kind == "skipped":
        return FileState(kind, content.mode, stamp[3], why=content.text, stamp=stamp)
    if kind == "link":
        return FileState(kind, target=content.text)
    return FileState(kind, content.mode, stamp[3], content.digest.hex(), content.blob.hex())


def _four(stamp: list[int]) -> Stamp:
    changed, written, number, size = stamp
    return changed, written, number, size
