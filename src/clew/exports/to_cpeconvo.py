"""Conversations as a file of CPE: see `clew.agents.cpe.writer`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator

from clew.agents.cpe.writer import write_file
from clew.store.session import Session
from clew.store.store import Store

PIECE = 1 << 20


def cpeconvo(
    store: Store,
    sessions: Iterable[Session] | None = None,
    *,
    folder: str | None = None,
    damaged: list[str] | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Iterator[bytes]:
    """The bytes of a ``.cpeconvo`` file with these sessions, or all.

    The file is made in a new folder inside `folder`, or among the temporary files, that only its owner can read.
    Messages that cannot be read are left out, and added to `damaged`.
    """
    with tempfile.TemporaryDirectory(prefix=".clew-export-", dir=folder) as place:
        path = os.path.join(place, "cpeconvo")
        chosen = every_session(store) if sessions is None else sessions
        write_file(store, path, chosen, damaged=[] if damaged is None else damaged, progress=progress)
        with open(path, "rb") as file:
            while piece := file.read(PIECE):
                yield piece


def every_session(store: Store) -> Iterator[Session]:
    """All sessions, and the traces of subagents that no session owns."""
    yield from store.sessions.list().all()
    yield from (one for one in store.sessions.list(subagents=True).all() if one.owner_id is None)
