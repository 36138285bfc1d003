"""Stores the records that a source reads: each once, in batches, each batch in one transaction.

A message becomes a node under its own id, in the tree of its conversation; the session points at the message where the
program would continue, and paths that were left are branches. A message that is stored already (the file was imported
before, or it is a copy that a fork has made) is not stored again; where a copy has other bytes, these go to the log of
its session. Every other record goes to the log as it is: see `clew.sources.layout`.

A large log that has grown is read from where the last import stopped, if its source can do that. Every other file is
read from its beginning; but as long as its entries are those of the last import, which a hash of them tells, nothing is
looked up in the store.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from typing import NamedTuple

from clew.engine.session_data import SOURCE
from clew.errors import ClewError, Conflict, Unavailable
from clew.sources.contract import About, Part, Pause, ReadMark, Skip, Source, StaleMark
from clew.sources.conversation_import import ConversationImport
from clew.sources.documents import short_hash
from clew.sources.drafting import StoredBatch
from clew.sources.identity import Placed, stored_name
from clew.sources.import_log import ImportRecorder
from clew.sources.imported_files import MOST_SKIPS, FileMark, ImportedFile, ImportedFiles, edges, state, valid_mark
from clew.sources.items import SQLITE, Item
from clew.sources.layout import FileName, records
from clew.sources.values import storable
from clew.sources.writing import session_id
from clew.store.store import Store
from clew.store.unit import Unit

__all__ = ["SOURCE", "ImportedConversation", "ItemOutcome", "import_item", "records", "session_id"]

BATCH = 4 * 1024 * 1024
"""Bytes that are stored in one transaction: other writers wait for a fraction of a second."""
MANY = 1000
"""Records that are stored in one transaction at most."""
TRIES = 5
"""How often a batch is made ready, if other programs write the same messages at the same time."""


class ImportedConversation(NamedTuple):
    """A conversation after an import."""

    session: str
    messages: int
    """Messages that are new in the store."""
    known: int
    """Messages that were stored before."""
    records: int
    """Records that are new in its log."""
    subagent: bool = False
    """True for the trace of a subagent."""
    inherits: bool = False
    """True if it begins with messages of another conversation."""


class ItemOutcome(NamedTuple):
    """What became of one file."""

    item: Item
    source: str
    conversations: tuple[ImportedConversation, ...]
    skipped: tuple[Skip, ...]
    notes: tuple[str, ...]
    """Messages that were stored, though something is wrong with them."""
    trashed: int = 0
    """Conversations that are in the trash, and were left as they are."""
    purged: int = 0
    """Messages that were purged earlier, and were left out."""
    stopped: bool = False
    """True if it was stopped before its end."""
    failed: ClewError | None = None
    """The error that ended it; the batches stored before it stay, and are counted."""


def import_item(
    store: Store,
    source: Source,
    item: Item,
    *,
    history: ImportedFiles | None = None,
    recorder: ImportRecorder | None = None,
    again: bool = False,
    step: Callable[[int], object] | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> ItemOutcome:
    """Stores what a source reads in one file. Repeated, it stores only what is new.

    An error ends it, and is in the outcome; every batch that was stored stays. With `history` the file is noted once it
    is stored as a whole, and what is known of it is passed over, unless `again` says to look at all of it and to store
    what was purged. `step` is called with the bytes of entries that were read. `stop` ends it between two batches: a
    conversation of which nothing is stored is left out.
    """
    before = None if history is None or again else history.find(item)
    mark = None if before is None or not hasattr(source, "read_on") else valid_mark(item, before)
    outcome = _Import(store, source, item, history, recorder, step, stop, before, mark, again).read()
    if outcome is None:  # the entries are not those of the last import, or refer to more than the mark has
        outcome = _Import(store, source, item, history, recorder, step, stop, None, None, again).read()
    assert outcome is not None
    return outcome


class _Import:
    """One file on its way into the store. `before` is what is known of it: its first entries are passed over."""

    def __init__(
        self,
        store: Store,
        source: Source,
        item: Item,
        history: ImportedFiles | None,
        recorder: ImportRecorder | None,
        step: Callable[[int], object] | None,
        stop: Callable[[], bool],
        before: ImportedFile | None,
        mark: FileMark | None,
        again: bool,
    ) -> None:
        self._store = store
        self._source, self._item = source, item
        self._history, self._recorder = history, recorder
        self._step, self._stop = step, stop
        self._before = before if before is not None and before.entries else None
        self._found: dict[str, ConversationImport] = {}
        self._skipped: list[Skip] = []
        self._mark = mark
        self._again = again
        self._digest, self._entries = b"", 0
        self._next: ReadMark | None = None
        self._size = self._count = 0
        self._state = state(item)
        self._name = file_name(item)

    def read(self) -> ItemOutcome | None:
        """Reads and stores the file. None if its first entries are not those known, or the mark is not enough."""
        try:
            return self._read()
        except ClewError as error:
            return self._outcome()._replace(failed=error)

    def _read(self) -> ItemOutcome | None:
        passing = 0 if self._before is None else self._before.entries
        if self._before is not None and self._mark is not None:
            self._entries, self._digest = self._before.entries, bytes.fromhex(self._before.digest)
            self._skipped += [Skip(None, text) for text in self._before.skipped]
        try:
            for part in self._parts_read():
                if isinstance(part, Pause):
                    self._flush(last=False)
                    continue
                if isinstance(part, Skip):
                    self._skipped.append(part)
                    continue
                one = self._found.get(part.conversation) or self._conversation(part.conversation)
                if isinstance(part, About):
                    one.tell(part)
                    continue
                self._entries += 1
                self._digest = _add(self._digest, part.raw)
                self._size += len(part.raw)
                self._count += 1
                if self._entries <= passing:
                    one.skip(part)
                    if self._entries == passing and not self._is_as_before():
                        return None
                    continue
                one.take(self._entries, part)
                if self._size >= BATCH or self._count >= MANY:
                    if self._stop():
                        return self._end(stopped=True, current=one)
                    self._flush(last=False)
        except StaleMark:
            return None
        return None if self._entries < passing else self._end()

    def _parts_read(self) -> Iterator[Part]:
        """The parts that the source reads; sets `_next` to the next mark."""
        try:
            if hasattr(self._source, "read_on"):
                mark = None if self._mark is None else self._mark.mark
                self._next = yield from self._source.read_on(self._item, mark)
            else:
                yield from self._source.read(self._item)
        except (ClewError, StaleMark):
            raise
        except OSError as error:
            raise Unavailable(f"{self._item.name} cannot be read ({error.strerror})") from error
        except Exception as error:  # noqa: BLE001 (an odd value in one file must not end the import)
            yield Skip(None, f"the rest cannot be read ({type(error).__name__})")

    def _conversation(self, name: str) -> ConversationImport:
        stored = stored_name(self._store, self._source, name, self._name)
        made = ConversationImport(
            self._store, self._source.name, stored, self._name, fresh=self._before is None, again=self._again
        )
        if self._mark is not None:
            made.resume(self._mark.times.get(name))
        self._found[name] = made
        return made

    def _is_as_before(self) -> bool:
        self._size = self._count = 0
        return self._before is not None and self._digest.hex() == self._before.digest

    def _end(self, *, stopped: bool = False, current: ConversationImport | None = None) -> ItemOutcome:
        if stopped and current is not None and not current.new:
            current.drop()
        if any(one.has_copies() for one in self._found.values()):
            self._flush(last=False)  # the sessions first; the file is noted last, so that a kill loses no copy
            for one in self._found.values():
                if one.has_copies():
                    one.store_copies()
        self._flush(last=True, whole=not stopped)
        return self._outcome()._replace(stopped=stopped)

    def _outcome(self) -> ItemOutcome:
        """What is stored of the file."""
        done, trashed = list[ImportedConversation](), 0
        for one in self._found.values():
            trashed += one.trashed
            if not one.trashed and (one.new or one.known or one.records or one.stored_before or one.begun):
                done.append(ImportedConversation(one.id, one.new, one.known, one.records, one.is_trace, one.inherits))
        notes = [note for one in self._found.values() for note in one.notes]
        purged = sum(one.purged for one in self._found.values())
        skipped = tuple(self._skipped)
        return ItemOutcome(self._item, self._source.name, tuple(done), skipped, tuple(notes), trashed, purged)

    # -- storing

    def _flush(self, *, last: bool, whole: bool = False) -> None:
        """Stores what waits, in one transaction; the last one also notes the file."""
        if self._step is not None:
            self._step(self._size)
        self._size = self._count = 0
        for _ in range(TRIES - 1):
            try:
                self._store_batch(last=last, whole=whole)
                return
            except Conflict:  # another program has stored some of the messages meanwhile
                continue
        self._store_batch(last=last, whole=whole)

    def _store_batch(self, *, last: bool, whole: bool) -> None:
        batch = [one for one in self._found.values() if one.pending(last=last)]
        placed: dict[bytes, Placed] = {}
        for one in batch:
            one.prepare(placed)
        batch = [one for one in batch if not one.trashed]
        note = whole and self._history is not None and not any(one.trashed for one in self._found.values())
        if not batch and not note:
            return
        alone = next(iter(self._found.values())) if len(self._found) == 1 else None
        file = self._file(alone) if note else None

        def work(unit: Unit) -> list[StoredBatch]:
            done = [one.store(unit, last=last) for one in batch]
            if self._recorder is not None:
                self._recorder.note(unit, [change for one in done for change in one.changes])
            if file is not None and self._history is not None:
                self._history.note(unit, self._item, file, None if alone is None else alone.session_in(unit))
            return done

        for one, done in zip(batch, self._store.write(work), strict=True):
            one.take_over(done, last=last)

    def _file(self, alone: ConversationImport | None) -> ImportedFile:
        skipped = [skip_text(skip) for skip in self._skipped[:MOST_SKIPS]]
        return ImportedFile(
            self._source.name,
            self._item.path.encode(errors="replace").decode(),
            self._state,
            None if self._item.member is None else self._item.member.encode(errors="replace").decode(),
            None if self._recorder is None else self._recorder.id,
            self._entries,
            self._digest.hex(),
            tuple(skipped),
            max(len(self._found), 0 if self._before is None else self._before.sessions),
            None if alone is None or alone.withheld else self._file_mark(),
        )

    def _file_mark(self) -> FileMark | None:
        if self._next is None:
            return None
        times = {} if self._mark is None else dict(self._mark.times)
        times |= {name: one.time for name, one in self._found.items() if one.time is not None}
        with suppress(ClewError):  # the file was deleted meanwhile
            return FileMark(self._next, edges(self._item, self._next.offset), times)
        return None


def _add(digest: bytes, raw: bytes) -> bytes:
    """The hash of some entries and one more."""
    found = sha256(digest)
    found.update(raw)
    return found.digest()


def file_name(item: Item) -> FileName:
    """The name of a file for its records. The name of a compressed file loses its suffix."""
    path = item.name if item.member is None else f"{item.path}/{item.member}"
    folder, name = os.path.split(path)
    rows = name.endswith((".db", ".vscdb"))
    if item.member is None:
        with suppress(ClewError), item.open() as file:  # if it cannot be read, its source says so
            rows = file.read(len(SQLITE)) == SQLITE
    return FileName(storable(name.removesuffix(".zst")), short_hash(os.fsencode(folder)), rows)


def skip_text(skip: Skip) -> str:
    """A skipped record, as people read it."""
    return f"line {skip.line}: {skip.why}" if skip.line else skip.why
