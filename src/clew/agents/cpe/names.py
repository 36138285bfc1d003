"""Finds imported messages of CPE by the ids that they had there."""

from __future__ import annotations

from collections.abc import Iterator

from clew.errors import Corrupted
from clew.store.origin import CPE_NOTE
from clew.store.session import Session
from clew.store.store import Store

PAGE = 500


def imported_ids(store: Store, *, trashed: bool = False) -> dict[str, dict[str, Session]]:
    """The imported messages by their ids in CPE: the id of each here, and a session that has it.

    Reads the imported conversations; with `trashed` those in the trash instead.
    """
    found: dict[str, dict[str, Session]] = {}
    seen = set[str]()
    for session in _imported(store, trashed):
        first = next(session.history(), None)
        if first is None or first.id in seen:
            continue
        seen.add(first.id)
        for node in store.nodes.subtree(first.id):
            try:
                given = (node.said.extra or {}).get(CPE_NOTE)
            except Corrupted:
                continue
            if isinstance(given, str):
                found.setdefault(given, {})[node.id] = session
    return found


def _imported(store: Store, trashed: bool) -> Iterator[Session]:
    lists = (
        [store.sessions.trashed(limit=PAGE)]
        if trashed
        else [store.sessions.list(limit=PAGE, subagents=subagents) for subagents in (False, True)]
    )
    for session in (session for page in lists for session in page.all()):
        try:
            if CPE_NOTE in session.extra:
                yield session
        except Corrupted:
            continue
