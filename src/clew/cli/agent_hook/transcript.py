"""Imports the transcript of a coding agent, and those of its subagents, as `clew import` does.

Both use the same reader and the same notes on files: whichever comes first, a message is stored once, in one session.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator

import clew
from clew.errors import Invalid
from clew.sources.claude_code import ClaudeCode
from clew.sources.imported_files import ImportedFiles, state
from clew.sources.importer import import_item, skip_text
from clew.sources.items import Item


class TranscriptImport:
    """Imports logs of Claude Code. If it is interrupted, stored batches stay, and the next call continues.

    The files are read without a transaction: other writers do not wait for that.
    """

    def __init__(self, store: clew.Store) -> None:
        self._store = store
        self._history = ImportedFiles(store)
        self._source = ClaudeCode()

    def take(self, path: str) -> list[str]:
        """Imports the new lines of a log; does nothing if it does not exist. Invalid if no line can be imported.

        Returns the lines that were skipped, with the reasons; each is named once.
        """
        try:
            status = os.stat(path)
        except OSError:  # no message yet
            return []
        item = Item(os.path.abspath(path), status.st_size, status.st_mtime_ns)
        before = self._history.find(item)
        if before is not None and before.state == state(item):
            return []
        done = import_item(self._store, self._source, item, history=self._history)
        if done.failed is not None:
            raise done.failed
        if done.skipped and not done.conversations and not done.trashed:
            raise Invalid(skip_text(done.skipped[0]))
        named = () if before is None else before.skipped
        return [why for why in map(skip_text, done.skipped) if why not in named]


def subagent_logs(path: str) -> Iterator[str]:
    """The logs of the subagents of a session, beside its own log."""
    folder = glob.escape(path.removesuffix(".jsonl"))
    yield from sorted(glob.iglob(os.path.join(folder, "subagents", "**", "agent-*.jsonl"), recursive=True))
