"""Cursor: the editor's ``state.vscdb``, the command line's ``store.db``, and the transcripts of agents.

There is no published schema; the forms were worked out by others. Transcripts repeat conversations of the databases
without ids and times, so they are conversations of their own, and are imported only if their path is given.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from clew.sources.contract import Home, Part
from clew.sources.cursor_cli import read_store
from clew.sources.cursor_editor import read_editor
from clew.sources.cursor_transcripts import is_lines, is_text, read_lines, read_text
from clew.sources.editors import user_folders
from clew.sources.items import SQLITE, Item
from clew.turns.model import Rules, tag

RULES = Rules(
    notes=(
        tag("instructions", "user_info|project_layout|git_status|rules|agent_skills", "Environment"),
        tag("reminder", r"attached_files|additional_data|system_reminder|open_and_recently_viewed_files|\w+_context"),
    )
)


class CursorHistory:
    """See `clew.sources.contract.Source`."""

    name = "cursor"
    rules = RULES
    title = "Cursor"
    deletes_after = None

    def discover(self, home: Home) -> Iterator[str]:
        for user in user_folders(home, ("Cursor",)):
            yield os.path.join(user, "globalStorage", "state.vscdb")
        yield os.path.join(home.path, ".cursor", "chats")

    def resume(self, conversation: str) -> None:
        return None

    def recognise(self, path: str, head: bytes) -> bool:
        if head.startswith(SQLITE):
            return _is_editor(path, head) or _is_store(path, head)
        return is_lines(path, head) or is_text(path, head)

    def read(self, item: Item) -> Iterator[Part]:
        path, head = item.member or item.path, item.head()
        if head.startswith(SQLITE):
            return read_editor(item) if _is_editor(path, head) else read_store(item)
        return read_text(item) if is_text(path, head) else read_lines(item)


def _is_editor(path: str, head: bytes) -> bool:
    """By its table; if all of it is still in the journal, by its name."""
    is_named = os.path.basename(path) == "state.vscdb" and f"Cursor{os.sep}" in path
    return b"cursorDiskKV" in head or (b"CREATE TABLE" not in head and is_named)


def _is_store(path: str, head: bytes) -> bool:
    is_named = os.path.basename(path) == "store.db" and os.path.join(".cursor", "chats") in path
    has_tables = b"CREATE TABLE blobs" in head and b"CREATE TABLE meta" in head
    return has_tables or (b"CREATE TABLE" not in head and is_named)
