"""Exports and imports the checkpoints of files in a session's directory."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple

import msgspec

from clew.base import ids
from clew.checkpoints.filestate import FileState, Manifest, PathEntry, pack, pack_path
from clew.checkpoints.repository import CheckpointRepo, StoredCheckpoint
from clew.checkpoints.results import Checkpoint
from clew.engine.node import microseconds
from clew.store.session import Session
from clew.store.unit import Unit


class CheckpointImport(NamedTuple):
    """A checkpoint from outside; its contents are given by hash and not stored yet."""

    created_at: datetime
    manifest: Manifest
    content: Callable[[FileState], bytes]
    """A file's content, checked against its hash."""


def place(session: Session) -> str | None:
    """The root of a session's checkpoints: its directory."""
    return None if session.cwd is None else os.path.realpath(session.cwd)


def mark(session: Session) -> str:
    """A text that changes whenever a checkpoint of the session changes."""
    repo = CheckpointRepo(session, "")
    found = repo.read(repo.documents)
    if not found:
        return ""
    stamps = [ids.parse(one.id) + one.version.to_bytes(8) for one in found]
    return hashlib.sha256(b"".join(stamps)).hexdigest()[:16]


def carry_out(session: Session) -> list[tuple[Checkpoint, Callable[[FileState], bytes]]]:
    """The checkpoints that the session took itself, oldest first, each with a function that reads contents."""
    root = place(session)
    if root is None:
        return []
    repo = CheckpointRepo(session, pack_path(root))
    return [(stored.to_checkpoint(), repo.content) for stored in repo.read(repo.own)]


def carry_in(session: Session, found: Sequence[CheckpointImport]) -> int | None:
    """Stores checkpoints, oldest first, after those of the session. Returns how many are new.

    Returns None and stores nothing if they do not continue the session's own: the state at a message comes from all
    later checkpoints, so one in the wrong place would change it.
    """
    root = place(session)
    assert root is not None
    repo = CheckpointRepo(session, pack_path(root))

    def work(unit: Unit) -> int | None:
        have = repo.own(unit)
        names, mine = [one.manifest.message for one in found], [stored.manifest.message for stored in have]
        begin = names.index(mine[0]) if mine and mine[0] in names else 0
        if names[begin : begin + len(mine)] != mine:
            return None
        for stored, one in zip(have, found[begin:], strict=False):
            _put(unit, repo, stored, one)
        fresh = found[begin + len(mine) :]
        for one in fresh:
            _put(unit, repo, None, one)
        return len(fresh)

    return repo.write(work)


def add(session: Session, one: CheckpointImport) -> bool:
    """Stores a checkpoint after those of the session; True if it is new. Else adds the files that are missing."""
    repo = CheckpointRepo(session, one.manifest.root)

    def work(unit: Unit) -> bool:
        stored = repo.get(unit, one.manifest.message)
        _put(unit, repo, stored, one)
        return stored is None

    return repo.write(work)


def copy(source: Session, target: Session, messages: Collection[str] | None = None) -> None:
    """Copies the checkpoints that a session sees to a new session with the same messages, in another store.

    With `messages`, those of these messages only, as for a fork; else also the last scan of the tree.
    """
    given = CheckpointRepo(source, "")
    for root in sorted(given.read(given.roots)):
        old, new = CheckpointRepo(source, root), CheckpointRepo(target, root)
        new.write(partial(_copy, old, new, messages))


def _copy(old: CheckpointRepo, new: CheckpointRepo, messages: Collection[str] | None, unit: Unit) -> None:
    found, seat = old.read(lambda unit: (old.all(unit), None if messages is not None else old.worktree(unit)))
    for stored in found:
        if messages is None or (stored.manifest.to is None and stored.manifest.message in messages):
            _copy_contents(old, new, unit, (entry.state for entry in stored.manifest.files))
            new.put(unit, stored.manifest, None, microseconds(stored.document.created_at))
    if seat is not None:
        index = old.index(seat)
        states = [known.state for folder in index.folders.values() for known in folder.files().values()]
        new.set_worktree(unit, None, seat.data, index, _copy_contents(old, new, unit, states))


def _copy_contents(old: CheckpointRepo, new: CheckpointRepo, unit: Unit, states: Iterable[FileState]) -> set[str]:
    return {unit.blob(new.session, old.session.blobs.get(state.blob)) for state in states if state.blob}


def _put(unit: Unit, repo: CheckpointRepo, stored: StoredCheckpoint | None, one: CheckpointImport) -> None:
    """Stores a checkpoint, or the entries that the session's own one lacks."""
    empty = msgspec.structs.replace(one.manifest, files=())
    manifest = empty if stored is None else stored.manifest
    known = {entry.path for entry in manifest.files}
    fresh = [_store_content(unit, repo, entry, one) for entry in one.manifest.files if entry.path not in known]
    imported = manifest.imported or (one.manifest.imported and bool(fresh))
    manifest = msgspec.structs.replace(manifest.with_entries(fresh), imported=imported)
    repo.put(unit, manifest, stored, microseconds(one.created_at))


def _store_content(unit: Unit, repo: CheckpointRepo, entry: PathEntry, one: CheckpointImport) -> PathEntry:
    if entry.state.kind != "file":
        return entry
    blob = unit.blob(repo.session, pack(one.content(entry.state)))
    return msgspec.structs.replace(entry, state=msgspec.structs.replace(entry.state, blob=blob))
