"""Purging: deletion that is real, and the receipt that says so.

The rows go in one transaction for each session, together with the note that they went. A data key that only they needed
goes with them; what stays of a run that others share gets a new key. Then everything that might still hold a trace is
cleared: the search index, the write-ahead log, the bytes of the file that no live row uses, and objects outside of the
store. If that is cut short, or someone who reads is in the way, the receipt says what is pending, and a later write or
the close finishes it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Literal, NamedTuple, get_args

import msgspec

from clew import audit, deletion, ids, outside
from clew.backends import MAX_POS, RefRow, Tx
from clew.engine import Engine
from clew.errors import ClewError, Invalid, NotFound, StorageFull, Tampered
from clew.indexing import Index
from clew.log import Log
from clew.node import moment
from clew.refs import OWN, Refs
from clew.serverindex import ServerIndex

Reason = Literal[
    "user-requested", "retention-expired", "privacy-policy-change", "workspace-reset", "corruption-detected",
    "session-timeout", "policy-update", "error-recovery",
]  # fmt: skip
"""Why something is purged."""

DAMAGED: Reason = "corruption-detected"
"""With this reason a session goes even if its own row is damaged; but not if it was held."""
_OLD_KEY = "its data key stays, because messages that it shares with others are damaged"
_STANDING = (*deletion.TALKS, "snapshot")
"""Kinds of ref that keep messages by themselves, and are named for it."""
RECEIPTS = "receipts"
"""Kind of the one ref whose log holds the receipts."""
_UNCLEAN = "unclean"
"""Name of the header that is there while traces of something deleted may be left."""


class Failure(NamedTuple):
    """A session that was not purged, or of which something stays, and why."""

    session: str
    error: str


class Kept(NamedTuple):
    """Messages of a purged session that stay, because others have them too; those of its branches and traces, and what
    it has compacted, among them.
    """

    session: str
    messages: int
    needed_by: tuple[str, ...]
    """Ids of the sessions and snapshots of the same trees that are left."""


class Receipt(NamedTuple):
    """What a purge did. It is kept in the store, and has no content."""

    id: str
    reason: str
    started_at: datetime
    finished_at: datetime | None
    """None while something is pending."""
    sessions: tuple[str, ...]
    """Ids of the sessions, or of the snapshot, that are gone."""
    messages: int
    blobs: int
    bytes: int
    """Of message bodies, as they were stored."""
    failures: tuple[Failure, ...]
    kept: tuple[Kept, ...]
    pending: tuple[str, ...]
    """What is still to be cleared: ``wal``, ``file``, ``search``, ``objects``; ``rows`` if that was not even begun, or
    not noted.
    """
    beyond: tuple[str, ...] = ()
    """Where a server may still hold copies that clew cannot reach: ``pages`` until they are written over, ``wal`` and
    its archives, ``replicas``; of objects ``versions`` too, where a bucket keeps them.
    """
    outside: int = 0
    """Bytes of attachments in object storage, as they were stored."""


Receipts = list[Receipt]


class Loss(NamedTuple):
    """Bodies that went, and what was not done."""

    messages: int
    bytes: int
    failures: tuple[Failure, ...]


class _Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of a receipt as its log keeps it: those with the same id add up, and the last says what is pending."""

    id: str
    reason: str
    started: int
    finished: int | None = None
    sessions: tuple[str, ...] = ()
    messages: int = 0
    blobs: int = 0
    bytes: int = 0
    failures: tuple[Failure, ...] = ()
    kept: tuple[Kept, ...] = ()
    pending: tuple[str, ...] = ()
    outside: int = 0


Check = Callable[[Tx, RefRow], object]


class _Undo(Exception):
    """Takes back what a dry run did."""


