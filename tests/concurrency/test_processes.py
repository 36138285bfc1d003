"""P3: processes that write to one session at once lose nothing, and none of them starves."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import pytest

import clew
from clew.errors import Unavailable
from tests.concurrency.workers import Writer, crowd


@pytest.mark.parametrize("time_", range(2))
def test_a_cold_start_of_many(tmp_path: Path, time_: int) -> None:
    """Six processes open a store that does not exist yet at the same moment, and all get in."""
    crowd(tmp_path / "s.db", writers=6, count=15, kills=0)


def test_writers_that_are_killed(tmp_path: Path) -> None:
    """Two of five writers are killed; the others go on, and what was acknowledged is there."""
    crowd(tmp_path / "s.db", writers=5, count=60, kills=2)


@pytest.mark.soak
@pytest.mark.parametrize("kills", [0, 3])
def test_eight_writers_of_five_hundred(tmp_path: Path, kills: int) -> None:
    """Eight processes append five hundred messages each to one session."""
    crowd(tmp_path / "s.db", writers=8, count=500, kills=kills)


@pytest.mark.soak
def test_fifty_cold_starts(tmp_path: Path) -> None:
    """A store is created by eight processes at once, fifty times."""
    for number in range(50):
        crowd(tmp_path / f"{number}.db", writers=8, count=3, kills=0)


def shares(path: Path, *, writers: int, seconds: float) -> list[int]:
    """How many appends each of several processes got in the same time."""
    session = str(uuid.uuid4())
    with clew.open(path) as store:
        store.sessions.create(id=session)
    crew = [Writer(path, session, number, seconds=seconds) for number in range(writers)]
    for writer in crew:
        writer.go()
    counts = []
    for writer in crew:
        acked, err, summary = writer.finish()
        assert summary is not None, err
        counts.append(len(acked))
    return counts


def test_nobody_starves(tmp_path: Path) -> None:
    """Of four processes each gets something done, and no one does nearly everything."""
    for number in range(3):  # on a busy machine one may begin when the others have finished
        counts = shares(tmp_path / f"{number}.db", writers=4, seconds=1.0)
        if min(counts) > 1 and max(counts) < 0.9 * sum(counts):
            return
    raise AssertionError(counts)


@pytest.mark.soak
def test_every_process_gets_its_share(tmp_path: Path) -> None:
    """Each of four processes gets at least half of an even share, three times over."""
    tries = [shares(tmp_path / f"{number}.db", writers=4, seconds=2.0) for number in range(3)]
    assert all(min(counts) >= sum(counts) / 4 / 2 for counts in tries), tries


BUSY = """
import sys, clew
with clew.open(sys.argv[1]) as store:
    session = store.sessions.get(sys.argv[2])
    for line in sys.stdin:
        with store.transaction():
            session.append(clew.user("holds"))
            print("holding", flush=True)
            sys.stdin.readline()
        for _ in range(300):
            session.append(clew.user("more"))
        print("done", flush=True)
"""


def test_a_writer_that_waits_is_next(tmp_path: Path) -> None:
    """A process that has waited for the lock gets it soon, though the one that had it asks for it at once, and again.

    SQLite alone looks every tenth of a second, and finds the lock taken.
    """
    path, places = tmp_path / "s.db", []
    with clew.open(path) as store:
        session = store.sessions.create()
        command = [sys.executable, "-c", BUSY, str(path), session.id]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as busy:
            assert busy.stdin is not None and busy.stdout is not None
            for _ in range(3):
                busy.stdin.write("\n")
                assert busy.stdout.readline() == "holding\n"
                waiting = threading.Thread(target=lambda: session.append(clew.user("waits")))
                waiting.start()
                time.sleep(0.3)  # until SQLite's own waiting would look seldom
                busy.stdin.write("\n")
                assert busy.stdout.readline() == "done\n"
                waiting.join()
                said = [node.text for node in session.path(last=302)]
                places.append(said.index("waits") - said.index("holds"))
            busy.stdin.close()
    assert sorted(places)[1] < 100, places


def test_a_writer_waits_for_one_slow_sync_at_most(tmp_path: Path) -> None:
    """A writer gets between the commits of another one that needs five milliseconds for each and begins at once again.

    The pause between two commits is so short that a writer that only looks now and then nearly always misses it. Two
    open stores take turns as two processes do: each has a descriptor of its own for the lock.
    """
    path, number, done, seen = tmp_path / "s.db", 0, threading.Event(), set()
    with clew.open(path) as slow, clew.open(path) as quick:
        busy, session = slow.sessions.create(), quick.sessions.create()

        def commit_slowly() -> None:
            nonlocal number
            for _ in range(30):
                number += 1
                with slow.transaction():
                    busy.append(clew.user("slow"))
                    time.sleep(0.005)  # as long as the sync of a slow disk
            done.set()

        other = threading.Thread(target=commit_slowly)
        other.start()
        while not done.is_set():
            session.append(clew.user("quick"))
            seen.add(number)
        other.join()
    assert len(seen) >= 5, seen  # a writer that looks now and then gets in once or twice


HOLDER = """
import sys, clew
with clew.open(sys.argv[1]) as store:
    session = store.sessions.get(sys.argv[2])
    with store.transaction():
        session.append(clew.user("holder"))
        print("holding", flush=True)
        sys.stdin.readline()
"""


def test_a_stopped_writer(tmp_path: Path) -> None:
    """A process that is stopped with the lock makes others fail after their timeout, and only until it goes on."""
    path = tmp_path / "s.db"
    with clew.open(path, timeout=0.4) as store:
        session = store.sessions.create()
        command = [sys.executable, "-c", HOLDER, str(path), session.id]
        holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "holding\n"
            holder.send_signal(signal.SIGSTOP)
            for _ in range(3):
                began = time.monotonic()
                with pytest.raises(Unavailable) as told:
                    session.append(clew.user("blocked"))
                assert 0.3 < time.monotonic() - began < 10
                assert "stopped" in told.value.hint
            assert session.path() == []  # reading goes on
            holder.send_signal(signal.SIGCONT)
            holder.communicate("\n", timeout=30)
        finally:
            holder.kill()
            holder.wait()
        session.append(clew.user("after"))
        assert [node.text for node in session.path()] == ["holder", "after"]


def test_others_read_while_the_last_writer_closes(tmp_path: Path) -> None:
    """Stores opened and closed in turn, each removing the WAL as it goes, never disturb a reader."""
    path = tmp_path / "s.db"
    with clew.open(path) as store:
        session = store.sessions.create()
    script = (
        "import sys, clew\n"
        "for n in range(40):\n"
        "    with clew.open(sys.argv[1]) as store:\n"
        "        store.sessions.get(sys.argv[2]).append(clew.user(str(n)))\n"
    )
    command = [sys.executable, "-c", script, str(path), session.id]
    writers = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(2)]
    seen = 0
    while any(writer.poll() is None for writer in writers):
        with clew.open(path) as store:
            count = len(store.sessions.get(session.id).path())
        assert count >= seen
        seen = count
    for writer in writers:
        _, err = writer.communicate()
        assert writer.returncode == 0, err
    with clew.open(path) as store:
        assert len(store.sessions.get(session.id).path()) == 80
