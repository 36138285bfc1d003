"""Imports files and prints the results."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import clew
from clew.base.visible import many, plain
from clew.cli.exits import INTERRUPTED, PARTIAL
from clew.cli.importing.found import SPACE
from clew.cli.output.json import Form, out_lines
from clew.cli.output.progress import ProgressLine, size
from clew.cli.output.text import bold, note, out_json, out_jsonl, warn
from clew.sources.import_all import UNWRITABLE, FileOutcome, import_all
from clew.sources.import_log import ImportRecorder, run_handle
from clew.sources.imported_files import ImportedFiles
from clew.sources.registry import Found

MOST = 20
"""Skipped records that are named for one file."""


class StopSwitch:
    """Set by the first Ctrl-C: the import ends after whole conversations. The second one ends it at once."""

    def __init__(self) -> None:
        self.pressed = False

    def __call__(self) -> bool:
        """True once it was pressed."""
        return self.pressed

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Takes Ctrl-C meanwhile."""

        def press(number: int, frame: FrameType | None) -> None:
            if self.pressed:
                raise KeyboardInterrupt
            self.pressed = True

        try:
            before = signal.signal(signal.SIGINT, press)
        except ValueError:  # not the main thread
            yield
            return
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


def import_files(
    store: clew.Store,
    found: Iterable[Found],
    paths: Iterable[str],
    form: Form,
    *,
    dry_run: bool,
    again: bool,
    force: bool,
) -> int:
    """Imports files and prints what became of them; returns the exit code. StorageFull if they cannot fit."""
    this, stop, files = ImportRecorder(store, tuple(paths)), StopSwitch(), list(found)
    if not dry_run and not force:
        _check_space(store, files)
    done, error = list[FileOutcome](), None
    with stop.listening(), ProgressLine("Importing", in_bytes=True) as line:
        try:
            done.extend(import_all(store, files, dry_run=dry_run, again=again, progress=line, stop=stop, recorder=this))
        except UNWRITABLE as unwritable:
            error = unwritable
            left = many(len(files) - len(done) + 1, "file")
            error.hint = f"{left} not imported. {error.hint} The same command then imports the rest."
    added = any(one.conversations for one in done) and not dry_run
    if added and not stop.pressed and error is None:
        _index(store)
    handle = run_handle(store, this.id) if added else None
    if form == "json":
        out_json({"run": this.id if handle else None, "files": [file_row(one) for one in done]})
    elif form == "jsonl":
        out_jsonl([file_row(one) for one in done])
    else:
        _tell(done, handle, dry_run=dry_run)
    if error is not None:
        raise error
    if stop.pressed:
        warn("Interrupted. Whole conversations are stored; the same command imports the rest.")
        return INTERRUPTED
    return exit_code(done)


def _index(store: clew.Store) -> None:
    """Adds what was imported to the search index: the first search need not wait. Ctrl-C leaves the rest to it."""
    with suppress(clew.ClewError, KeyboardInterrupt), ProgressLine("Indexing for search") as line:
        store.search("clew", limit=1, progress=line)


def _check_space(store: clew.Store, found: Iterable[Found]) -> None:
    """StorageFull if the disk of the store is too small for what is new in these files."""
    if not os.path.isfile(store.path):  # on a server, or in memory
        return
    history = ImportedFiles(store)
    changed = [one.item for one in found if one.source is not None and not one.unchanged]
    known = [history.find(item) for item in changed]
    new = sum(
        max(0, item.size - (0 if file is None else file.state[0])) for item, file in zip(changed, known, strict=True)
    )
    need, free = round(new * SPACE), shutil.disk_usage(os.path.dirname(os.path.abspath(store.path))).free
    if need > free:
        raise clew.StorageFull(
            f"the import needs about {size(need)}, and {size(free)} are free for {store.path}",
            hint="Free some space, import a part (--from, --since, --project), or use --force to store what fits.",
        )


def exit_code(done: Iterable[FileOutcome]) -> int:
    """0 if everything was imported or unchanged; 8 if something was skipped, or nothing was imported."""
    files = list(done)
    if any(one.skipped or one.state in ("skipped", "trashed", "stopped") for one in files):
        return PARTIAL
    return 0 if any(one.conversations or one.purged or one.state == "unchanged" for one in files) else PARTIAL


def _tell(done: list[FileOutcome], run: str | None, *, dry_run: bool) -> None:
    for one in done:
        for why in one.skipped[:MOST]:
            warn(f"{bold('skipped')} {plain(one.path)}: {plain(why)}")
        if len(one.skipped) > MOST:
            warn(f"{bold('skipped')} {plain(one.path)}: {len(one.skipped) - MOST:,} more")
        for why in one.notes[:MOST]:
            note(f"note: {plain(why)}")
        if one.state == "trashed":
            warn(f"{bold('in the trash')} {plain(one.path)}: restore its conversation to import what is new")
    counts = {state: sum(one.state == state for one in done) for state in ("unchanged", "empty", "trashed")}
    # One may have several files. Those without a message are not counted, as in every list.
    stored = {
        each.session: each.subagent
        for one in done
        for each in one.conversations
        if each.messages or each.known or each.inherits
    }
    traces = sum(stored.values())
    conversations = len(stored) - traces
    new = sum(one.messages for one in done)
    verb = "would be imported" if dry_run else "imported"
    subagents = f" and {many(traces, 'subagent')}" if traces else ""
    line = f"{many(new, 'new message')} in {many(conversations, 'conversation')}{subagents} {verb}"
    if counts["unchanged"]:
        line = f"{line if stored else 'Nothing new'}; {many(counts['unchanged'], 'file')} unchanged"
    elif not stored:
        line = "Nothing was imported"
        if counts["empty"]:
            line += f": {many(counts['empty'], 'empty file')}"
    out_lines([line])
    if gone := sum(one.purged for one in done):
        note(left_out(gone))
    if run is not None and new:
        note(f"Undo with: clew import --undo {run}")


def left_out(purged: int) -> str:
    """What is said of messages and records that were purged, as people read it."""
    return f"{many(purged, 'record')} purged earlier left out; --again imports them"


def file_row(one: FileOutcome) -> dict[str, Any]:
    """What became of a file, as data."""
    return {**one._asdict(), "conversations": [each._asdict() for each in one.conversations]}
