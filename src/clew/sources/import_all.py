"""Imports files one after the other, each with its outcome."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from clew.errors import ClewError, ReadOnly, StorageFull
from clew.sources.import_log import ImportRecorder
from clew.sources.imported_files import ImportedFiles
from clew.sources.importer import ImportedConversation, import_item, skip_text
from clew.sources.items import Item
from clew.sources.registry import Found, reason
from clew.store.store import Store, trial

Progress = Callable[[int, int], object]
"""Called with the bytes done and the bytes there are."""

UNWRITABLE = (StorageFull, ReadOnly)
"""Errors of the store after which no other file can be imported, either."""


class FileOutcome(NamedTuple):
    """What became of one file."""

    path: str
    source: str | None
    state: str
    """``imported``, ``unchanged``, ``empty``, ``trashed`` (all of it is in the trash), ``stopped`` or ``skipped``.

    Of a file that is ``stopped`` or ``skipped``, conversations may be stored in part.
    """
    conversations: tuple[ImportedConversation, ...] = ()
    skipped: tuple[str, ...] = ()
    """What could not be read, and why."""
    notes: tuple[str, ...] = ()
    purged: int = 0
    """Messages that were purged earlier, and were left out."""

    @property
    def messages(self) -> int:
        """Messages that are new."""
        return sum(one.messages for one in self.conversations)


def import_all(
    store: Store,
    found: Iterable[Found],
    *,
    dry_run: bool = False,
    again: bool = False,
    progress: Progress | None = None,
    stop: Callable[[], bool] = lambda: False,
    recorder: ImportRecorder | None = None,
) -> Iterator[FileOutcome]:
    """Imports files one after the other, and gives the outcome of each. Whole files are noted and not read again.

    With `again` unchanged files are read, too, and what was purged is stored again. If it is ended in the middle, whole
    batches stay; repeated, it completes them. If the store cannot be written (StorageFull, ReadOnly), the error is
    raised after the outcome of the file that was being stored. `stop` is asked between files and between batches. With
    `dry_run` nothing is stored. `recorder` records what is stored, for `undo`.
    """
    if dry_run:
        with trial(store) as copy:
            yield from _import_all(copy, list(found), None, again, progress, stop)
        return
    yield from _import_all(store, list(found), recorder, again, progress, stop)


def _import_all(
    store: Store,
    files: list[Found],
    recorder: ImportRecorder | None,
    again: bool,
    progress: Progress | None,
    stop: Callable[[], bool],
) -> Iterator[FileOutcome]:
    history = ImportedFiles(store)
    total = sum(one.item.size for one in files)
    done = part = 0

    def step(size: int) -> None:
        nonlocal part
        part += size
        if progress is not None:
            progress(min(done + part, total), total)

    for one in files:
        if stop():
            return
        part = 0
        outcome, error = _import_one(store, history, one, recorder, again, step, stop)
        yield outcome
        if error is not None:
            raise error
        done += one.item.size
        if progress is not None:
            progress(done, total)


def _import_one(
    store: Store,
    history: ImportedFiles,
    one: Found,
    recorder: ImportRecorder | None,
    again: bool,
    step: Callable[[int], object],
    stop: Callable[[], bool],
) -> tuple[FileOutcome, ClewError | None]:
    """The outcome of a file, and the error that ends the import."""
    name, item = one.item.name, one.item
    if one.source is None:
        return FileOutcome(name, None, "skipped", skipped=(one.why,)), None
    source = one.source.name
    if item.size == 0 and item.member is None and not os.path.exists(f"{item.path}-wal"):
        return FileOutcome(name, source, "empty"), None
    if not again and (one.unchanged or history.is_unchanged(item)):
        before = history.find(item)
        return FileOutcome(name, source, "unchanged", skipped=() if before is None else before.skipped), None
    noted = None if one.partial else history
    try:
        outcome = import_item(
            store, one.source, item, history=noted, recorder=recorder, again=again, step=step, stop=stop
        )
    except Exception as error:  # noqa: BLE001 (no file may end the import)
        return FileOutcome(name, source, "skipped", skipped=(reason(error),)), None
    skipped = tuple(skip_text(skip) for skip in outcome.skipped)
    nothing = not (skipped or outcome.conversations or outcome.trashed or outcome.stopped or outcome.failed)
    if nothing and _has_no_newline(item):
        skipped = ("its lines end with CR alone",)
    new, full = sum(one.messages for one in outcome.conversations), isinstance(outcome.failed, UNWRITABLE)
    if outcome.failed is not None and not full:
        skipped += (outcome.failed.message,)
    if outcome.failed is not None and new:
        skipped += (f"only {new:,} of its messages were imported",)
    state = "imported"
    if outcome.stopped or full:
        state = "stopped"
    elif outcome.failed is not None:
        state = "skipped"
    elif outcome.trashed and not outcome.conversations:
        state = "trashed"
    elif skipped and not outcome.conversations:
        state = "skipped"
    done = FileOutcome(name, source, state, outcome.conversations, skipped, outcome.notes, outcome.purged)
    return done, outcome.failed if full else None


def _has_no_newline(item: Item) -> bool:
    """True for a text in which only CR separates lines, as some old programs write it."""
    with suppress(ClewError):
        head = item.head()
        return b"\r" in head and b"\n" not in head
    return False
