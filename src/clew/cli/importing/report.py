"""What became of the files of an import, for people and for programs."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import clew
from clew.base.visible import plain
from clew.cli.exits import INTERRUPTED, PARTIAL
from clew.cli.output.json import Form, out_lines
from clew.cli.output.progress import ProgressLine
from clew.cli.output.text import bold, many, note, out_json, out_jsonl, warn
from clew.sources.registry import Found
from clew.sources.run import FileOutcome, run
from clew.sources.runs import Run, run_handle

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
    store: clew.Store, found: Iterable[Found], paths: Iterable[str], form: Form, *, dry_run: bool, again: bool
) -> int:
    """Imports files and prints what became of them; returns the exit code."""
    this, stop = Run(store, tuple(paths)), StopSwitch()
    with stop.listening(), ProgressLine("Importing", in_bytes=True) as line:
        done = list(run(store, found, dry_run=dry_run, again=again, progress=line, stop=stop, run=this))
    added = any(one.conversations for one in done) and not dry_run
    handle = run_handle(store, this.id) if added else None
    if form == "json":
        out_json({"run": this.id if handle else None, "files": [file_row(one) for one in done]})
    elif form == "jsonl":
        out_jsonl([file_row(one) for one in done])
    else:
        _tell(done, handle, dry_run=dry_run)
    if stop.pressed:
        warn("Interrupted. Whole conversations are stored; the same command imports the rest.")
        return INTERRUPTED
    return exit_code(done)


def exit_code(done: Iterable[FileOutcome]) -> int:
    """0 if everything was imported or unchanged; 8 if something was skipped, or nothing was imported."""
    files = list(done)
    if any(one.skipped or one.state in ("skipped", "trashed", "stopped") for one in files):
        return PARTIAL
    return 0 if any(one.conversations or one.state == "unchanged" for one in files) else PARTIAL


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
    conversations = len({each.session for one in done for each in one.conversations})  # one may have several files
    new = sum(one.messages for one in done)
    verb = "would be imported" if dry_run else "imported"
    line = f"{many(new, 'new message')} in {many(conversations, 'conversation')} {verb}"
    if counts["unchanged"]:
        line = f"{line if conversations else 'Nothing new'}; {many(counts['unchanged'], 'file')} unchanged"
    elif not conversations:
        line = "Nothing was imported"
        if counts["empty"]:
            line += f": {many(counts['empty'], 'empty file')}"
    out_lines([line])
    if run is not None and new:
        note(f"Undo with: clew import --undo {run}")


def file_row(one: FileOutcome) -> dict[str, Any]:
    """What became of a file, as data."""
    return {**one._asdict(), "conversations": [each._asdict() for each in one.conversations]}
