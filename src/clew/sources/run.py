"""One import: files found, read and stored, each with its outcome."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from clew.errors import ClewError
from clew.sources.history import ImportHistory
from clew.sources.importer import ImportedConversation, import_item, skip_text
from clew.sources.registry import Found
from clew.sources.runs import Run
from clew.store.store import Store
from clew.store.trial import trial

Progress = Callable[[int, int], object]
"""Called with the bytes done and the bytes there are."""


class FileOutcome(NamedTuple):
    """What became of one file."""

    path: str
    source: str | None
    state: str
    """``imported``, ``unchanged``, ``empty``, ``trashed`` (all of it is in the trash), ``stopped`` or ``skipped``."""
    conversations: tuple[ImportedConversation, ...] = ()
    skipped: tuple[str, ...] = ()
    """What could not be read, and why."""
    notes: tuple[str, ...] = ()

    @property
    def messages(self) -> int:
        """Messages that are new."""
        return sum(one.messages for one in self.conversations)


def run(
    store: Store,
    found: Iterable[Found],
    *,
    dry_run: bool = False,
    again: bool = False,
    progress: Progress | None = None,
    stop: Callable[[], bool] = lambda: False,
    run: Run | None = None,
) -> Iterator[FileOutcome]:
    """Imports files one after the other, and gives the outcome of each. Whole files are noted and not read again.

    With `again` unchanged files are read, too. If it is ended in the middle, whole batches stay; repeated, it completes
    them. `stop` is asked between files and between batches. With `dry_run` nothing is stored. `run` is the import that
    notes what is stored, for `undo`.
    """
    if dry_run:
        with trial(store) as copy:
            yield from _import_all(copy, list(found), None, again, progress, stop)
        return
    yield from _import_all(store, list(found), run, again, progress, stop)


def _import_all(
    store: Store,
    files: list[Found],
    run: Run | None,
    again: bool,
    progress: Progress | None,
    stop: Callable[[], bool],
) -> Iterator[FileOutcome]:
    history = ImportHistory(store)
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
        yield _import_one(store, history, one, run, again, step, stop)
        done += one.item.size
        if progress is not None:
            progress(done, total)


def _import_one(
    store: Store,
    history: ImportHistory,
    one: Found,
    run: Run | None,
    again: bool,
    step: Callable[[int], object],
    stop: Callable[[], bool],
) -> FileOutcome:
    name, item = one.item.name, one.item
    if one.source is None:
        return FileOutcome(name, None, "skipped", skipped=(one.why,))
    source = one.source.name
    if item.size == 0 and item.member is None and not os.path.exists(f"{item.path}-wal"):
        return FileOutcome(name, source, "empty")
    if not again and (one.unchanged or history.is_unchanged(item)):
        before = history.find(item)
        return FileOutcome(name, source, "unchanged", skipped=() if before is None else before.skipped)
    try:
        noted = None if one.partial else history
        outcome = import_item(store, one.source, item, history=noted, run=run, again=again, step=step, stop=stop)
    except ClewError as error:
        return FileOutcome(name, source, "skipped", skipped=(error.message,))
    skipped = tuple(skip_text(skip) for skip in outcome.skipped)
    state = "imported"
    if outcome.stopped:
        state = "stopped"
    elif outcome.trashed and not outcome.conversations:
        state = "trashed"
    elif skipped and not outcome.conversations:
        state = "skipped"
    return FileOutcome(name, source, state, outcome.conversations, skipped, outcome.notes)
