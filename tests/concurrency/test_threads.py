"""Threads that share one store: nothing lost, and a bad append fails alone."""

from __future__ import annotations

import signal
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

import clew
from clew.backends import Job
from clew.backends.sqlite import SQLiteBackend, group_commit
from clew.backends.sqlite.group_commit import Committer
from clew.backends.timing import Timing
from clew.errors import Closed, Conflict, NotFound
from clew.store.parts import Parts
from clew.store.session import delete_session
from tests.concurrency.interrupts import Interrupt

CREW = "crew"


def test_eight_threads_lose_nothing(tmp_path: Path) -> None:
    """Eight threads append to one session through one store: each message once, in its thread's order."""
    with clew.open(tmp_path / "s.db") as store:
        session = store.sessions.create()
        begin = threading.Barrier(8)

        def talk(thread: int) -> list[str]:
            mine = store.sessions.get(session.id)
            begin.wait()
            return [mine.append(clew.user(f"{thread} {number}")).id for number in range(50)]

        with ThreadPoolExecutor(8) as pool:
            said = list(pool.map(talk, range(8)))
        stored = [node.id for node in session.path()]
        assert len(stored) == 400
        for ids in said:
            assert [id for id in stored if id in set(ids)] == ids
        assert store.verify().ok


def test_a_failing_append_fails_alone(tmp_path: Path) -> None:
    """In a shared commit one append hits a taken id or a session that is gone; its neighbours are kept."""
    with clew.open(tmp_path / "s.db") as store:
        session, doomed = store.sessions.create(), store.sessions.create()
        taken = str(uuid.uuid4())
        session.append(clew.user("first"), id=taken)
        gone = store.sessions.get(doomed.id)
        delete_session(doomed)
        begin = threading.Barrier(8)

        def talk(thread: int) -> int:
            begin.wait()
            kept = 0
            for number in range(30):
                if thread == 0:
                    with pytest.raises(Conflict):
                        session.append(clew.user(f"other words {number}"), id=taken)
                elif thread == 1:
                    with pytest.raises(NotFound):
                        gone.append(clew.user("lost"))
                else:
                    store.sessions.get(session.id).append(clew.user(f"{thread} {number}"))
                    kept += 1
            return kept

        with ThreadPoolExecutor(8) as pool:
            kept = sum(pool.map(talk, range(8)))
        assert kept == 180
        assert len(session.path()) == 181
        assert store.verify().ok


def test_appends_wait_together_behind_a_transaction(tmp_path: Path) -> None:
    """Appends that queue up behind a transaction, good and bad ones, end up in one commit, each with its own answer."""
    with clew.open(tmp_path / "s.db") as store:
        backend = Parts.of(store).engine.backend
        assert isinstance(backend, SQLiteBackend)
        session = store.sessions.create()
        taken = str(uuid.uuid4())
        session.append(clew.user("first"), id=taken)

        def talk(thread: int) -> str:
            try:
                return session_of(thread).append(clew.user(f"{thread}"), id=taken if thread % 3 == 0 else None).text
            except Conflict:
                return "conflict"

        def session_of(thread: int) -> clew.Session:
            return sessions[thread]

        sessions = [store.sessions.get(session.id) for _ in range(12)]
        with ThreadPoolExecutor(12) as pool:
            with store.transaction():
                waiting = [pool.submit(talk, thread) for thread in range(12)]
                while len(backend._committer._queue) < 12:
                    threading.Event().wait(0.01)
                session.append(clew.user("transaction"))
            answers = [one.result() for one in waiting]
        assert answers == ["conflict" if thread % 3 == 0 else f"{thread}" for thread in range(12)]
        stored = [node.text for node in session.path()]
        assert stored[:2] == ["first", "transaction"]
        assert sorted(stored[2:]) == sorted(str(thread) for thread in range(12) if thread % 3)


