"""Deletes sessions and messages with a receipt; a purge also clears every trace.

Each session is deleted in one transaction, together with its receipt. Data keys that only its rows needed are deleted
too; the rest of a shared run gets a new key. Then a purge clears every place that may hold traces: the search index,
the write-ahead log, unused bytes of the file, objects in object storage, and files of mirrors. The transaction also
sets a mark, which the last step of the purge removes. If something is left, later writes and the close try again; after
a crash, so does the next program that opens the store.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple, Protocol, get_args

import msgspec

from clew.backends import MAX_POS, RefRow, Tx
from clew.base import ids
from clew.engine import audit, blob_objects, deletion, titles
from clew.engine.engine import Engine, cleanup_mark, clear_mark, mark_dirty
from clew.engine.mirrors import Mirrors
from clew.engine.receipts import DELETED, TRACES, Failure, Kept, Reason, Receipt, ReceiptEntry, ReceiptLog
from clew.engine.refs import Refs
from clew.errors import ClewError, Invalid, NotFound, StorageFull

DAMAGED: Reason = "corruption-detected"
"""With this reason a session is purged even if its own row is damaged, unless it is held."""
_OLD_KEY = "its data key stays, because shared messages are damaged"
_NAMED_KINDS = (*deletion.SESSION_KINDS, "snapshot")
"""Kinds of ref that keep messages, and are named in receipts."""


class DestroyedBodies(NamedTuple):
    """Destroyed bodies, and failures."""

    messages: int
    bytes: int
    failures: tuple[Failure, ...]
    sessions: tuple[str, ...]
    """Ids of the sessions that had them."""
    redacted: tuple[str, ...] = ()
    """Ids of the sessions that have a new version of them."""


class WordIndex(Protocol):
    """The part of the search index that a purge needs."""

    def remove(self) -> None:
        """Removes the whole index; it can be rebuilt."""

    def shred(self) -> bool:
        """Removes the words of deleted messages from the files. False if this is not possible now."""

    def refill(self) -> None:
        """Indexes the messages again that `shred` removed along with deleted ones, if that takes little time."""


class _RemovedRef(NamedTuple):
    """A ref deleted with all that it owned."""

    entry: ReceiptEntry
    sessions: list[str]


Check = Callable[[Tx, RefRow], object]
"""Raises if a session may not be deleted. Gets its row as it is in the transaction that deletes it."""


class _Undo(Exception):
    """Rolls a dry run back."""


class Purger:
    """Purges sessions of one store."""

    def __init__(self, engine: Engine, refs: Refs, index: Callable[[], WordIndex]) -> None:
        self._engine = engine
        self._refs = refs
        self.index = index
        self._log = ReceiptLog(engine, refs)
        self.mirrors = Mirrors(engine, refs)

    def purge(
        self,
        targets: Sequence[RefRow],
        *,
        reason: Reason,
        dry_run: bool = False,
        check: Check | None = None,
        remember: bool = True,
    ) -> Receipt:
        """Deletes sessions, in the trash or not, with all they own, and clears every trace.

        A session that cannot be deleted, for example because it is held, is a failure in the receipt; the others are
        deleted. With `dry_run` nothing changes, and the receipt says what would happen. `check` decides in the
        transaction that deletes a session: whatever chose the targets may have been outdated since. With `check`, a
        target that another process has deleted meanwhile is no failure. Imports leave out what was purged, unless
        `remember` is False.
        """
        entry = self._new_entry(reason)
        if dry_run:
            with suppress(_Undo), self._engine.transaction():
                entry = self._delete(entry, targets, check, remember=remember)
                raise _Undo
            return msgspec.structs.replace(entry, pending=()).receipt(self._engine)
        entry = self._delete(entry, targets, check, remember=remember)
        if not entry.sessions:
            return entry.cleared((), self._engine.clock()).receipt(self._engine)
        unnoted = tuple(failure for failure in entry.failures if failure.session not in entry.sessions)
        entry, *_ = self._clear([entry], unnoted)
        return entry.receipt(self._engine)

    def destroy(self, work: Callable[[Tx], DestroyedBodies], *, reason: Reason, dry_run: bool = False) -> Receipt:
        """Runs `work`, which removes bodies and leaves their rows, and clears every trace of them.

        The receipt is part of its transaction; `dry_run` rolls it back. If `work` removes nothing, no receipt is kept.
        """
        entry = self._new_entry(reason)

        def go(tx: Tx) -> ReceiptEntry:
            loss = work(tx)
            done = msgspec.structs.replace(
                entry, messages=loss.messages, bytes=loss.bytes, failures=loss.failures, redacted=loss.redacted
            )
            if done.messages:
                self._log.note(tx, [done])
                self.mirrors.note(tx, loss.sessions)
                mark_dirty(tx)
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
        """Clears pending traces; True if none are left."""
        self._clear([entry for entry in self._log.entries() if entry.pending])
        return self._engine.read(cleanup_mark) is None

    def receipts(self) -> list[Receipt]:
        """Every receipt, oldest first."""
        return [entry.receipt(self._engine) for entry in self._log.entries()]

    # -- rows

    def _new_entry(self, reason: Reason) -> ReceiptEntry:
        """The first entry of a receipt. Invalid for an unknown reason, or inside a transaction."""
        if reason not in get_args(Reason):
            raise Invalid(f"the reason must be one of {', '.join(get_args(Reason))}")
        engine = self._engine
        if engine.backend.in_transaction():
            raise Invalid(
                "a purge cannot be part of a transaction", hint="It clears files, which cannot be rolled back."
            )
        return ReceiptEntry(ids.text(engine.new_id()), reason, engine.clock(), pending=("rows",))

    def _delete(
        self, entry: ReceiptEntry, targets: Sequence[RefRow], check: Check | None, *, remember: bool
    ) -> ReceiptEntry:
        for row in targets:
            name = ids.text(row.key)
            try:
                entry = self._write(partial(self._purge_one, entry=entry, row=row, check=check, remember=remember))
            except ClewError as error:
                failure = Failure(name, error.message)
                entry = msgspec.structs.replace(entry, failures=(*entry.failures, failure))
        return entry

    def _write(self, work: Callable[[Tx], ReceiptEntry]) -> ReceiptEntry:
        """Runs `work`, which notes a receipt. If the commit fails, checks the receipts for it."""
        try:
            return self._engine.write_settled(work, self._is_noted)
        except StorageFull:
            self.index().remove()  # it can be rebuilt, and frees the space that a deletion needs
            self._engine.backend.make_room()
            return self._engine.write_settled(work, self._is_noted)

    def _is_noted(self, _: Tx, entry: ReceiptEntry) -> bool:
        """True if the log has this receipt with all of its sessions."""
        return any(one.id == entry.id and {*entry.sessions} <= {*one.sessions} for one in self._log.entries())

    def _purge_one(self, tx: Tx, entry: ReceiptEntry, row: RefRow, check: Check | None, remember: bool) -> ReceiptEntry:
        """Deletes one session and notes the receipt, in one transaction."""
        damaged = entry.reason == DAMAGED
        now = tx.ref(self._engine.workspace, row.kind, row.key)
        if now is None or now.ref != row.ref:  # another session may have its key since
            if check is not None:
                return entry
            raise NotFound(row.kind, ids.text(row.key))
        row = now if damaged else self._refs.verify(now)
        if check is not None:
            check(tx, row)
        gone = self._remove_ref(tx, row, entry, shred=True, damaged=damaged, remember=remember)
        self._log.note(tx, [gone.entry])
        mark_dirty(tx)
        self.mirrors.note(tx, gone.sessions)
        name, count = ids.text(row.key), gone.entry.messages
        audit.note(self._engine, self._refs, tx, "purge", name, reason=entry.reason, amount=count)
        return entry.plus(gone.entry)

    def _remove_ref(
        self, tx: Tx, row: RefRow, entry: ReceiptEntry, *, shred: bool, damaged: bool = False, remember: bool = True
    ) -> _RemovedRef:
        """Deletes a ref with all that it owns; returns the part of the receipt."""
        object_bytes = tx.blobs.bytes_left()
        reachable, sessions = deletion.reachable_runs(tx, row), deletion.session_ids(tx, row)
        gone = deletion.delete_ref(self._engine, tx, row, shred=shred, damaged=damaged)
        if remember and row.kind in deletion.SESSION_KINDS:
            deletion.remember_purged(self._engine, self._refs, tx, [*map(ids.parse, sessions), *gone.ids])
        name = ids.text(row.key)
        remaining = [(run.tree, min(end, tx.last_seq(run.run) + 1)) for run, end in reachable]
        stay = sum(count for _, count in remaining)
        kept: tuple[Kept, ...] = ()
        if stay:
            trees = dict.fromkeys(tree for tree, count in remaining if count)
            others = (one for tree in trees for one in tx.refs_in_tree(tree, 0, MAX_POS) if one.kind in _NAMED_KINDS)
            kept = (Kept(name, stay, tuple(ids.text(one.key) for one in others)),)
        part = ReceiptEntry(
            entry.id, entry.reason, entry.started, sessions=(name,), messages=gone.messages,
            blobs=gone.blobs, bytes=gone.bytes, kept=kept, pending=entry.pending,
            failures=(Failure(name, _OLD_KEY),) * bool(gone.old_keys), outside=tx.blobs.bytes_left() - object_bytes,
        )  # fmt: skip
        return _RemovedRef(part, sessions)

    # -- deleting without clearing

    def delete(self, kind: str, key: bytes) -> Receipt:
        """Deletes a session or a snapshot, and each message that nothing else needs, in one transaction.

        Removes the files of mirrors, and leaves traces in the store's own files, which the receipt lists. The receipt
        is not kept. NotFound; Conflict if it is held.
        """
        entry = self._deletion_entry()

        def work(tx: Tx) -> ReceiptEntry:
            gone = self._remove_ref(tx, self._refs.get(tx, kind, key), entry, shred=False)
            self.mirrors.note(tx, gone.sessions)
            audit.note_if_enabled(self._engine, self._refs, tx, "delete", ids.text(key), amount=gone.entry.messages)
            return gone.entry

        return self._deletion_receipt(self._engine.write(work))

    def delete_nodes(
        self, choose: Callable[[Tx], Iterable[bytes]], *, recursive: bool, remember: bool = True
    ) -> Receipt:
        """Deletes nodes as `deletion.delete_nodes` does, and titles of sessions made from their words.

        `choose` returns their ids in the transaction that deletes them, and may raise. A record's summary stays, and is
        a failure in the receipt. `remember` as in `purge`: imports bring back neither the messages nor what their files
        say of the sessions that had them, such as titles. Otherwise as `delete`.
        """
        entry, engine, refs = self._deletion_entry(), self._engine, self._refs

        def work(tx: Tx) -> ReceiptEntry:
            cuts = deletion.plan_nodes(engine, tx, choose(tx), recursive=recursive)
            sessions = deletion.sessions_at(tx, cuts)
            made = titles.repeated(engine, refs, tx, cuts, sessions)
            gone = deletion.delete_nodes(engine, refs, tx, cuts)
            if remember:
                deletion.remember_purged(engine, refs, tx, [*(row.key for row in sessions), *gone.ids])
            failures = [failed for row in sessions if (failed := titles.clear(refs, tx, row, made)) is not None]
            self.mirrors.note(tx, [ids.text(row.key) for row in sessions])
            return msgspec.structs.replace(
                entry, messages=gone.messages, bytes=gone.bytes, blobs=gone.blobs, failures=tuple(failures)
            )

        return self._deletion_receipt(engine.write(work))

    def _deletion_entry(self) -> ReceiptEntry:
        return ReceiptEntry("", DELETED, self._engine.clock())

    def _deletion_receipt(self, entry: ReceiptEntry) -> Receipt:
        """The receipt of a deletion, also before its transaction is committed."""
        traces = (TRACES,) if entry.messages or entry.sessions else ()
        left = self._remove_mirror_files()
        if left and self._engine.backend.in_transaction():
            self._engine.cleanup.schedule(self.finish)
        return entry.cleared(traces + left, self._engine.clock()).receipt(self._engine)

    # -- traces

    def _clear(self, entries: Sequence[ReceiptEntry], failures: tuple[Failure, ...] = ()) -> Sequence[ReceiptEntry]:
        """Clears every place that may hold traces, and notes the endings of these entries, with new failures.

        Never raises ClewError, for example if another process changes the keys meanwhile: the rows are deleted, and
        their receipt says that cleanup is pending. A later write tries again.
        """
        try:
            cleared, here = self._clear_places(entries, failures)
        except ClewError:
            cleared, here = entries, ("note",)
        if here:  # later writes do not wait for objects: a network may be slow
            self._engine.cleanup.schedule(self.finish)
        return cleared

    def _clear_places(
        self, entries: Sequence[ReceiptEntry], failures: tuple[Failure, ...]
    ) -> tuple[Sequence[ReceiptEntry], tuple[str, ...]]:
        """The entries with their endings, and the places in the store's own files that could not be cleared."""
        mark, objects_mark = self._engine.read(lambda tx: (cleanup_mark(tx), tx.header(blob_objects.PENDING_MARK)))
        mine = {entry.id for entry in entries}
        if objects_mark is not None:
            entries = [*entries, *(entry for entry in self._log.entries() if entry.pending and entry.id not in mine)]
        here = () if mark is None else self._wipe()
        pending = here + self._remove_objects() + self._remove_mirror_files()
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
                tx.set_header(blob_objects.PENDING_MARK, os.urandom(8))
            elif tx.header(blob_objects.PENDING_MARK) == objects_mark:
                tx.set_header(blob_objects.PENDING_MARK, None)
            if not here and cleanup_mark(tx) == mark:  # else another purge has set a new mark, and clears it
                clear_mark(tx)
                for row, left in others:
                    self._log.append_to(tx, row, left)

        if (
            changed
            or others
            or (mark is not None and not here)
            or (objects_mark is not None and "objects" not in pending)
        ):
            self._engine.write(work)
        if mark is not None:
            self.index().refill()
        return cleared, here

    def _wipe(self) -> tuple[str, ...]:
        """Clears the search index, the write-ahead log and the file. Returns the places that could not be cleared."""
        pending = () if self.index().shred() else ("search",)
        try:
            return pending + self._engine.backend.clean()
        except ClewError:
            return (*pending, "file")

    def _remove_objects(self) -> tuple[str, ...]:
        """Removes unused objects. Returns ``objects`` if that failed."""
        try:
            blob_objects.clear(self._engine)
        except ClewError:
            return ("objects",)
        return ()

    def _remove_mirror_files(self) -> tuple[str, ...]:
        """Removes pending files of mirrors. Returns the folders where that failed."""
        try:
            return self.mirrors.clear()
        except ClewError:
            return ("mirrors",)
