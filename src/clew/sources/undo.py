"""Taking back an import: what it added goes, unless something else has used it since."""

from __future__ import annotations

from typing import NamedTuple

from clew.backends import ID, MAX_POS, RefRow, Tx
from clew.base import ids
from clew.engine import deletion, paths
from clew.engine.node import node_row
from clew.engine.receipts import Receipt
from clew.engine.refs import BRANCH
from clew.errors import ClewError, Conflict, Invalid
from clew.sources.history import IMPORTED, ImportHistory
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

    A session that the import created is purged with its subagents, if they are as the import left them and nothing was
    forked from them. From one that it continued, the messages that it added are deleted, if they are still the end and
    nothing refers to them; their records in the session's log stay. Each session is checked in the transaction that
    deletes it, so that nothing is lost that another program adds meanwhile. The next import reads the files again.
    What was purged before stays purged.
    """
    parts = Parts.of(store)
    row = find_run(store, run)
    if run_data(store, row).undone:
        raise Invalid(f"the import {run} was undone before")
    changes = changes_of(store, row)
    left: list[Left] = []
    found: dict[int, tuple[RefRow, Change]] = {}
    for change in changes.values():
        one = _row(parts, change.session)
        if one is None:
            left.append(Left(change.session, "it was deleted"))
        else:
            found[one.ref] = one, change
    whole = {ref: one for ref, (one, change) in found.items() if change.created}
    messages = 0
    for one, change in found.values():
        if not change.created:
            try:
                messages += _cut(parts, one, changes, dry_run=dry_run)
            except ClewError as error:
                left.append(Left(change.session, error.message))
    going = [one for one in whole.values() if one.owner not in whole]  # its subagents go with a session, or stay
    receipt = None
    if going:
        receipt = parts.purger.purge(
            going,
            reason="user-requested",
            dry_run=dry_run,
            check=lambda tx, one: _refuse_used(tx, one, changes),
            remember=False,
        )
        messages += receipt.messages
        left += [Left(failure.session, failure.error) for failure in receipt.failures]
        named = {*receipt.sessions, *(one.session for one in left)}
        left += [Left(name, "it was deleted") for one in going if (name := ids.text(one.key)) not in named]
    if not dry_run:
        id = ids.text(row.key)
        ImportHistory(store).forget(lambda file: file.run == id)
        mark_undone(store, row)
    gone = () if receipt is None else tuple(receipt.sessions)
    return UndoReport(ids.text(row.key), gone, messages, tuple(left), receipt)


def _row(parts: Parts, session: str) -> RefRow | None:
    key = ids.parse(session)
    return parts.table.get(SESSION, key) or parts.table.get(SUBAGENT, key)


def _refuse_used(tx: Tx, row: RefRow, changes: dict[str, Change]) -> None:
    """Raises Conflict, with the reason, if a session was used since the import, or what goes with it."""
    _refuse_changed(row, changes)
    if row.tree is None or not changes[ids.text(row.key)].created:
        return
    for one in tx.refs_in_tree(row.tree, 0, MAX_POS):
        if one.kind in _USES and one.ref != row.ref:
            _refuse_use(one, changes)
    for one in tx.refs_owned(row.ref):
        if one.kind == SUBAGENT:
            if not changes.get(ids.text(one.key), Change("")).created:
                raise Conflict("it has a subagent's trace that this import did not add")
            _refuse_used(tx, one, changes)
        elif one.kind not in (BRANCH, IMPORTED):
            raise Conflict("it has checkpoints or other data since")


def _refuse_use(row: RefRow, changes: dict[str, Change]) -> None:
    """Raises Conflict unless the import has created this session, which has the messages of another."""
    name = ids.text(row.key)
    if not changes.get(name, Change("")).created:
        raise Conflict(f"{row.kind} {name} uses its messages")


def _refuse_changed(row: RefRow, changes: dict[str, Change]) -> None:
    if row.trashed_at is not None:
        raise Conflict("it is in the trash")
    if row.hold:
        raise Conflict("it is held")
    change = changes[ids.text(row.key)]
    head = None if change.after is None else ids.parse(change.after)
    if (row.version, row.head_id) != (change.version, head):  # another import may have created it again
        raise Conflict("it was changed or continued since")


def _cut(parts: Parts, row: RefRow, changes: dict[str, Change], *, dry_run: bool) -> int:
    """Deletes the messages that were added at the end of a session; returns how many. Conflict."""
    change = changes[ids.text(row.key)]
    if change.messages == 0 or change.after is None:
        return 0
    head, stop = ids.parse(change.after), None if change.before is None else ids.parse(change.before)

    def added(tx: Tx) -> list[bytes]:
        _refuse_used(tx, parts.refs.get(tx, row.kind, row.key, trashed=True), changes)
        place = tx.insert_point(head)
        way = [] if place is None or place.pos is None else paths.whole(parts.engine, tx, place.pos)
        found = [node_row(node)[ID] for node in way]
        if stop not in found or found[-1] == stop:
            raise Conflict("its new messages are on other branches")
        going = found[found.index(stop) + 1 :]
        cuts = deletion.plan_nodes(parts.engine, tx, going, recursive=False)
        for one in deletion.sessions_at(tx, cuts):
            if one.ref != row.ref:
                _refuse_use(one, changes)
        return going

    if dry_run:
        return len(parts.engine.read(added))
    return parts.purger.delete_nodes(added, recursive=False, remember=False).messages
