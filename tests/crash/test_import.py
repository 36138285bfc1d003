"""P16: an import that is killed is completed by the next one, and nothing is stored twice."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import clew
from clew.sources import find, import_all, records
from tests.sources.made import SESSION, an_id, claude_line, jsonl

IMPORT_AND_DIE = """
import os, signal, sys, clew
from clew.sources import find, import_all, importer
importer.MANY = 7
batches = int(sys.argv[3])
write = clew.engine.engine.Engine.write
def counted(self, *args):
    global batches
    if batches == 0 and sys.argv[4] == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    done = write(self, *args)
    batches -= 1
    if batches < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return done
store = clew.open(sys.argv[1])
clew.engine.engine.Engine.write = counted
list(import_all(store, find([sys.argv[2]])))
"""


def lines(count: int) -> list[dict[str, object]]:
    roles = ("user", "assistant")
    said = [claude_line(n, n - 1 if n else None, roles[n % 2], f"Message {n}") for n in range(count)]
    return [*said[:10], {"type": "queue-operation", "operation": "enqueue", "sessionId": SESSION}, *said[10:]]


@pytest.mark.parametrize(("batches", "when"), [(0, "before"), (1, "before"), (1, "after"), (2, "after"), (3, "before")])
def test_a_killed_import_is_completed(tmp_path: Path, batches: int, when: str) -> None:
    """Killed before or after any of its commits, and repeated, it has every record once and in its place."""
    file = tmp_path / "projects" / "p" / f"{SESSION}.jsonl"
    file.parent.mkdir(parents=True)
    data = jsonl(lines(25))
    file.write_bytes(data)
    path = str(tmp_path / "s.db")
    command = [sys.executable, "-c", IMPORT_AND_DIE, path, str(file), str(batches), when]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    with clew.open(path) as store:
        (outcome,) = import_all(store, find([str(file)]))
        (one,) = outcome.conversations
        assert (one.messages + one.known, outcome.skipped) == (25, ())
        session = store.sessions.get(SESSION)
        assert [node.id for node in session.path()] == [an_id(n) for n in range(25)]
        assert b"".join(records(session, store)) == data
        assert session.branches() == []
        assert store.verify().damage == []
