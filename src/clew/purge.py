"""Purging: deletion that is real, and the receipt that says so.

The rows go in one transaction for each session, together with the note that they went. A data key that only they needed
goes with them; what stays of a run that others share gets a new key. Then everything that might still hold a trace is
cleared: the search index, the write-ahead log, the bytes of the file that no live row uses, and objects outside of the
store. If that is cut short, or someone who reads is in the way, the receipt says what is pending, and a later write or
the close finishes it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple, get_args

import msgspec

from clew import audit, deletion, ids, outside, titles
from clew.backends import MAX_POS, RefRow, Tx
from clew.engine import Engine
from clew.errors import ClewError, Invalid, NotFound, StorageFull
from clew.indexing import Index
from clew.mirrors import Mirrors
from clew.receipts import DELETED, TRACES, Entry, Failure, Kept, Reason, Receipt, ReceiptLog
from clew.refs import Refs
from clew.serverindex import ServerIndex

DAMAGED: Reason = "corruption-detected"
"""With this reason a session goes even if its own row is damaged; but not if it was held."""
_OLD_KEY = "its data key stays, because messages that it shares with others are damaged"
_STANDING = (*deletion.TALKS, "snapshot")
"""Kinds of ref that keep messages by themselves, and are named for it."""
_UNCLEAN = "unclean"
"""Name of the header that is there while traces of something deleted may be left."""


class Loss(NamedTuple):
    """Bodies that went, and what was not done."""

    messages: int
    bytes: int
    failures: tuple[Failure, ...]
    talks: tuple[str, ...]
    """Ids of the sessions that showed them."""


class _Gone(NamedTuple):
    """A ref that went with all that it owned."""

    entry: Entry
    talks: list[str]


Check = Callable[[Tx, RefRow], object]


class _Undo(Exception):
    """Takes back what a dry run did."""


class Purger:
    """Purges sessions of one store."""

    def __init__(self, engine: Engine, refs: Refs, index: Callable[[], Index | ServerIndex]) -> None:
        self._engine = engine
        self._refs = refs
        self._index = index
        self._log = ReceiptLog(engine, refs)
        self.mirrors = Mirrors(engine, refs)

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
            return msgspec.structs.replace(entry, pending=()).receipt(self._engine)
        entry = self._delete(entry, targets, check)
        if not entry.sessions:
            return entry.cleared((), self._engine.clock()).receipt(self._engine)
        unnoted = tuple(failure for failure in entry.failures if failure.session not in entry.sessions)
        entry, *_ = self._clear([entry], unnoted)
        return entry.receipt(self._engine)

    def destroy(self, work: Callable[[Tx], Loss], *, reason: Reason, dry_run: bool = False) -> Receipt:
        """Runs `work`, which takes bodies away and leaves their rows, and clears every trace of them.

        The note is part of its transaction; with `dry_run` all of it is undone. If nothing went there is no note.
        """
        entry = self._begun(reason)

        def go(tx: Tx) -> Entry:
            loss = work(tx)
            done = msgspec.structs.replace(entry, messages=loss.messages, bytes=loss.bytes, failures=loss.failures)
            if done.messages:
                self._log.note(tx, [done])
                self.mirrors.note(tx, loss.talks)
                soil(tx)
                audit.note(self._engine, self._refs, tx, "purge", done.id, reason=reason, amount=done.messages)
            return done

        done = entry
        if dry_run:
            with suppress(_Undo), self._engine.transaction():
                done = self._engine.write(go)
                raise _Undo
            return msgspec.structs.replace(done, pending=()).receipt(self._engine)
        done = self._write(go)
        ended = self._clear([done])[0] if done.messages else done.cleared((), self._engine.clock())
        return ended.receipt(self._engine)

    def finish(self) -> bool:
        """Clears what was left to be cleared; True if nothing is left to do."""
        self._clear([entry for entry in self._log.entries() if entry.pending])
        return self._engine.read(unclean) is None

    def receipts(self) -> list[Receipt]:
        """Every receipt, oldest first."""
        return [entry.receipt(self._engine) for entry in self._log.entries()]

    # -- rows

    def _begun(self, reason: Reason) -> Entry:
        """What is noted first. Invalid if this is no reason, or not the place for a purge."""
        if reason not in get_args(Reason):
            raise Invalid(f"a reason is one of {', '.join(get_args(Reason))}")
        engine = self._engine
        if engine.backend.in_transaction():
            raise Invalid("a purge cannot be part of a transaction", hint="It clears the files, which nothing undoes.")
        return Entry(ids.text(engine.new_id()), reason, engine.clock(), pending=("rows",))

    def _delete(self, entry: Entry, targets: Sequence[RefRow], check: Check | None) -> Entry:
        for row in targets:
            name = ids.text(row.key)
            try:
                entry = self._write(partial(self._go, entry=entry, row=row, check=check))
            except ClewError as error:
                failure = Failure(name, error.message)
                entry = msgspec.structs.replace(entry, failures=(*entry.failures, failure))
        return entry

    def _write(self, work: Callable[[Tx], Entry]) -> Entry:
        """Runs `work`, which notes what it does. If the commit fails, the note tells whether it was done."""
        try:
            return self._engine.write_settled(work, self._noted)
        except StorageFull:
            self._index().remove()  # it can be made again, and what it held is space to delete with
            self._engine.backend.make_room()
            return self._engine.write_settled(work, self._noted)

    def _noted(self, _: Tx, entry: Entry) -> bool:
        """True if the receipts have it, with all of its sessions."""
        return any(one.id == entry.id and {*entry.sessions} <= {*one.sessions} for one in self._log.entries())

    def _go(self, tx: Tx, entry: Entry, row: RefRow, check: Check | None) -> Entry:
        """One session and the note of it, in one transaction."""
        damaged = entry.reason == DAMAGED
        now = tx.ref(self._engine.workspace, row.kind, row.key)
        if now is None:
            raise NotFound(row.kind, ids.text(row.key))
        row = now if damaged else self._refs.checked(now)
        if check is not None:
            check(tx, row)
        gone = self._remove_ref(tx, row, entry, shred=True, damaged=damaged)
        self._log.note(tx, [gone.entry])
        soil(tx)
        self.mirrors.note(tx, gone.talks)
        name, count = ids.text(row.key), gone.entry.messages
        audit.note(self._engine, self._refs, tx, "purge", name, reason=entry.reason, amount=count)
        return entry.plus(gone.entry)

    def _remove_ref(self, tx: Tx, row: RefRow, entry: Entry, *, shred: bool, damaged: bool = False) -> _Gone:
        """Deletes a ref with all that goes with it; what went is the part of a receipt."""
        outside = tx.bytes_left()
        said, talks = deletion.reached(tx, row), deletion.talks(tx, row)
        gone = deletion.delete_ref(self._engine, tx, row, shred=shred, damaged=damaged)
        name = ids.text(row.key)
        left = [(run.tree, min(end, tx.last_seq(run.run) + 1)) for run, end in said]
        stay = sum(count for _, count in left)
        kept: tuple[Kept, ...] = ()
        if stay:
            trees = dict.fromkeys(tree for tree, count in left if count)
            standing = (one for tree in trees for one in tx.refs_in_tree(tree, 0, MAX_POS) if one.kind in _STANDING)
            kept = (Kept(name, stay, tuple(ids.text(one.key) for one in standing)),)
        part = Entry(
            entry.id, entry.reason, entry.started, sessions=(name,), messages=gone.messages,
            blobs=gone.blobs, bytes=gone.bytes, kept=kept, pending=entry.pending,
            failures=(Failure(name, _OLD_KEY),) * bool(gone.old_keys), outside=tx.bytes_left() - outside,
        )  # fmt: skip
        return _Gone(part, talks)

    # -- deleting without clearing

    def delete(self, kind: str, key: bytes) -> Receipt:
        """Deletes a session or a snapshot, and each message that nothing else needs, in one transaction.

        The files of mirrors are removed; traces in the store's own files are left, and the receipt says so. It is not
        kept. NotFound; Conflict if a hold keeps it.
        """
        entry = self._deleting()

        def work(tx: Tx) -> Entry:
            gone = self._remove_ref(tx, self._refs.get(tx, kind, key), entry, shred=False)
            self.mirrors.note(tx, gone.talks)
            audit.may_note(self._engine, self._refs, tx, "delete", ids.text(key), amount=gone.entry.messages)
            return gone.entry

        return self._deleted(self._engine.write(work))

    def delete_nodes(self, targets: Iterable[bytes], *, recursive: bool) -> Receipt:
        """Deletes nodes, as `deletion.delete_nodes` does, and each title of a session that was made of their words.

        A record's summary stays, and is a failure in the receipt. Else as `delete`.
        """
        entry, engine, refs = self._deleting(), self._engine, self._refs

        def work(tx: Tx) -> Entry:
            cuts = deletion.plan_nodes(engine, tx, targets, recursive=recursive)
            talks = deletion.talks_at(tx, cuts)
            words = titles.of_cuts(engine, tx, cuts) if talks else set()
            gone = deletion.delete_nodes(engine, refs, tx, cuts)
            failures = [failed for row in talks if (failed := titles.clear(refs, tx, row, words)) is not None]
            self.mirrors.note(tx, [ids.text(row.key) for row in talks])
            return msgspec.structs.replace(
                entry, messages=gone.messages, bytes=gone.bytes, blobs=gone.blobs, failures=tuple(failures)
            )

        return self._deleted(engine.write(work))

    def _deleting(self) -> Entry:
        return Entry("", DELETED, self._engine.clock())

    def _deleted(self, entry: Entry) -> Receipt:
        """The receipt of a deletion that is committed, or is part of a transaction that is not yet."""
        traces = (TRACES,) if entry.messages or entry.sessions else ()
        left = self._unmirror()
        if left and self._engine.backend.in_transaction():
            self._engine.owe(self.finish)
        return entry.cleared(traces + left, self._engine.clock()).receipt(self._engine)

    # -- traces

    def _clear(self, entries: Sequence[Entry], failures: tuple[Failure, ...] = ()) -> Sequence[Entry]:
        """Clears what may hold a trace, and notes what became of these entries, with failures not noted yet."""
        mark, owed = self._engine.read(lambda tx: (unclean(tx), tx.header(outside.OWED)))
        mine = {entry.id for entry in entries}
        if owed is not None:
            entries = [*entries, *(entry for entry in self._log.entries() if entry.pending and entry.id not in mine)]
        here = () if mark is None else self._wipe()
        pending = here + self._remove() + self._unmirror()
        now = self._engine.clock()
        cleared = [entry.cleared(pending, now) for entry in entries]
        notes = [
            msgspec.structs.replace(entry.ending(), failures=failures if entry.id in mine else ()) for entry in cleared
        ]
        changed = any(entry.pending != pending for entry in entries)
        others = [] if here else self._log.others(pending, {entry.id for entry in entries}, now)

        def work(tx: Tx) -> None:
            if changed:
                self._log.note(tx, notes)
            if "objects" in pending:
                tx.set_header(outside.OWED, os.urandom(8))
            elif tx.header(outside.OWED) == owed:
                tx.set_header(outside.OWED, None)
            if not here and unclean(tx) == mark:  # else something was deleted since, and whoever did it clears it
                tx.set_header(_UNCLEAN, None)
                for row, left in others:
                    self._log.write_down(tx, row, left)

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

    def _unmirror(self) -> tuple[str, ...]:
        """Removes the files of mirrors that are to go. The folders where that could not be done now."""
        try:
            return self.mirrors.clear()
        except ClewError:
            return ("mirrors",)


def unclean(tx: Tx) -> bytes | None:
    """The mark that is there while traces of something deleted may be left."""
    return tx.header(_UNCLEAN)


def soil(tx: Tx) -> None:
    """Remembers that traces may be left. Each mark is another, so that none is taken away for one before it."""
    tx.set_header(_UNCLEAN, os.urandom(8))
