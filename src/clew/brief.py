"""What a list shows of many sessions, read together: one by one each would take several reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from clew.backends import ID, POS, SEQ_BITS, Place, Tx
from clew.engine import handle_beside
from clew.errors import Tampered
from clew.node import Counters
from clew.session import Session


class Brief(NamedTuple):
    """What takes a read to know of a session."""

    handle: str
    counters: Counters


def briefs(sessions: Sequence[Session]) -> list[Brief | None]:
    """One for each session, as it was read; None for one that is damaged or has changed: it is to be asked itself."""
    if not sessions:
        return []

    def work(tx: Tx) -> list[Brief | None]:
        places = tx.nodes_at([head for one in sessions if (head := one._row.head) is not None])
        return [_brief(tx, one, places) for one in sessions]

    return sessions[0]._engine.read(work)


def _brief(tx: Tx, session: Session, places: Mapping[int, Place]) -> Brief | None:
    row, engine = session._row, session._engine
    handle = handle_beside(row.key, tx.key_beside(row.workspace, row.kind, row.key))
    if row.head is None:
        return Brief(handle, Counters())
    place = places.get(row.head)
    run = None if place is None or place.row[ID] != row.head_id else tx.run(place.row[POS] >> SEQ_BITS)
    if place is None or run is None:
        return None
    try:
        engine.checked(tx, run)
    except Tampered:
        return None
    return Brief(handle, engine.node(place).counters)
