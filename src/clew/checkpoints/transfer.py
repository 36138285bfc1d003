"""Checkpoints on their way out of a store, and into one: of the files in a session's directory."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from clew.backends import Tx
from clew.checkpoints.shelf import Kept, Shelf
from clew.checkpoints.states import Entry, Manifest, State, pack, packed
from clew.checkpoints.values import Checkpoint
from clew.node import microseconds
from clew.session import Session


class Carried(NamedTuple):
    """A checkpoint that comes from elsewhere; its contents are told by their hashes, and not yet stored."""

    created_at: datetime
    manifest: Manifest
    content: Callable[[State], bytes]
    """A file's content, compared with its hash."""


def place(session: Session) -> str | None:
    """The root that a session's checkpoints are looked for under: its directory."""
    return None if session.cwd is None else os.path.realpath(session.cwd)


def mark(session: Session) -> str:
    """Another text whenever a checkpoint of the session is another one."""
    shelf = Shelf(session, "")
    rows = shelf.read(shelf.rows)
    if not rows:
        return ""
    return hashlib.sha256(b"".join(row.key + row.version.to_bytes(8) for row in rows)).hexdigest()[:16]


def carry_out(session: Session) -> list[tuple[Checkpoint, Callable[[State], bytes]]]:
    """The checkpoints that the session has taken itself, oldest first, each with what tells contents."""
    root = place(session)
    if root is None:
        return []
    shelf = Shelf(session, packed(root))
    return [(kept.told(), shelf.content) for kept in shelf.read(shelf.own)]


def carry_in(session: Session, found: Sequence[Carried]) -> int | None:
    """Stores checkpoints, oldest first, after those that the session has. Returns how many are new.

    None, and nothing is stored, if they do not go on where the session's end: a state at a message comes from all that
    were taken after it, and so one in the wrong place would make it another.
    """
    root = place(session)
    assert root is not None
    shelf = Shelf(session, packed(root))

    def work(tx: Tx) -> int | None:
        have = shelf.own(tx)
        names, mine = [one.manifest.message for one in found], [kept.manifest.message for kept in have]
        begin = names.index(mine[0]) if mine and mine[0] in names else 0
        if names[begin : begin + len(mine)] != mine:
            return None
        for kept, one in zip(have, found[begin:], strict=False):
            _put(tx, shelf, kept, one)
        fresh = found[begin + len(mine) :]
        for one in fresh:
            _put(tx, shelf, None, one)
        return len(fresh)

    return shelf.write(work)


def _put(tx: Tx, shelf: Shelf, kept: Kept | None, one: Carried) -> None:
    """Stores a checkpoint, or what one has that the session's own has not."""
    empty = msgspec.structs.replace(one.manifest, files=())
    manifest = empty if kept is None else kept.manifest
    known = {entry.path for entry in manifest.files}
    fresh = [_stored(tx, shelf, entry, one) for entry in one.manifest.files if entry.path not in known]
    shelf.put(tx, manifest.having(fresh), kept, microseconds(one.created_at))


def _stored(tx: Tx, shelf: Shelf, entry: Entry, one: Carried) -> Entry:
    if entry.state.kind != "file":
        return entry
    blob = shelf.keep(tx, pack(one.content(entry.state)))
    return msgspec.structs.replace(entry, state=msgspec.structs.replace(entry.state, blob=blob))
