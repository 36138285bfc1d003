"""Finds imported messages of CPE by the ids that they had there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from clew.agents.cpe.reader import NOTE
from clew.engine.node import Node
from clew.errors import Corrupted
from clew.store.session import Session
from clew.store.store import Store

_ID = re.compile(r"[A-Za-z0-9]{6}")
PAGE = 500


class CpeMessage(NamedTuple):
    """An imported message, and the session of its tree."""

    session: Session
    node: Node


def find_message(store: Store, id: str) -> CpeMessage | None:
    """The message with this id in CPE; None if it was not imported. Reads the imported conversations of CPE."""
    if not _ID.fullmatch(id):
        return None
    for session in _imported(store):
        first = next(session.history(), None)
        for node in [] if first is None else store.nodes.subtree(first.id):
            try:
                if (node.said.extra or {}).get(NOTE) == id:
                    return CpeMessage(session, node)
            except Corrupted:
                continue
    return None


def _imported(store: Store) -> Iterator[Session]:
    for subagents in (False, True):
        for session in store.sessions.list(limit=PAGE, subagents=subagents).all():
            try:
                if NOTE in session.extra and session.forked_from is None:
                    yield session
            except Corrupted:
                continue
