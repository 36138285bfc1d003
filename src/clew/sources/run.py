"""One import: files found, read and stored, each with its outcome."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from clew.errors import ClewError
from clew.sources.history import ImportHistory
from clew.sources.importer import ImportedConversation, import_item
from clew.sources.registry import Found
from clew.store.store import Store
from clew.store.trial import trial

Progress = Callable[[int, int], object]
"""Called with the bytes done and the bytes there are."""


class FileOutcome(NamedTuple):
    """What became of one file."""

    path: str
    source: str | None
    state: str
    """``imported``, ``unchanged``, ``empty`` or ``skipped``."""
    conversations: tuple[ImportedConversation, ...] = ()
    skipped: tuple[str, ...] = ()
    """What could not be read, and why."""
    notes: tuple[str, ...] = ()

    @property
    def messages(self) -> int:
        """Messages that are new."""
        return sum(one.messages for one in self.conversations)


def run(
    store: Store, found: Iterable[Found], *, dry_run: bool = False, progress: Progress | None = None
) -> Iterator[FileOutcome]:
    """Imports files one after the other, and gives the outcome of each. Whole files are noted and not read again.

    If it is ended in the middle, whole batches stay; repeated, it completes them. With `dry_run` nothing is stored.
    """
    if dry_run:
        with trial(store) as copy:
            yield from run(copy, found, progress=progress)
        return
    history = ImportHistory(store)
    files = list(found)
    total = sum(one.item.size for one in files)
    done = 0
    for one in files:
        yield _import_one(store, history, one)
        done += one.item.size
        if progress is not None:
            progress(done, total)


def _import_one(store: Store, history: ImportHistory, one: Found) -> FileOutcome:
    name, item = one.item.name, one.item
    if one.source is None:
        return FileOutcome(name, None, "skipped", skipped=(one.why,))
    if item.size == 0 and item.member is None and os.path.getsize(item.path) == 0:
        return FileOutcome(name, one.source.name, "empty")
    if history.is_unchanged(item):
        return FileOutcome(name, one.source.name, "unchanged")
    try:
        outcome = import_item(store, one.source, item)
    except ClewError as error:
        return FileOutcome(name, one.source.name, "skipped", skipped=(error.message,))
    skipped = tuple(f"line {skip.line}: {skip.why}" if skip.line else skip.why for skip in outcome.skipped)
    history.note(one.source.name, item, tuple(each.session for each in outcome.conversations))
    state = "imported" if outcome.conversations or not skipped else "skipped"
    return FileOutcome(name, one.source.name, state, outcome.conversations, skipped, outcome.notes)
