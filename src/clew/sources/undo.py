"""Taking back an import: what it added goes, unless something else has used it since."""

from __future__ import annotations

from typing import NamedTuple

from clew.backends import ID, MAX_POS, RefRow, Tx
from clew.base import ids
from clew.engine import paths
from clew.engine.node import node_row
from clew.engine.receipts import Receipt
from clew.engine.refs import BRANCH
from clew.errors import ClewError, Conflict, Invalid
from clew.sources.history import ImportHistory
from clew.sources.runs import Change, changes_of, find_run, mark_undone, run_data
from clew.store.parts import Parts
from clew.store.session_table import SESSION, SUBAGENT
from clew.store.store import Store

_USES = (SESSION, SUBAGENT, "snapshot")
"""Kinds of refs that use messages on their own account."""


class Left(NamedTuple):
    """A session that was left as it is, or a part of it, and why."""

    session: str
    why: str


class UndoReport(NamedTuple):
    """What an undo has removed."""

    run: str
    sessions: tuple[str, ...]
    """Sessions that were removed."""
    messages: int
    """Messages that were removed, with those of the sessions."""
    left: tuple[Left, ...]
    receipt: Receipt | None
    """The receipt of the purge; None if no session was removed."""


def undo(store: Store, run: str, *, dry_run: bool = False) -> UndoReport:
    """Removes what one import added and nothing else has used since. NotFound; Invalid if it was undone before.

    A session that the import created is purged, if it is as the import left it and nothing was forked from it. From one
    that it continued, the messages that it added are deleted, if they are still the end and nothing refers to them;
    their records in the session's log stay. The files are read again by the next import.
    """
    parts = Parts.of(store)
    row = find_run(store, run)
    if run_data(store, row).undone:
        raise Invalid(f"the import {run} was undone before")
    changes = changes_of(store, row)
    created = {one.session for one in changes.values() if one.created}
    going: list[RefRow] = []
    left: list[Left] = []
    messages = 0
    for change in reversed(changes.values()):  # subagents before their owners
        found = _row(parts, change.session)
        if found is None:
            left.append(Left(change.session, "it was deleted"))
            continue
        why = _why_not(parts, found, change, created)
        if why is not None:
            left.append(Left(change.session, why))
        elif change.created:
            going.append(found)
        else:
            try:
                messages += _cut(store, found, change, dry_run=dry_run)
            except ClewError as error:
                left.append(Left(change.session, error.message))
    going = [one for one in going if one.owner not in {other.ref for other in going}]
    receipt = parts.purger.purge(going, reason="user-requested", dry_run=dry_run) if going else None
    if receipt is not None:
        messages += receipt.messages
        left += [Left(failure.session, failure.error) for failure in receipt.failures]
    if not dry_run:
        id = ids.text(row.key)
        ImportHistory(store).forget(lambda file: file.run == id)
        mark_undone(store, row)
    gone = () if receipt is None else tuple(receipt.sessions)
    return UndoReport(ids.text(row.key), gone, messages, tuple(left), receipt)


def _row(parts: Parts, session: str) -> RefRow | None:
    key = ids.parse(session)
    return parts.table.get(SESSION, key) or parts.table.get(SUBAGENT, key)


def _why_not(parts: Parts, row: RefRow, change: Change, created: set[str]) -> str | None:
    """Why a session cannot be taken back; None if it can."""
    if row.trashed_at is not None:
        return "it is in the trash"
    if row.hold:
        return "it is held"
    if row.version != change.version:
        return "it was changed or continued since"
    return parts.engine.read(lambda tx: _use(tx, row, change, created))


def _use(tx: Tx, row: RefRow, change: Change, created: set[str]) -> str | None:
    """What uses a session that an import created, or its messages."""
    if not change.created or row.tree is None:
        return None
    owned = tx.refs_owned(row.ref)
    if any(one.kind not in (BRANCH, SUBAGENT) for one in owned):
        return "it has checkpoints or other data since"
    if any(one.kind == SUBAGENT and ids.text(one.key) not in created for one in owned):
        return "it has a subagent's trace that this import did not add"
    for one in tx.refs_in_tree(row.tree, 0, MAX_POS):
        if one.kind in _USES and one.ref != row.ref and ids.text(one.key) not in created:
            return f"{one.kind} {ids.text(one.key)} uses its messages"
    return None


def _cut(store: Store, row: RefRow, change: Change, *, dry_run: bool) -> int:
    """Deletes the messages that were added at the end of a session; returns how many. Conflict."""
    parts = Parts.of(store)
    if change.messages == 0 or change.after is None:
        return 0
    head, stop = ids.parse(change.after), None if change.before is None else ids.parse(change.before)

    def added(tx: Tx) -> list[bytes]:
        place = tx.ground(head)
        if place is None or place.pos is None:
            return []
        way = [node_row(node)[ID] for node in paths.whole(parts.engine, tx, place.pos)]
        return way[way.index(stop) + 1 :] if stop in way else []

    going = parts.engine.read(added)
    if not going:
        raise Conflict("its new messages are on other branches")
    if dry_run:
        return len(going)
    return store.nodes.delete([ids.text(id) for id in going]).messages
