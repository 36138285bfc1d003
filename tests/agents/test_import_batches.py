"""An import reads first and then writes, a batch at a time: writers do not wait for files, and a cut is mended."""

from __future__ import annotations

import os
import signal
import uuid
from contextlib import suppress
from pathlib import Path

import pytest

import clew
from clew import agents
from clew.agents import import_tree, serial
from clew.agents.store import store_of
from tests.agents.test_import import A, B, row, write
from tests.reliability.tools import need_strace, output, python

IMPORT = """
import os, signal, sys
import clew, clew.agents.importer as importing
from clew.agents import SessionStore

path, tree, batch, last = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
importing.BATCH = batch
ticks = 0

def clock():
    global ticks
    ticks += 1
    if ticks == last:
        os.kill(os.getpid(), signal.SIGKILL)
    return 1_700_000_000_000_000 + ticks

with clew.open(path, clock=clock) as store, SessionStore(store) as sessions:
    importing.import_tree(sessions, tree)
import resource
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
WHOLE = 1 << 30


def spoken(count: int) -> bytes:
    return b"".join(row(f"message {number}", str(uuid.UUID(int=1000 + number))) for number in range(count))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A session of 100 messages and events, and a fork of it that has 60 in common with it."""
    made = tmp_path / "tree"
    events = b"".join(b'{"type":"x","n":%d}\n' % number for number in range(100))
    write(made, A, spoken(100), events, cwd="/src")
    own = row("in the fork", str(uuid.UUID(int=5000)))
    write(made, B, spoken(60) + own, parent_id=A, cwd="/src")
    return made


def test_an_import_that_is_cut_again_and_again(path: Path, tree: Path, tmp_path: Path) -> None:
    """Killed at any moment, and repeated: each message and event is there once, in its place, as after one import."""
    stored = set()
    for last in (20, 60, 90, 120):
        running = python(IMPORT, path, tree, "20000", str(last))
        running.communicate(timeout=60)
        assert running.returncode == -signal.SIGKILL
        with clew.open(path) as store:
            stored.add(sum(1 for _ in store.nodes.list().items))
    assert len(stored) > 2, "the batches were not committed one by one"
    with agents.open(path) as sessions, agents.open(tmp_path / "other.db") as other:
        import_tree(sessions, tree)
        import_tree(other, tree)
        for id in (A, B):
            ours, theirs = (store_of(one).sessions.get(id) for one in (sessions, other))
            assert [node.id for node in ours.path()] == [node.id for node in theirs.path()]
            assert [entry.data for entry in ours.log.read()] == [entry.data for entry in theirs.log.read()]
            assert ours.branches() == []
        store_of(sessions).verify()


def test_a_session_that_fits_in_a_batch_is_whole_or_not_there(path: Path, tree: Path) -> None:
    """Killed in the middle of it, nothing of it is stored."""
    for last in (20, 90):
        running = python(IMPORT, path, tree, str(WHOLE), str(last))
        running.communicate(timeout=60)
        assert running.returncode == -signal.SIGKILL
        with clew.open(path) as store:
            assert [len(one.path()) for one in store.sessions.list().items] in ([], [100])


def reader(file: Path) -> int:
    """The process that has the file open, once there is one."""
    while True:
        for link in Path("/proc").glob("[0-9]*/fd/*"):
            with suppress(OSError):  # it has ended, or closed the file
                if os.readlink(link) == str(file):
                    return int(link.parts[2])


def test_writers_do_not_wait_for_a_slow_file(path: Path, tree: Path, tmp_path: Path) -> None:
    """While an import waits for a disk, another process appends."""
    slow = tree / "sessions" / A / "messages.jsonl"
    wrap = (need_strace(), "-f", "-qq", "-o", str(tmp_path / "trace"), "-P", str(slow), "-e", "trace=read",
            "-e", "inject=read:delay_enter=300000000")  # fmt: skip
    with clew.open(path, timeout=20) as store:
        session = store.sessions.create()
        running = python(IMPORT, path, tree, str(WHOLE), "0", wrap=wrap)
        stuck = reader(slow)
        session.append([clew.user("x")])  # Unavailable after 20 of the 300 seconds, if it had to wait
        running.kill()  # strace would finish its delay first
        os.kill(stuck, signal.SIGKILL)
        running.communicate()
        output(python(IMPORT, path, tree, str(WHOLE), "0"))
        assert len(store.sessions.get(A).path()) == 100


@pytest.mark.parametrize("key", [None, bytes(range(32))], ids=["plain", "sealed"])
def test_writers_do_not_wait_for_a_dry_run(
    path: Path, tree: Path, key: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of a dry run another writer appends; the answer is that of the import, and nothing is stored."""
    checked, waiting = serial.check_size, [True]
    with clew.open(path, key=key) as store, agents.SessionStore(store) as sessions:
        import_tree(sessions, tree)
        (tree / "sessions" / A / "messages.jsonl").write_bytes(spoken(130) + b"no json\n")
        (tree / "sessions" / B / "messages.jsonl").write_bytes(spoken(60) + row("new", str(uuid.UUID(int=6000))))
        before = store.nodes.list(limit=500).items
        session = store.sessions.create()

        def check_size(said: clew.Message) -> None:
            if waiting.pop():
                with clew.open(path, key=key, timeout=0.5) as other:
                    other.sessions.get(session.id).append(clew.user("not kept waiting"))
            waiting.append(False)
            checked(said)

        monkeypatch.setattr(serial, "check_size", check_size)
        would = import_tree(sessions, tree, dry_run=True)
        assert [node.text for node in session.refresh().path()] == ["not kept waiting"]
        assert len(store.nodes.list(limit=500).items) == len(before) + 1
        assert [one[1:4] for one in would.sessions] == [(30, 0, 200), (1, 0, 60)]
        assert import_tree(sessions, tree) == would
        assert store.verify().ok


def test_batches_add_up(path: Path, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts of several batches are added up; a second import finds all of it."""
    monkeypatch.setattr("clew.agents.importer.BATCH", 20_000)
    (tree / "sessions" / A / "messages.jsonl").write_bytes(b"no json\n" + spoken(100))
    with agents.open(path) as sessions:
        done = import_tree(sessions, tree)
        assert [(one.line, one.why) for one in done.skipped] == [(1, "this is not JSON")]
        assert [one[1:4] for one in done.sessions] == [(100, 100, 0), (1, 0, 60)]
        assert [one[1:4] for one in import_tree(sessions, tree).sessions] == [(0, 0, 200), (0, 0, 61)]


@pytest.mark.soak
def test_memory_does_not_grow_with_a_file(path: Path, tmp_path: Path) -> None:
    """A session of 200 MB needs hardly more memory than one of 2 MB."""
    peaks = []
    for number, count in enumerate((20, 2000)):
        made = tmp_path / f"tree {number}"
        folder = write(made, str(uuid.UUID(int=number)), b"", cwd="/src")
        with (folder / "messages.jsonl").open("wb") as file:
            for each in range(count):
                file.write(row("x" * 100_000, str(uuid.UUID(int=10_000 + each))))
        peaks.append(int(output(python(IMPORT, f"{path}{number}", made, str(4 << 20), "0"))))
    assert peaks[1] - peaks[0] < 60_000, peaks
