"""Ctrl-C in the middle of an append: the message is there or it is not, and the store goes on."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

import clew
from clew.backends import Job
from clew.backends.sqlite import SQLiteBackend, group_commit
from clew.backends.sqlite.group_commit import Committer
from clew.backends.sqlite.tx import SQLiteTx
from clew.backends.sqlite.writer import Writer
from clew.backends.timing import Timing
from clew.errors import Unavailable
from clew.store.nodes import NewNode
from clew.store.parts import Parts
from tests.concurrency.interrupts import Interrupt, appended_anyhow


def test_an_append_may_be_interrupted_anywhere(tmp_path: Path) -> None:
    """Wherever the interrupt comes, the same append made again gives one message, and others can write meanwhile."""
    path = tmp_path / "s.db"
    with clew.open(path, timeout=5) as store, clew.open(path, timeout=0.05) as other:
        session = store.sessions.create()
        beside = other.sessions.get(session.id)
        session.append(clew.user("warm"))
        held = set()

        def meanwhile(where: str) -> None:
            try:
                beside.append(clew.user(f"beside {where}"))
            except Unavailable:
                held.add(where)

        expected = appended_anyhow(session, meanwhile)
        # No Python code can close the gap at the door of the function that lets go; the next write does.
        assert held <= {"commit call", "undo call", "_end call", "release call"}
        stored = [node.id for node in session.path()]
        assert [id for id in stored if id in set(expected)] == expected


def test_a_read_may_be_interrupted_anywhere(tmp_path: Path) -> None:
    """An interrupted read spoils no later one, and keeps no old moment of the store alive."""
    path = tmp_path / "s.db"
    with clew.open(path) as store:
        session = store.sessions.create()
        session.append([clew.user(str(number)) for number in range(5)])
        struck = 0
        for nth in range(1, 10_000):
            interrupt = Interrupt(nth)
            try:
                with interrupt:
                    session.path()
            except KeyboardInterrupt:
                struck += 1
            if not interrupt.where:
                break
            assert len(session.path()) == 5
        assert struck > 10
        conn = sqlite3.connect(path, timeout=0)
        assert conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0, "a reader was left behind"
        conn.close()


PRELUDE = """
import os, signal, sys, threading, time
import clew

store = clew.open(sys.argv[1], timeout=20)
session = store.sessions.create()
ready, go = threading.Event(), threading.Event()

def holder(held):
    with held.transaction():
        ready.set()
        go.wait(20)

def strike():
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGINT)

def interrupted_append():
    threading.Thread(target=strike).start()
    try:
        session.append(clew.user("interrupted"))
    except KeyboardInterrupt:
        return
    sys.exit("the append was not interrupted")
"""

IN_THE_QUEUE = """
thread = threading.Thread(target=holder, args=(store,))
thread.start(); ready.wait()
interrupted_append()
go.set(); thread.join()
others = [threading.Thread(target=session.append, args=(clew.user("more"),), daemon=True) for _ in range(3)]
[one.start() for one in others]; [one.join(10) for one in others]
session.append(clew.user("after"))
"""

AT_THE_TURNSTILE = """
elsewhere = clew.open(sys.argv[1], timeout=20)
thread = threading.Thread(target=holder, args=(elsewhere,))
thread.start(); ready.wait()
interrupted_append()
go.set(); thread.join()
time.sleep(0.3)  # whoever still stands in the queue for the interrupted one gets the lock now
elsewhere.sessions.get(session.id).append(clew.user("others go on"))
session.append(clew.user("after"))
[session.append(clew.user("more")) for _ in range(2)]
"""


@pytest.mark.parametrize("place", [IN_THE_QUEUE, AT_THE_TURNSTILE], ids=["queue", "turnstile"])
def test_a_waiting_append_is_interrupted(tmp_path: Path, place: str) -> None:
    """Whoever waits for another writer can be interrupted, and keeps nobody waiting who comes after."""
    command = [sys.executable, "-c", PRELUDE + place, str(tmp_path / "s.db")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=15)
    assert done.returncode == 0, done.stderr
    with clew.open(tmp_path / "s.db") as store:
        texts = [node.text for node in store.sessions.latest().path()]
    assert "after" in texts
    assert texts.count("interrupted") <= 1
    assert len(texts) == 4


def test_a_storm_of_interrupts_keeps_nobody_waiting(tmp_path: Path) -> None:
    """The main thread is interrupted again and again as it writes beside others: they go on, and lose nothing."""
    command = [sys.executable, os.path.join(os.path.dirname(__file__), "storm.py"), str(tmp_path / "s.db")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0, "the interrupt never struck"


def test_nobody_believes_what_an_interrupted_leader_undid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shared commit fails, and its leader is interrupted while it looks what is there: each is told."""

    def fails(self: Writer, tx: SQLiteTx) -> None:
        self.suspect = True
        self.undo(tx)
        raise sqlite3.OperationalError("disk I/O error")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with clew.open(tmp_path / "s.db") as store:
        backend = Parts.of(store).engine.backend
        assert isinstance(backend, SQLiteBackend)
        jobs = [Job(lambda tx: "stored", lambda tx: None) for _ in range(3)]
        with monkeypatch.context() as patched:
            patched.setattr(Writer, "commit", fails)
            patched.setattr(Writer, "_settle_job", interrupted)
            with pytest.raises(KeyboardInterrupt):
                backend._committer.run(jobs)
        for job in jobs:
            with pytest.raises(Unavailable):
                job.outcome()


def test_an_interrupted_leader_tells_nobody_that_another_message_is_theirs(tmp_path: Path) -> None:
    """Whose save was never made, under an id that other content has, is not told that it is stored."""
    with clew.open(tmp_path / "s.db") as store:
        (taken,) = store.nodes.save(clew.user("what was there"))
        told: list[object] = []

        def interrupted(tx: object) -> None:
            raise KeyboardInterrupt

        def leads() -> None:
            try:
                Parts.of(store).engine.write(interrupted)
            except KeyboardInterrupt:
                told.append("interrupted")

        def follows() -> None:
            try:
                told.append(store.nodes.save(NewNode(clew.user("something else"), None, taken.id)))
            except Unavailable:
                told.append("not stored")

        threads = [threading.Thread(target=leads), threading.Thread(target=follows)]
        backend = Parts.of(store).engine.backend
        assert isinstance(backend, SQLiteBackend)
        with store.transaction():
            for count, thread in enumerate(threads, start=1):
                thread.start()
                while len(backend._committer._queue) < count:
                    time.sleep(0.001)
        for thread in threads:
            thread.join(10)
        assert sorted(told, key=str) == ["interrupted", "not stored"]


def test_a_lead_that_nobody_hands_on_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that was interrupted with the lead, and does other things since, keeps nobody waiting for ever."""
    monkeypatch.setattr(group_commit, "LEADER_CHECK", 0.05)
    committer = Committer(_finish, Timing("a store"))

    def interrupted() -> None:
        assert committer.take_lead()  # and is gone, without a word

    interrupted()
    job = Job(lambda tx: None)
    waiting = threading.Thread(target=committer.run, args=((job,),), daemon=True)
    waiting.start()
    waiting.join(10)
    assert job.done
    committer.enter()  # but who means to keep it does, wherever it is
    late = threading.Thread(target=committer.run, args=((job,),), daemon=True)
    late.start()
    late.join(0.3)
    assert late.is_alive()
    committer.leave()
    late.join(10)
    assert not late.is_alive()


def _finish(jobs: Sequence[Job]) -> None:
    for job in jobs:
        job.finish(None)