class Purger:
    """Purges sessions of one store."""

    def __init__(self, engine: Engine, refs: Refs, index: Callable[[], Index | ServerIndex]) -> None:
        self._engine = engine
        self._refs = refs
        self._index = index

    def purge(
        self, targets: Sequence[RefRow], *, reason: Reason, dry_run: bool = False, check: Check | None = None
    ) -> Receipt:
        """Deletes sessions, in the trash or not, with all that goes with them, and clears every trace.

        One that cannot go (it is held, say) is a failure in the receipt, and the others go. With `dry_run` nothing is
        changed, and the receipt says what would be. `check` is asked in the transaction in which one goes, and may
        raise.
        """
        entry = self._begun(reason)
        if dry_run:
            with suppress(_Undo), self._engine.transaction():
                entry = self._delete(entry, targets, check)
                raise _Undo
            return self._receipt(msgspec.structs.replace(entry, pending=()))
        entry = self._delete(entry, targets, check)
        if not entry.sessions:
            return self._receipt(_cleared(entry, (), self._engine))
        unnoted = tuple(failure for failure in entry.failures if failure.session not in entry.sessions)
        entry, *_ = self._clear([entry], unnoted)
        return self._receipt(entry)

    def destroy(self, work: Callable[[Tx], Loss], *, reason: Reason, dry_run: bool = False) -> Receipt:
        """Runs `work`, which takes bodies away and leaves their rows, and clears every trace of them.

        The note is part of its transaction; with `dry_run` all of it is undone. If nothing went there is no note.
        """
        entry = self._begun(reason)

        def go(tx: Tx) -> _Entry:
            done = msgspec.structs.replace(entry, **work(tx)._asdict())
            if done.messages:
                self._note(tx, [done])
                soil(tx)
                audit.note(self._engine, self._refs, tx, "purge", done.id, reason=reason, amount=done.messages)
            return done

        done = entry
        if dry_run:
            with suppress(_Undo), self._engine.transaction():
                done = self._engine.write(go)
                raise _Undo
            return self._receipt(msgspec.structs.replace(done, pending=()))
        done = self._write(go)
        return self._receipt(self._clear([done])[0] if done.messages else _cleared(done, (), self._engine))

    def finish(self) -> bool:
        """Clears what was left to be cleared; True if nothing is left to do."""
        self._clear([entry for entry in self._entries() if entry.pending])
        return self._engine.read(unclean) is None

    def receipts(self) -> list[Receipt]:
        """Every receipt, oldest first."""
        return [self._receipt(entry) for entry in self._entries()]

    # -- rows

    def _begun(self, reason: Reason) -> _Entry:
        """What is noted first. Invalid if this is no reason, or not the place for a purge."""
        if reason not in get_args(Reason):
            raise Invalid(f"a reason is one of {', '.join(get_args(Reason))}")
        engine = self._engine
        if engine.backend.in_transaction():
            raise Invalid("a purge cannot be part of a transaction", hint="It clears the files, which nothing undoes.")
        return _Entry(ids.text(engine.new_id()), reason, engine.clock(), pending=("rows",))

    def _delete(self, entry: _Entry, targets: Sequence[RefRow], check: Check | None) -> _Entry:
        for row in targets:
            name = ids.text(row.key)
            try:
                entry = self._write(partial(self._go, entry=entry, row=row, check=check))
            except ClewError as error:
                failure = Failure(name, error.message)
                entry = msgspec.structs.replace(entry, failures=(*entry.failures, failure))
        return entry

    def _write(self, work: Callable[[Tx], _Entry]) -> _Entry:
        """Runs `work`, which notes what it does. If the commit fails, the note tells whether it was done."""
        try:
            return self._engine.write_settled(work, self._noted)
        except StorageFull:
            self._index().remove()  # it can be made again, and what it held is space to delete with
            self._engine.backend.make_room()
            return self._engine.write_settled(work, self._noted)

    def _noted(self, _: Tx, entry: _Entry) -> bool:
        """True if the receipts have it, with all of its sessions."""
        return any(one.id == entry.id and {*entry.sessions} <= {*one.sessions} for one in self._entries())

    def _go(self, tx: Tx, entry: _Entry, row: RefRow, check: Check | None) -> _Entry:
        """One session and the note of it, in one transaction."""
        damaged = entry.reason == DAMAGED
        now = tx.ref(self._engine.workspace, row.kind, row.key)
        if now is None:
            raise NotFound(row.kind, ids.text(row.key))
        row = now if damaged else self._refs.checked(now)
        if check is not None:
            check(tx, row)
        outside = tx.bytes_left()
        said = deletion.reached(tx, row)
        gone = deletion.delete_ref(self._engine, tx, row, shred=True, damaged=damaged)
        name = ids.text(row.key)
        left = [(run.tree, min(end, tx.last_seq(run.run) + 1)) for run, end in said]
        stay = sum(count for _, count in left)
        kept: tuple[Kept, ...] = ()
        if stay:
            trees = dict.fromkeys(tree for tree, count in left if count)
            standing = (one for tree in trees for one in tx.refs_in_tree(tree, 0, MAX_POS) if one.kind in _STANDING)
            kept = (Kept(name, stay, tuple(ids.text(one.key) for one in standing)),)
        part = _Entry(
            entry.id, entry.reason, entry.started, sessions=(name,), messages=gone.messages,
            blobs=gone.blobs, bytes=gone.bytes, kept=kept, pending=entry.pending,
            failures=(Failure(name, _OLD_KEY),) * bool(gone.old_keys), outside=tx.bytes_left() - outside,
        )  # fmt: skip
        self._note(tx, [part])
        soil(tx)
        audit.note(self._engine, self._refs, tx, "purge", name, reason=entry.reason, amount=gone.messages)
        return _sum(entry, part)

    # -- traces

    def _clear(self, entries: Sequence[_Entry], failures: tuple[Failure, ...] = ()) -> Sequence[_Entry]:
        """Clears what may hold a trace, and notes what became of these entries, with failures not noted yet."""
        mark, owed = self._engine.read(lambda tx: (unclean(tx), tx.header(outside.OWED)))
        mine = {entry.id for entry in entries}
        if owed is not None:
            entries = [*entries, *(entry for entry in self._entries() if entry.pending and entry.id not in mine)]
        here = () if mark is None else self._wipe()
        pending = here + self._remove()
        cleared = [_cleared(entry, pending, self._engine) for entry in entries]
        notes = [
            msgspec.structs.replace(_ending(entry), failures=failures if entry.id in mine else ()) for entry in cleared
        ]
        changed = any(entry.pending != pending for entry in entries)
        others = [] if here else self._others(pending, {entry.id for entry in entries})

        def work(tx: Tx) -> None:
            if changed:
                self._note(tx, notes)
            if "objects" in pending:
                tx.set_header(outside.OWED, os.urandom(8))
            elif tx.header(outside.OWED) == owed:
                tx.set_header(outside.OWED, None)
            if not here and unclean(tx) == mark:  # else something was deleted since, and whoever did it clears it
                tx.set_header(_UNCLEAN, None)
                for row, left in others:
                    self._write_down(tx, row, [_ending(_cleared(entry, pending, self._engine)) for entry in left])

        try:
            if changed or others or (mark is not None and not here) or (owed is not None and "objects" not in pending):
                self._engine.write(work)
        except ClewError:  # the rows are gone all the same, and the note that went with them stands
            cleared = list(entries)
            here = here or ("note",)
        if here:  # objects are not waited for by whoever writes next: a network may be slow
            self._engine.owe(self.finish)
        return cleared

    def _wipe(self) -> tuple[str, ...]:
        """Clears the search index, the write-ahead log and the file. What could not be cleared now."""
        pending = () if self._index().shred() else ("search",)
        try:
            return pending + self._engine.backend.clean()
        except ClewError:
            return (*pending, "file")

    def _remove(self) -> tuple[str, ...]:
        """Removes the objects that nothing needs. What could not be done now."""
        try:
            outside.clear(self._engine)
        except ClewError:
            return ("objects",)
        return ()

    def _note(self, tx: Tx, entries: Sequence[_Entry]) -> None:
        """Writes entries into the log of the receipts."""
        if not entries:
            return
        self._write_down(tx, self._refs.add_own(tx, RECEIPTS), entries)

    def _write_down(self, tx: Tx, row: RefRow, entries: Sequence[_Entry]) -> None:
        new = [(self._engine.new_id(), msgspec.json.encode(entry)) for entry in entries]
        Log(self._engine, lambda: row)._append(tx, row, new)

    def _others(self, pending: tuple[str, ...], known: set[str]) -> list[tuple[RefRow, list[_Entry]]]:
        """What is pending in other receipts, of whatever workspace: who clears the files clears them for all, but for
        what is pending here too.
        """
        found = []
        for row in self._engine.read(lambda tx: tx.refs_named(RECEIPTS, OWN)):
            with suppress(Tampered):  # those whose they are are told
                waiting = [entry for entry in self._read(row) if entry.pending not in ((), pending)]
                left = [entry for entry in waiting if entry.id not in known]
                if left:
                    found.append((row, left))
        return found

    def _entries(self) -> list[_Entry]:
        row = self._engine.read(lambda tx: self._refs.own(tx, RECEIPTS))
        return [] if row is None else self._read(row)

    def _read(self, row: RefRow) -> list[_Entry]:
        """The receipts in a log, oldest first, each the sum of its parts."""
        found: dict[str, _Entry] = {}
        for stored in Log(self._engine, lambda: row).read():
            entry = msgspec.json.decode(stored.data, type=_Entry)
            found[entry.id] = _sum(found[entry.id], entry) if entry.id in found else entry
        return list(found.values())

    def _receipt(self, entry: _Entry) -> Receipt:
        finished = None if entry.finished is None else moment(entry.finished)
        beyond = self._engine.backend.beyond if entry.sessions or entry.messages else ()
        if entry.outside:
            beyond = tuple(dict.fromkeys((*beyond, "versions", "replicas")))
        return Receipt(
            entry.id, entry.reason, moment(entry.started), finished, entry.sessions, entry.messages, entry.blobs,
            entry.bytes, entry.failures, _still(entry), entry.pending, beyond, entry.outside,
        )  # fmt: skip


