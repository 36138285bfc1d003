"""Histories of other programs, imported into a store on a server."""

from __future__ import annotations

from pathlib import Path

import clew
from clew.sources import ImportRecorder, find, import_all, records, undo
from tests.sources.made import SESSION, claude_line, jsonl


def test_an_import(url: str, tmp_path: Path) -> None:
    """A history is stored, continued, written out as it was, and taken back."""
    file = tmp_path / f"{SESSION}.jsonl"
    lines = [
        claude_line(1, None, "user", "One"),
        claude_line(2, 1, "assistant", "Yes"),
        claude_line(3, 2, "user", "Two"),
    ]
    record = {"type": "queue-operation", "operation": "enqueue", "sessionId": SESSION}
    with clew.open(url) as store:
        for some in ([*lines[:2], record], [*lines[:2], record, lines[2]]):
            file.write_bytes(jsonl(some))
            this = ImportRecorder(store)
            (outcome,) = import_all(store, find([str(file)]), recorder=this)
            assert outcome.state == "imported"
        session = store.sessions.get(SESSION)
        assert b"".join(records(session, store)) == file.read_bytes()
        (again,) = import_all(store, find([str(file)]), again=True)
        assert [(one.messages, one.known, one.records) for one in again.conversations] == [(0, 3, 0)]
        assert undo(store, this.id).messages == 1
        assert [node.text for node in store.sessions.get(SESSION).path()] == ["One", "Yes"]
