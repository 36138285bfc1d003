"""Which files were imported: their size and time, so that an unchanged file is not read again."""

from __future__ import annotations

import os
import uuid
from typing import NamedTuple

import msgspec

from clew.backends import RefRow, Tx
from clew.engine.log import Log
from clew.sources.items import Item
from clew.store.parts import Parts
from clew.store.store import Store

IMPORTS = "imports"
"""Kind of the one ref whose log has the imported files."""


class ImportedFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file as it was when it was imported."""

    source: str
    path: str
    size: int
    modified: int
    inode: int
    member: str | None = None
    sessions: tuple[str, ...] = ()


class _Key(NamedTuple):
    path: str
    member: str | None


class ImportHistory:
    """The imported files of a store, as its log has them."""

    def __init__(self, store: Store) -> None:
        self._parts = Parts.of(store)
        self._files: dict[_Key, ImportedFile] = {}
        row = self._parts.engine.read(lambda tx: self._parts.refs.own(tx, IMPORTS))
        if row is not None:
            for entry in Log(self._parts.engine, lambda: row).read():
                file = msgspec.json.decode(entry.data, type=ImportedFile)
                self._files[_Key(file.path, file.member)] = file

    def is_unchanged(self, item: Item) -> bool:
        """True if the file was imported, and has neither grown nor changed since."""
        before = self._files.get(_Key(item.path, item.member))
        return before is not None and (before.size, before.modified, before.inode) == _state(item)

    def note(self, source: str, item: Item, sessions: tuple[str, ...]) -> None:
        """Notes that a file was imported as a whole."""
        size, modified, inode = _state(item)
        file = ImportedFile(source, item.path, size, modified, inode, item.member, sessions)
        self._files[_Key(item.path, item.member)] = file

        def own(tx: Tx) -> RefRow:
            return self._parts.refs.add_own(tx, IMPORTS)

        row = self._parts.engine.write(own)
        Log(self._parts.engine, lambda: row).append(msgspec.json.encode(file), id=str(uuid.uuid4()))


def _state(item: Item) -> tuple[int, int, int]:
    try:
        status = os.stat(item.path)
    except OSError:
        return item.size, item.modified, 0
    return item.size, item.modified, status.st_ino