def test_closing_while_threads_write_and_read(tmp_path: Path) -> None:
    """A store closed under its users: each call either did what it says or raises Closed."""
    path = tmp_path / "s.db"
    for _ in range(10):
        store = clew.open(path)
        session = store.sessions.create()
        acked: list[list[str]] = [[] for _ in range(6)]

        def talk(thread: int) -> None:
            try:
                mine = store.sessions.get(session.id)
                while True:
                    if thread < 4:
                        acked[thread].append(mine.append(clew.user("word")).id)
                    else:
                        mine.path()
            except Closed:
                return

        pool = [threading.Thread(target=talk, args=(thread,)) for thread in range(6)]
        caught: list[object] = []
        hook, threading.excepthook = threading.excepthook, lambda args: caught.append(args.exc_value)
        try:
            for thread in pool:
                thread.start()
            while not all(acked[:4]):
                pass
            store.close()
            for thread in pool:
                thread.join(20)
        finally:
            threading.excepthook = hook
        assert not any(thread.is_alive() for thread in pool)
        assert caught == []
        with clew.open(path) as again:
            stored = {node.id for node in again.sessions.get(session.id).path()}
        assert {id for ids in acked for id in ids} <= stored
    # A connection that may write removes the WAL when it is the last one out: none was left open.
    conn = sqlite3.connect(path)
    conn.execute("SELECT count(*) FROM nodes").fetchone()
    conn.close()
    assert not Path(f"{path}-wal").exists()


def test_a_leader_interrupted_at_once_leaves_nobody_without_an_answer() -> None:
    """If the leader is interrupted before it has begun, those it was to write for are told to ask again."""

    def interrupted(jobs: object) -> None:
        raise KeyboardInterrupt

    committer = Committer(interrupted, Timing("a store"))
    job = Job(lambda tx: None)
    with pytest.raises(KeyboardInterrupt):
        committer.run((job,))
    with pytest.raises(clew.Unavailable):
        job.outcome()
    assert committer.take_lead()


def test_a_caller_interrupted_in_the_queue_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three callers share a commit, each woken by the one before it; wherever the second is interrupted, all return."""
    monkeypatch.setattr(group_commit, "LEADER_CHECK", 60)
    struck = 0
    for nth in range(1, 100):
        interrupt = Interrupt(nth)
        _share_a_commit(lambda run, strike=interrupt: _struck(run, strike))  # type: ignore[misc]
        if not interrupt.where:
            break
        struck += 1
    assert struck > 10, "the interrupt never struck"


def test_a_caller_interrupted_while_it_waits_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second of three that share a commit is interrupted by a signal while the commit is on its way."""
    monkeypatch.setattr(group_commit, "LEADER_CHECK", 60)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupted)
    try:
        with pytest.raises(KeyboardInterrupt):
            _share_a_commit(lambda run: run(), signalled=True)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_caller_in_a_signal_handler_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second of three that share a commit is to wake the third, and is in a handler that waits for all threads."""
    monkeypatch.setattr(group_commit, "LEADER_CHECK", 0.1)
    joined = []

    def ending(*_: object) -> None:
        for thread in threading.enumerate():
            if thread.name == CREW:
                thread.join(10)
                joined.append(not thread.is_alive())

    before = signal.signal(signal.SIGUSR1, ending)
    try:
        _share_a_commit(lambda run: run(), signalled=True)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert joined
    assert all(joined)


def _struck(run: Callable[[], None], interrupt: Interrupt) -> None:
    with suppress(KeyboardInterrupt), interrupt:
        run()


def _share_a_commit(second: Callable[[Callable[[], None]], None], *, signalled: bool = False) -> None:
    """Three callers wait behind a fourth, then share a commit; `second` makes the second one's call, in this thread."""
    waiting, queued = threading.Event(), threading.Event()
    me = threading.get_ident()

    def transact(jobs: Sequence[Job]) -> None:
        if not waiting.is_set():  # the fourth: it works until the others have queued up
            waiting.set()
            queued.wait(20)
        elif signalled and len(jobs) == 3:
            signal.pthread_kill(me, signal.SIGUSR1)
            time.sleep(0.05)
        for job in jobs:
            job.finish(None)

    committer = Committer(transact, Timing("a store"))

    def call() -> None:
        job = Job(lambda tx: None)
        committer.run((job,))
        assert job.done

    def late() -> None:
        """Comes third, and lets the fourth go on."""
        while len(committer._queue) < 2 and not over.is_set():
            time.sleep(0.001)
        threading.Timer(0.01, queued.set).start()
        call()

    over = threading.Event()
    crew = [threading.Thread(target=target, name=CREW, daemon=True) for target in (call, call, late)]
    crew[0].start()
    waiting.wait(20)
    crew[1].start()
    while not committer._queue:
        time.sleep(0.001)
    crew[2].start()
    try:
        second(call)
    finally:
        over.set()
        for thread in crew:
            thread.join(10)
        assert not any(thread.is_alive() for thread in crew)
        assert committer.take_lead()
