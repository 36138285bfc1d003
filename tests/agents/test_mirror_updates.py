"""A thread writes the mirror within a second: nothing waits for it, and nothing is forgotten."""

from __future__ import annotations

import threading
from pathlib import Path
from unittest.mock import patch

import pytest

import clew
from clew import agents
from clew.agents import Mirror
from clew.agents.mirror import PAUSE, Updates
from clew.agents.store import store_of
from clew.base import files
from clew.errors import Invalid, Unavailable
from tests.agents.conftest import place, until
from tests.agents.test_mirror import true_to, words_in
from tests.reliability.tools import output, python


def test_an_append_does_not_wait(mirrored: agents.SessionStore, root: Path) -> None:
    """While another process updates the mirror, messages are stored. Then they are written together."""
    session = mirrored.create(cwd="/src")
    file = place(mirrored, session) / "messages.jsonl"
    real, calls = Mirror.write_session, list[str]()

    def sync(self: Mirror, session_id: str, *, rewrite: bool = False) -> None:
        calls.append(session_id)
        real(self, session_id, rewrite=rewrite)

    assert mirrored.mirror is not None
    mirrored.mirror.updates.ended -= PAUSE  # so the thread begins at once
    with patch.object(Mirror, "write_session", sync):
        with files.lock(str(root / ".lock"), 1):
            for number in range(20):
                session.append_and_save(clew.user(f"message {number}"))
            assert file.read_bytes() == b""
        mirrored.flush()
    assert len(file.read_bytes().splitlines()) == 20
    assert 1 <= len(calls) <= 3
    true_to(mirrored, root)


def test_a_transaction_is_waited_for(mirrored: agents.SessionStore, root: Path) -> None:
    """Messages of a transaction are written after it, though the thread has run meanwhile."""
    first, second = mirrored.create(cwd="/src"), mirrored.create(cwd="/src")
    assert mirrored.mirror is not None
    with store_of(mirrored).transaction():
        first.append_and_save(clew.user("one"))
        assert mirrored.mirror.error is None  # which writes nothing in a transaction
    second.append_and_save(clew.user("two"))
    true_to(mirrored, root)


@pytest.mark.parametrize("beside", [False, True])
def test_a_transaction_is_followed(mirrored: agents.SessionStore, root: Path, beside: bool) -> None:
    """After a transaction its messages are in the mirror, also if another thread has updated it meanwhile."""
    first, second = mirrored.create(cwd="/src"), mirrored.create(cwd="/src")
    mirror = mirrored.mirror
    assert mirror is not None
    with store_of(mirrored).transaction():
        first.append_and_save(clew.user("one"))
        with store_of(mirrored).transaction():
            second.append_and_save(clew.user("two"))
        if beside:
            mirror.soon(second.id)
            other = threading.Thread(target=mirror.flush)
            other.start()
            other.join()
    assert mirror.error is None  # so the files are current
    assert (place(mirrored, first) / "messages.jsonl").read_bytes().count(b"\n") == 1
    true_to(mirrored, root)


def test_the_thread_writes_at_most_once_a_second(mirrored: agents.SessionStore, root: Path) -> None:
    """Without a flush the files follow: the first message soon, and all that come in the next second together."""
    session = mirrored.create(cwd="/src")
    file = place(mirrored, session) / "messages.jsonl"
    assert mirrored.mirror is not None
    mirrored.mirror.updates.ended -= PAUSE  # a second has passed
    session.append_and_save(clew.user("first"))
    until(lambda: file.read_bytes().count(b"\n") == 1)
    real, calls = Mirror.write_session, list[str]()

    def sync(self: Mirror, session_id: str, *, rewrite: bool = False) -> None:
        calls.append(session_id)
        real(self, session_id, rewrite=rewrite)

    with patch.object(Mirror, "write_session", sync):
        for number in range(30):
            session.append_and_save(clew.user(f"message {number}"))
        until(lambda: file.read_bytes().count(b"\n") == 31)
    assert len(calls) <= 2
    true_to(mirrored, root)


def test_closing_the_store_writes_the_mirror(path: Path, root: Path) -> None:
    """Sessions over a store that its program closes: the mirror has everything, though nobody closed the sessions."""
    with clew.open(path) as store:
        sessions = agents.SessionStore(store, mirror=root)
        session = sessions.create(cwd="/src")
        place(sessions, session)
        session.append_and_save(clew.user("one"))
        session.append_and_save(clew.user("two"))
    assert next(root.rglob("messages.jsonl")).read_bytes().count(b"\n") == 2


def test_an_update_that_is_due_again() -> None:
    """What is added while it is being updated is updated once more."""
    updates, calls = Updates(), list[str]()

    def step(name: str) -> None:
        calls.append(name)
        if len(calls) == 1:
            updates.add((step, name))

    updates.add((step, "x"))
    updates.run()
    assert calls == ["x", "x"]


@pytest.mark.parametrize("error", [Invalid("x"), ZeroDivisionError()])
def test_an_error_is_kept(error: Exception) -> None:
    """After any error the mirror does not count as current, and the update stays due: the next run tries it again."""
    updates, fail = Updates(), [True]

    def step(_: str) -> None:
        if fail:
            raise error

    updates.add((step, "x"))
    with pytest.raises(type(error)):
        updates.run()
    assert isinstance(updates.error, Invalid if isinstance(error, Invalid) else Unavailable)
    fail.clear()
    updates.run()
    assert updates.error is None


def test_a_purge_beside_the_thread(mirrored: agents.SessionStore, root: Path) -> None:
    """Words that are purged while they are being written are in no file afterwards."""
    for _ in range(10):
        session = mirrored.create(cwd="/src")
        session.append_and_save(clew.user("xylophone"))
        mirrored.delete(session.id)
        mirrored.flush()
        assert words_in(root) == []
    assert mirrored.mirror is not None and mirrored.mirror.error is None


UNCLOSED = """
import sys, threading, clew
from clew import agents
sessions = agents.open(sys.argv[1], mirror=sys.argv[2])
session = sessions.create(cwd="/src")
for number in range(5):
    session.append_and_save(clew.user(f"message {number}"))
"""

FORKED = """
import os, sys, clew
from clew import agents
with agents.open(sys.argv[1], mirror=sys.argv[2]) as sessions:
    session = sessions.create(cwd="/src")
    for number in range(5):
        session.append_and_save(clew.user(f"message {number}"))
        child = os.fork()
        if not child:
            error = sessions.mirror.error
            sessions.close()
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""


@pytest.mark.checklist("B20")
@pytest.mark.parametrize("program", [UNCLOSED, FORKED], ids=["unclosed", "forked"])
def test_a_program_that_ends(path: Path, root: Path, program: str) -> None:
    """At the end of a program the mirror is up to date, closed or not, and forked children neither wait nor write."""
    output(python(program, path, root))
    with agents.open(path, mirror=root) as sessions:
        assert len(next(root.rglob("messages.jsonl")).read_bytes().splitlines()) == 5
        true_to(sessions, root)
