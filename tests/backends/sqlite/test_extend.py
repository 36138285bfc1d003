"""An append that reads nothing, because its connection knows that nothing was written since the last one."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import clew
from clew.backends.sqlite import SQLiteBackend, writer
from clew.backends.sqlite.writer import Writer
from clew.store.parts import Parts
from clew.store.session import Session, delete_session
from clew.store.store import Store
from clew.testing import FakeClock, SequentialIds

Dump = list[tuple[object, ...]]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["one", "one", "one", "one", "several", "undone", "rewind", "fork", "rename", "delete", "other"]
        ),
        st.integers(0, 2),
        st.sampled_from(["user", "assistant"]),
    ),
    min_size=5,
    max_size=40,
)


@pytest.fixture
def extended() -> Iterator[list[bool]]:
    """What each call of `extend` returned."""
    found: list[bool] = []
    real = SQLiteBackend.extend

    def extend(self: SQLiteBackend, *given: object) -> bool:
        found.append(real(self, *given))  # type: ignore[arg-type]
        return found[-1]

    with patch.object(SQLiteBackend, "extend", extend):
        yield found


def warm(session: Session, extended: list[bool]) -> None:
    """Appends until an append reads nothing."""
    for number in range(4):
        session.append(clew.user(f"warm {number}"))
    assert extended[-1]
    extended.clear()


def test_appends_in_a_row(store: Store, extended: list[bool], sound: Callable[[Store], None]) -> None:
    """From the fourth message on, appends to one session read nothing."""
    session = store.sessions.create()
    for number in range(6):
        session.append(clew.user(f"message {number}"))
    assert extended == [True, True, True]
    assert [node.text for node in session.path()] == [f"message {number}" for number in range(6)]
    sound(store)


def test_another_connection_appends(store: Store, path: Path, extended: list[bool]) -> None:
    """After an append of another process to another session, an append moves its own session to the top again."""
    mine, theirs = store.sessions.create(), store.sessions.create()
    warm(mine, extended)
    with clew.open(path) as other:
        other.sessions.get(theirs.id).append(clew.user("theirs"))
    assert [session.id for session in store.sessions.list()] == [theirs.id, mine.id]
    mine.append(clew.user("mine"))
    assert extended == [False]
    assert [session.id for session in store.sessions.list()] == [mine.id, theirs.id]


def test_the_same_connection_creates_a_session(store: Store, extended: list[bool]) -> None:
    """After a new session was created, an append moves its own session to the top again."""
    mine = store.sessions.create()
    warm(mine, extended)
    new = store.sessions.create()
    assert [session.id for session in store.sessions.list()] == [new.id, mine.id]
    mine.append(clew.user("mine"))
    assert True not in extended
    assert [session.id for session in store.sessions.list()] == [mine.id, new.id]


def test_connections_that_take_turns(store: Store, path: Path, extended: list[bool]) -> None:
    """While another process writes after each append, no append tries to do without a read."""
    mine, theirs = store.sessions.create(), store.sessions.create()
    warm(mine, extended)
    with clew.open(path) as other:
        for number in range(5):
            other.sessions.get(theirs.id).append(clew.user(f"theirs {number}"))
            mine.append(clew.user(f"mine {number}"))
    assert extended == [False]


def test_another_connection_closes_the_run(
    store: Store, path: Path, extended: list[bool], sound: Callable[[Store], None]
) -> None:
    """A position that another process used and deleted is not used again."""
    session = store.sessions.create()
    warm(session, extended)
    with clew.open(path) as other:
        fork = other.sessions.get(session.id).fork()
        fork.append(clew.user("in the same run"))
        delete_session(fork)
    session.append(clew.user("in another"))
    assert extended == [False]
    with closing(sqlite3.connect(path)) as conn:
        assert conn.execute("SELECT run, closed FROM runs").fetchall() == [(1, 1), (2, 0)]
    sound(store)


def test_the_same_connection_uses_the_position(
    store: Store, extended: list[bool], sound: Callable[[Store], None]
) -> None:
    """A message that a snapshot stored after the session's last one stays, and the session continues beside it."""
    session = store.sessions.create()
    for number in range(4):
        session.append(clew.native("openai", b'{"role":"user","content":"%d"}' % number))
    assert extended.pop()
    snapshot = store.snapshots.take(session)
    longer = snapshot.messages.removesuffix(b"]") + b',{"role":"user","content":"longer"}]'
    store.snapshots.save(snapshot.replace(messages=longer))
    extended.clear()
    session.append(clew.user("beside"))
    assert extended == [False]
    assert [node.text for node in session.path()] == ["0", "1", "2", "3", "beside"]
    assert len(store.snapshots.load(snapshot.id).parts) == 5
    sound(store)


def test_another_connection_seals(path: Path, extended: list[bool]) -> None:
    """After another process sealed the store, nothing is appended in clear text."""
    key = clew.keys.generate()
    with clew.open(path) as store:
        session = store.sessions.create()
        warm(session, extended)
        with clew.open(path) as other:
            other.seal(key)
        with pytest.raises(clew.Sealed):
            session.append(clew.user("in clear text"))
        assert extended == [False]


def test_an_append_that_was_undone(store: Store, extended: list[bool], sound: Callable[[Store], None]) -> None:
    """After a rollback, an append follows the last stored message."""
    session = store.sessions.create()
    warm(session, extended)
    with pytest.raises(ZeroDivisionError), store.transaction():
        session.append(clew.user("undone"))
        raise ZeroDivisionError
    session.append(clew.user("stored"))
    with store.transaction():
        session.append(clew.user("first"))
        with pytest.raises(ZeroDivisionError), store.transaction():
            session.append(clew.user("undone"))
            raise ZeroDivisionError
        session.append(clew.user("second"))
    assert [node.text for node in session.path(last=3)] == ["stored", "first", "second"]
    sound(store)


