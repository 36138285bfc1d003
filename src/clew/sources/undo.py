"""Undoes an import: removes what it added and nothing has used since."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from clew.engine.receipts import Receipt
from clew.errors import ClewError, Conflict, Invalid
from clew.sources.identity import find_session
from clew.sources.import_log import Change, changes_of, find_run, mark_undone, run_data
from clew.sources.imported_files import IMPORTED, ImportedFiles
from clew.store.evaluate import delete_if
from clew.store.session import Session, purge_if
from clew.store.store import Store
from clew.store.unit import Unit


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
    this = find_run(store, run)
    if run_data(this).undone:
        raise Invalid(f"the import {run} was undone before")
    changes = changes_of(this)
    left: list[Left] = []
    whole: dict[str, Session] = {}
    messages = 0
    for change in changes.values():
        session = store.read(partial(find_session, id=change.session))
        if session is None:
            left.append(Left(change.session, "it was deleted"))
        elif change.created:
            whole[session.id] = session
        else:
            try:
                messages += _cut(store, session, changes, dry_run=dry_run)
            except ClewError as error:
                left.append(Left(change.session, error.message))
    going = [one for one in whole.values() if one.owner_id not in whole]  # its subagents go with a session, or stay
    receipt = None
    if going:

        def check(session: Session) -> None:
            store.read(lambda unit: _refuse_used(unit, session, changes))

        receipt = purge_if(going, check, dry_run=dry_run, remember=False)
        messages += receipt.messages
        left += [Left(failure.session, failure.error) for failure in receipt.failures]
        named = {*receipt.sessions, *(one.session for one in left)}
        left += [Left(one.id, "it was deleted") for one in going if one.id not in named]
    if not dry_run:
        ImportedFiles(store).forget(lambda file: file.run == this.id)
        mark_undone(store, this)
    gone = () if receipt is None else tuple(receipt.sessions)
    return UndoReport(this.id, gone, messages, tuple(left), receipt)


def _refuse_used(unit: Unit, session: Session, changes: dict[str, Change]) -> None:
    """Raises Conflict, with the reason, if a session was used since the import, or what goes with it."""
    _refuse_changed(session, changes)
    if not changes[session.id].created:
        return
    for kind, name in unit.sharing(session):
        _refuse_use(kind, name, changes)
    for trace in session.subagents():
        if not changes.get(trace.id, Change("")).created:
            raise Conflict("it has a subagent's trace that this import did not add")
        _refuse_used(unit, trace, changes)
    if any(one.kind != IMPORTED for one in unit.documents(None, owner=session)):
        raise Conflict("it has checkpoints or other data since")


def _refuse_use(kind: str, name: str, changes: dict[str, Change]) -> None:
    """Raises Conflict unless the import has created this session, which has the messages of another."""
    if not changes.get(name, Change("")).created:
        raise Conflict(f"{kind} {name} uses its messages")


def _refuse_changed(session: Session, changes: dict[str, Change]) -> None:
    if session.trashed_at is not None:
        raise Conflict("it is in the trash")
    if session.held:
        raise Conflict("it is held")
    change = changes[session.id]
    if (session.version, session.head_id) != (change.version, change.after):  # another import may have made it again
        raise Conflict("it was changed or continued since")


def _cut(store: Store, session: Session, changes: dict[str, Change], *, dry_run: bool) -> int:
    """Deletes the messages that were added at the end of a session; returns how many. Conflict."""
    change = changes[session.id]
    if change.messages == 0 or change.after is None:
        return 0
    head, before = change.after, change.before

    def added(unit: Unit) -> list[str]:
        now = find_session(unit, session.id)
        if now is None:
            raise Conflict("it was deleted")
        _refuse_used(unit, now, changes)
        found = [node.id for node in unit.path(head)]
        if before not in found or before == head:
            raise Conflict("its new messages are on other branches")
        going = found[found.index(before) + 1 :]
        for name in unit.sessions_with(going[0]):
            if name != now.id:
                _refuse_use("session", name, changes)
        return going

    return delete_if(store, added, remember=False, dry_run=dry_run)
