"""Copies of working files that a program kept, stored as checkpoints: `clew checkpoint` and `clew rewind` know them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import IO

from clew.checkpoints.filestate import (
    MISSING,
    UNSEEN,
    FileState,
    Manifest,
    PathEntry,
    is_inside,
    is_reserved,
    pack_path,
    sha256_hex,
)
from clew.checkpoints.transfer import CheckpointImport, add, carry_out, place
from clew.errors import ClewError
from clew.sources.contract import FileCopies
from clew.store.session import Session

LARGEST = 16 * 1024 * 1024
"""Bytes of a copy that is stored at most, as for checkpoints that clew takes itself."""


def store_copies(session: Session, found: Sequence[FileCopies]) -> list[str]:
    """Stores copies as checkpoints of the session, oldest first, each in a transaction. Returns notes on the others.

    The state at a message comes from its checkpoint and all later ones, so none is inserted before one that the session
    has: such copies are left out, unless the session has that checkpoint itself.
    """
    root = place(session)
    if root is None:
        return [f"{len(found)} copies of files: the conversation has no directory"] if found else []
    has = {checkpoint.message for checkpoint, _ in carry_out(session)}
    late = max((number for number, one in enumerate(found) if one.message in has), default=-1)
    reader = _Reader(root, session.cwd or root)
    for number, one in enumerate(found):
        if number > late or one.message in has:
            add(session, reader.checkpoint(one))
    return list(dict.fromkeys(reader.notes))  # a copy is named by each later snapshot, too


class _Reader:
    """Reads copies. Contents are in memory while their checkpoint is stored."""

    def __init__(self, root: str, cwd: str) -> None:
        self._root = root
        self._prefixes = tuple({f"{folder.rstrip('/')}/" for folder in (root, cwd)})
        self.notes: list[str] = []

    def checkpoint(self, one: FileCopies) -> CheckpointImport:
        contents: dict[str, bytes] = {}
        files = tuple(self._entries(one, contents))
        manifest = Manifest(one.message, pack_path(self._root), files, imported=True)
        return CheckpointImport(one.created_at, manifest, lambda state: contents[state.digest])

    def _entries(self, copies: FileCopies, contents: dict[str, bytes]) -> Iterator[PathEntry]:
        for path, opener in copies.files.items():
            name = self._below(path)
            if name is None:
                self.notes.append(f"{path}: the copy is not stored: it is not a file of the project")
                continue
            yield PathEntry(pack_path(name), self._state(path, opener, contents))

    def _below(self, path: str) -> str | None:
        for prefix in self._prefixes:
            path = path.removeprefix(prefix)
        return None if not is_inside(path) or any(map(is_reserved, path.split("/"))) else path

    def _state(self, path: str, opener: Callable[[], IO[bytes]] | None, contents: dict[str, bytes]) -> FileState:
        if opener is None:
            return MISSING
        try:
            with opener() as file:
                mode = os.fstat(file.fileno()).st_mode & 0o777
                data = file.read(LARGEST + 1)
        except (OSError, ClewError) as error:
            why = error.message if isinstance(error, ClewError) else error.strerror or type(error).__name__
            self.notes.append(f"{path}: the copy cannot be read ({why})")
            return UNSEEN
        if len(data) > LARGEST:
            self.notes.append(f"{path}: the copy has more than {LARGEST:,} bytes")
            return UNSEEN
        digest = sha256_hex(data)
        contents[digest] = data
        return FileState("file", mode, len(data), digest)


def merge(found: list[FileCopies], one: FileCopies) -> None:
    """Adds copies to those found so far: later copies for the same message add files that are missing."""
    if found and found[-1].message == one.message:
        found[-1] = found[-1]._replace(files={**one.files, **found[-1].files})
    else:
        found.append(one)