def _still(entry: _Entry) -> tuple[Kept, ...]:
    """What was kept of sessions for others that have not gone in the same purge, after them."""
    gone = {*entry.sessions}
    left = [(one, tuple(other for other in one.needed_by if other not in gone)) for one in entry.kept]
    return tuple(one._replace(needed_by=others) for one, others in left if others or not one.needed_by)


def unclean(tx: Tx) -> bytes | None:
    """The mark that is there while traces of something deleted may be left."""
    return tx.header(_UNCLEAN)


def soil(tx: Tx) -> None:
    """Remembers that traces may be left. Each mark is another, so that none is taken away for one before it."""
    tx.set_header(_UNCLEAN, os.urandom(8))


def _cleared(entry: _Entry, pending: tuple[str, ...], engine: Engine) -> _Entry:
    finished = None if pending else engine.clock()
    return msgspec.structs.replace(entry, pending=pending, finished=finished)


def _ending(entry: _Entry) -> _Entry:
    """The part that says how it ended, and nothing of what went."""
    return _Entry(entry.id, entry.reason, entry.started, entry.finished, pending=entry.pending)


def _sum(entry: _Entry, part: _Entry) -> _Entry:
    """Two parts of a receipt as one."""
    added = {
        name: getattr(entry, name) + getattr(part, name)
        for name in ("sessions", "messages", "blobs", "bytes", "failures", "kept", "outside")
    }
    return msgspec.structs.replace(part, **added)