def test_an_id_that_is_taken(store: Store, extended: list[bool], sound: Callable[[Store], None]) -> None:
    """A repeated append returns the stored message, and another message with its id is refused."""
    session = store.sessions.create()
    warm(session, extended)
    node = session.append(clew.user("once"))
    assert extended == [True]
    assert session.append(clew.user("once"), id=node.id) == node
    with pytest.raises(clew.Conflict):
        session.append(clew.user("another"), id=node.id)
    assert len(session.path()) == 5
    sound(store)


def test_a_log_that_goes_before_the_commit(store: Store, path: Path, extended: list[bool]) -> None:
    """If the log is moved after an append has begun, the append is not acknowledged."""
    session = store.sessions.create()
    warm(session, extended)
    log, away = path.with_name(f"{path.name}-wal"), path.with_name("away")
    clock = Parts.of(store).engine.clock

    def move_log() -> int:
        log.rename(away)
        return clock()

    with patch.object(Parts.of(store).engine, "clock", move_log), patch.object(writer, "RECHECK", 60):
        with pytest.raises(clew.Unavailable, match="-wal was moved, deleted or replaced"):
            session.append(clew.user("not acknowledged"), created_at=datetime.now(UTC))
    assert extended == []
    away.rename(log)
    session.append(clew.user("back"))


@pytest.mark.parametrize("stored", [False, True])
def test_a_commit_that_fails(store: Store, extended: list[bool], stored: bool, sound: Callable[[Store], None]) -> None:
    """If the outcome of a commit is unknown, the message is stored once, and only after the log is on the disk."""
    session = store.sessions.create()
    warm(session, extended)
    tx = store_writer(store).tx
    assert tx is not None
    run = tx.run_sql

    def fail(sql: str, *values: object) -> object:
        if sql == "COMMIT":
            if stored:
                run(sql)
            raise sqlite3.OperationalError("disk I/O error")
        return run(sql, *values)

    tx.run_sql = fail
    session.append(clew.user("once"))
    assert extended == [False]
    assert store_writer(store).tx is not tx  # so the log was checkpointed: see `Writer._reconnect`
    assert [node.text for node in session.path(last=2)] == ["warm 3", "once"]
    sound(store)


def store_writer(store: Store) -> Writer:
    """The writer of a store in a file."""
    backend = Parts.of(store).engine.backend
    assert isinstance(backend, SQLiteBackend)
    return backend.writer


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, st.booleans())
def test_the_same_bytes(steps: list[tuple[str, int, str]], sealed: bool) -> None:
    """Whatever else is written in between, appends that read nothing store the same bytes as those that read."""
    key = b"k" * 32 if sealed else None
    with tempfile.TemporaryDirectory(prefix="clew-extend-") as made:
        first, second = Path(made, "first.db"), Path(made, "second.db")
        with clew.open(first, key=key, ids=SequentialIds(), clock=FakeClock(tick=7)) as store:
            for _ in range(3):
                store.sessions.create().append(clew.user("begin"))
        shutil.copy(first, second)
        assert run(first, key, steps) or not any(map(follows, *(steps[skip:] for skip in range(4))))
        with patch.object(SQLiteBackend, "extendable", 0):
            assert not run(second, key, steps)
        assert dump(first) == dump(second)


def follows(*steps: tuple[str, int, str]) -> bool:
    """True for four appends to one session: the last one reads nothing."""
    return {step[:2] for step in steps} == {("one", steps[0][1])}


def run(path: Path, key: bytes | None, steps: list[tuple[str, int, str]]) -> int:
    """Takes all steps on a store. Returns how many appends read nothing.

    Time and random bytes depend on the step alone, because an attempt that fails uses them as well.
    """
    ids, clock, done = SequentialIds(1000), FakeClock(1_700_000_001_000_000), 0
    real = SQLiteBackend.extend

    def extend(self: SQLiteBackend, *given: object) -> bool:
        nonlocal done
        stored = real(self, *given)  # type: ignore[arg-type]
        done += stored
        return stored

    def random(size: int) -> bytes:
        return (clock.now % 251).to_bytes() * size

    opened = partial(clew.open, path, key=key, ids=ids, clock=clock)
    counted, known = patch.object(SQLiteBackend, "extend", extend), patch("os.urandom", random)
    with opened() as store, opened() as other, counted, known:
        sessions = sorted(store.sessions.list(), key=lambda session: session.id)
        for number, (step, which, role) in enumerate(steps):
            session = sessions[which]
            clock.advance(7)
            said = (
                clew.user(f"{number}")
                if role == "user"
                else clew.assistant(f"{number}", usage=clew.Usage(input=1, output=2))
            )
            match step:
                case "one":
                    session.append(said)
                case "several":
                    session.append([said, clew.user("and")])
                case "undone":
                    with pytest.raises(ZeroDivisionError), store.transaction():
                        session.append(said)
                        raise ZeroDivisionError
                case "rewind":
                    session.rewind(session.path()[0].id)
                case "fork":
                    session.fork().append(said)
                case "rename":
                    session.rename(f"title {number}")
                case "delete":
                    fork = session.fork()
                    fork.append(said)
                    delete_session(fork)
                case "other":
                    other.sessions.get(session.id).append(said)
        assert store.verify().ok
    return done


def dump(path: Path) -> dict[str, Dump]:
    """Every row of a closed store."""
    with closing(sqlite3.connect(path)) as conn:
        tables = [name for (name,) in conn.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {table: conn.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in tables}
