"""`clew import --watch`: imports what is new as it is written, and prints a line for each change."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

import clew
from clew.base.visible import plain
from clew.cli.importing.report import MOST, StopSwitch, file_row
from clew.cli.output.json import Form, home_short, out_lines
from clew.cli.output.text import bold, dim, many, note, out_jsonl, warn
from clew.errors import ClewError
from clew.sources.registry import Found
from clew.sources.run import UNWRITABLE, FileOutcome, run
from clew.sources.runs import Run, run_handle
from clew.sources.watching import watch


class LiveImport:
    """One run of `clew import --watch`. `places` are watched; `find` says what is at a path."""

    def __init__(
        self,
        store: clew.Store,
        places: Callable[[], Sequence[str]],
        find: Callable[[str], list[Found]],
        form: Form,
    ) -> None:
        self._store = store
        self._places, self._find = places, find
        self._form = form
        self._stop = StopSwitch()
        self._run = Run(store)
        self._failed: set[str] = set()
        """Paths that could not be read; they are tried once more."""
        self._told: set[tuple[str, str]] = set()
        self._new = 0
        self._full = False
        """True while the store cannot be written, which is said once."""

    def run(self) -> int:
        """Imports until Ctrl-C; returns the exit code."""
        with self._stop.listening():
            first = True
            for changed in watch(self._places, stop=self._stop):
                began = time.monotonic()
                self._import(changed, summary=first)
                sys.stdout.flush()
                if first:
                    note(f"Watching {self._names()}. Ctrl-C ends it.")
                    first = False
                    continue
                # some files are read whole when they have changed: a large one takes half of the processor at most
                self._pause(time.monotonic() - began)
        if self._new:
            note(f"Undo with: clew import --undo {run_handle(self._store, self._run.id)}")
        return 0

    def _names(self) -> str:
        places = [plain(home_short(path)) for path in self._places()]
        return ", ".join(places) if len(places) <= 3 else many(len(places), "place")

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._stop() and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.2))

    def _import(self, changed: Iterable[str], *, summary: bool) -> None:
        again, self._failed = self._failed, set()
        found: dict[str, Found] = {}
        for path in {**dict.fromkeys(changed), **dict.fromkeys(again)}:
            try:
                found |= {one.item.name: one for one in self._find(path) if one.source or one.unreadable}
            except ClewError:  # it went away
                continue
        messages = conversations = 0
        waiting = dict(found)
        try:
            for outcome in run(self._store, found.values(), stop=self._stop, run=self._run):
                messages += outcome.messages
                conversations += len(outcome.conversations)
                path = waiting.pop(outcome.path).item.path
                if outcome.state == "stopped" or (outcome.state == "skipped" and path not in again):
                    self._failed.add(path)
                self._tell(outcome, quiet=summary)
            self._full = self._full and not found
        except UNWRITABLE as error:
            if not self._full:
                warn(f"clew: {plain(error.message)}. {error.hint} The next change is imported with the rest.")
            self._full = True
            self._failed |= again | {one.item.path for one in waiting.values()}
        self._new += messages
        if summary and self._form == "text":
            out_lines(
                [f"{many(messages, 'new message')} in {many(conversations, 'conversation')} imported"], paged=False
            )

    def _tell(self, outcome: FileOutcome, *, quiet: bool) -> None:
        """Prints what is new in a file; `quiet` leaves out the lines for people."""
        if outcome.state in ("unchanged", "empty"):
            return
        for why in outcome.skipped[:MOST]:
            if (outcome.path, why) not in self._told:
                self._told.add((outcome.path, why))
                warn(f"{bold('skipped')} {plain(outcome.path)}: {plain(why)}")
        if self._form != "text":
            out_jsonl([file_row(outcome)])
            return
        for one in () if quiet else outcome.conversations:
            if one.messages:
                session = self._store.sessions.get(one.session)
                now = dim(datetime.now().astimezone().strftime("%H:%M:%S"))
                line = f"{now}  {session.handle}  {many(one.messages, 'new message')}  {plain(session.title or '')}"
                out_lines([line.rstrip()], paged=False)
