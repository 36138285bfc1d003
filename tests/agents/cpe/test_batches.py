"""A file of CPE's is imported in batches: an import that is cut continues when it is repeated."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.agents import cpe
from clew.agents.cpe import importer
from tests.agents.cpe.files import Convo
from tests.reliability.tools import output, python

IMPORT = """
import os, resource, signal, sys
import clew, clew.agents.cpe.importer as importing

path, file, batch, last = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
importing.BATCH = batch
ticks = 0

def clock():
    global ticks
    ticks += 1
    if ticks == last:
        os.kill(os.getpid(), signal.SIGKILL)
    return 1_700_000_000_000_000 + ticks

with clew.open(path, clock=clock) as store:
    importing.import_file(store, file)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def talk(path: Path, size: int = 10, count: int = 40) -> Path:
    """A tree with a branch after every fourth message, the last one active."""
    convo = Convo(path)
    parent = None
    for number in range(count):
        if number % 4 == 3:
            convo.say(f"b{number}", parent, "user", "branch " + "y" * size, at=f"2024-01-15 10:00:{number % 60:02}")
        convo.say(f"m{number}", parent, "user", "x" * size, at=f"2024-01-16 10:{number % 60:02}:00")
        parent = f"m{number}"
    convo.conn.close()
    return path


def shape(path: Path) -> list[object]:
    """Every session with its messages, and those of the branches it has left."""
    with clew.open(path) as store:
        found = list[object]()
        for session in store.sessions.list().items:
            assert "clew.agents.cpe.part" not in session.extra
            heads = sorted(str(branch.head_id) for branch in session.branches())
            found.append((session.id, [node.id for node in session.path()], heads))
        store.verify()
        return found


def test_an_import_that_is_cut_again_and_again(tmp_path: Path) -> None:
    """Killed at any moment, and repeated: the store is as after one import, with the same branches."""
    file, path = talk(tmp_path / ".cpeconvo"), tmp_path / "cut.db"
    for last in (15, 30, 45):
        running = python(IMPORT, path, file, "5000", str(last))
        running.communicate(timeout=60)
        assert running.returncode == -signal.SIGKILL
        with clew.open(path) as store:
            assert 0 < len(store.nodes.list().items) < 50
    output(python(IMPORT, path, file, "5000", "0"))
    with clew.open(tmp_path / "whole.db") as store:
        assert cpe.import_file(store, file).sessions[0][1:] == (50, 0)
    assert shape(path) == shape(tmp_path / "whole.db")
    with clew.open(path) as store:
        assert cpe.import_file(store, file).sessions[0][1:] == (0, 50)


@pytest.mark.soak
def test_memory_does_not_grow_with_a_file(tmp_path: Path) -> None:
    """A tree of 100 MB needs hardly more memory than one of 2 MB."""
    peaks = []
    for count in (16, 800):
        file = talk(tmp_path / f"{count}.cpeconvo", size=100_000, count=count)
        peaks.append(int(output(python(IMPORT, tmp_path / f"{count}.db", file, str(4 << 20), "0"))))
    assert peaks[1] - peaks[0] < 60_000, peaks


def test_writers_do_not_wait_for_a_dry_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of a dry run another writer appends; the answer is that of the import, and nothing is stored."""
    file, read = talk(tmp_path / ".cpeconvo"), importer.to_message  # type: ignore[attr-defined]
    with clew.open(path) as store:
        session, waiting = store.sessions.create(), [True]

        def said(*given: Any) -> Any:
            if waiting.pop():
                with clew.open(path, timeout=0.5) as other:
                    other.sessions.get(session.id).append(clew.user("not kept waiting"))
            waiting.append(False)
            return read(*given)

        monkeypatch.setattr(importer, "to_message", said)
        would = cpe.import_file(store, file, dry_run=True)
        assert [node.text for node in session.refresh().path()] == ["not kept waiting"]
        assert len(store.sessions.list().items) == 1
        assert cpe.import_file(store, file) == would
        assert sum(one.messages for one in would.sessions) == 50
