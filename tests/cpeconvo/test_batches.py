"""A file of CPE's is imported in batches: an import that is cut continues when it is repeated."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import clew
from clew import cpeconvo
from tests.cpeconvo.files import Convo
from tests.reliability.tools import output, python

IMPORT = """
import os, resource, signal, sys
import clew, clew.cpeconvo.importing as importing

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
            assert "clew.cpeconvo.part" not in session.extra
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
        assert cpeconvo.import_file(store, file).sessions[0][1:] == (50, 0)
    assert shape(path) == shape(tmp_path / "whole.db")
    with clew.open(path) as store:
        assert cpeconvo.import_file(store, file).sessions[0][1:] == (0, 50)


@pytest.mark.soak
def test_memory_does_not_grow_with_a_file(tmp_path: Path) -> None:
    """A tree of 100 MB needs hardly more memory than one of 2 MB."""
    peaks = []
    for count in (16, 800):
        file = talk(tmp_path / f"{count}.cpeconvo", size=100_000, count=count)
        peaks.append(int(output(python(IMPORT, tmp_path / f"{count}.db", file, str(4 << 20), "0"))))
    assert peaks[1] - peaks[0] < 60_000, peaks
