"""Ways to harm a store that worked once, kept from coming back."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

import clew
from clew.backends.sqlite.writer import RECHECK
from clew.store.session import delete_session


def test_log_of_a_session_deleted_meanwhile(path: Path) -> None:
    """An entry that waited while its session was deleted is refused, and leaves nothing behind."""
    with clew.open(path, durability="relaxed") as store:
        session = store.sessions.create()
        began, outcome = threading.Event(), list[BaseException]()

        def late() -> None:
            began.wait()
            with pytest.raises(clew.NotFound) as caught:
                session.log.append(b"late")
            outcome.append(caught.value)

        thread = threading.Thread(target=late)
        thread.start()
        with store.transaction():
            delete_session(session)
            began.set()
            time.sleep(0.2)
        thread.join()
        assert outcome
        assert store.verify().ok


def test_blob_of_a_session_deleted_meanwhile(path: Path) -> None:
    """A blob whose session is deleted while it streams in is refused, and none of its pieces stays."""
    with clew.open(path, durability="relaxed") as store:
        session = store.sessions.create()

        def source() -> Iterator[bytes]:
            for number in range(40):
                yield os.urandom(256 * 1024)
                if number == 20:
                    delete_session(session)

        with pytest.raises(clew.NotFound):
            session.blobs.put(source())
        report = store.verify()
        assert report.ok
        assert report.counts["chunks"] == 0


def test_delete_what_a_summary_stands_for_with_its_end(path: Path) -> None:
    """The end of a compaction and the message it stands for go together in one call."""
    with clew.open(path, durability="relaxed") as store:
        session = store.sessions.create()
        first = session.append([clew.user("one"), clew.user("two")])
        after = session.compact([clew.system("summary"), clew.user("three")])
        assert store.nodes.delete([first[1].id, after[1].id]).messages == 2
        assert [node.text for node in session.history()] == ["one", "summary"]
        assert store.verify().ok


@pytest.mark.parametrize(("year", "hours"), [(1, 14), (9999, -12)])
def test_time_beyond_the_calendar(path: Path, year: int, hours: int) -> None:
    """A time that UTC cannot name is refused: stored, it would keep every listing from being read."""
    edge = datetime.min if year == 1 else datetime.max
    with clew.open(path, durability="relaxed") as store:
        session = store.sessions.create()
        with pytest.raises(clew.Invalid):
            session.append(clew.user("x"), created_at=edge.replace(tzinfo=timezone(timedelta(hours=hours))))
        assert session.path() == []
        assert session.append(clew.user("x"), created_at=edge.replace(tzinfo=UTC)).created_at.year == year


def test_path_with_two_slashes(path: Path) -> None:
    """A path may begin with two slashes."""
    with clew.open(f"/{path}") as store:
        store.sessions.create()
    with clew.open(path) as store:
        assert len(store.sessions.list().items) == 1


def test_role_that_cannot_be_hashed() -> None:
    """A role of any type is refused with a typed error."""
    with clew.open(":memory:") as store, pytest.raises(clew.Invalid):
        store.sessions.create().append(clew.Message(role=[], blocks=(clew.Text(text="x"),)))  # type: ignore[arg-type]


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams(path: Path, closed: str) -> None:
    """A command whose streams were closed before it began ends as with empty ones."""
    command = f'echo \'{{"text": "x"}}\' | {{ "{sys.executable}" -m clew --db "{path}" append {closed}; }}'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "bug" not in done.stderr


def test_a_program_that_changes_its_folder_stays_with_its_store(tmp_path, monkeypatch):
    """A store opened by a relative path is written where it was opened, not where the program is by then."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        clew.open(tmp_path / name / "s.db").close()
    monkeypatch.chdir(tmp_path / "one")
    with clew.open("s.db") as store:
        monkeypatch.chdir(tmp_path / "two")
        session = store.sessions.create()
        session.append(clew.user("here"))
        assert len(store.search("here")) == 1
    with clew.open(tmp_path / "two" / "s.db") as other:
        assert other.sessions.list().items == []
        assert other.verify().ok
    with clew.open(tmp_path / "one" / "s.db") as store:
        assert [node.text for node in store.sessions.get(session.id).path()] == ["here"]


def test_a_file_put_in_the_stores_place_is_not_written(tmp_path):
    """If another store has taken the path before the first write, nothing is written to it."""
    path = tmp_path / "s.db"
    clew.open(path).close()
    clew.open(tmp_path / "other.db").close()
    with clew.open(path) as store:
        os.replace(tmp_path / "other.db", path)
        with pytest.raises(clew.Unavailable, match="replaced"):
            store.sessions.create()
    with clew.open(path) as other:
        assert other.verify().ok


def test_another_store_in_the_same_file_is_not_written(tmp_path):
    """It may have been copied over the one that was opened; nothing was written yet, so nothing is mixed."""
    path, other = tmp_path / "s.db", tmp_path / "other.db"
    clew.open(path).close()
    clew.open(other).close()
    with clew.open(path) as store:
        path.write_bytes(other.read_bytes())
        with pytest.raises(clew.Unavailable, match="another store"):
            store.sessions.create()


@pytest.mark.parametrize("how", ["gone", "replaced"])
def test_nothing_is_acknowledged_in_a_file_that_is_not_in_its_place(tmp_path, how):
    """Who writes is told; once the file is back, the same store goes on with all that was said."""
    path, away = tmp_path / "s.db", tmp_path / "away.db"
    with clew.open(path) as store:
        session = store.sessions.create()
        session.append(clew.user("before"))
        os.link(path, away)
        path.unlink()
        if how == "replaced":
            path.write_bytes(away.read_bytes())
        time.sleep(2 * RECHECK)
        for _ in range(2):
            with pytest.raises(clew.Unavailable, match="moved, deleted or replaced"):
                session.append(clew.user("lost"))
            with pytest.raises(clew.Unavailable, match="moved, deleted or replaced"), store.transaction():
                session.rename("lost")
        os.replace(away, path)
        session.append(clew.user("after"))
    with clew.open(path) as store:
        assert [node.text for node in store.sessions.get(session.id).path()] == ["before", "after"]
        assert store.verify().ok


def test_a_signal_handler_that_writes_is_refused(tmp_path):
    """A handler that appends in the middle of an append is told so; neither store nor thread is harmed."""
    with clew.open(tmp_path / "s.db") as store:
        session, other = store.sessions.create(), store.sessions.create()
        outcomes: list[str] = []

        def handler(*_: object) -> None:
            try:
                other.append(clew.user("from the handler"))
                outcomes.append("stored")
            except clew.Unavailable:
                outcomes.append("refused")

        before = signal.signal(signal.SIGALRM, handler)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.0007, 0.0007)
            stored = 0
            while outcomes.count("refused") < 3 and stored < 5000:
                session.append(clew.user("from the program"))
                stored += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert "refused" in outcomes
        assert len(session.path()) == stored
        assert len(other.path()) == outcomes.count("stored")
        assert store.verify().ok


def test_closing_a_store_in_memory_while_it_is_read(tmp_path):
    """Readers of a store in memory that is closed meanwhile are told so."""
    store = clew.open(":memory:")
    session = store.sessions.create()
    session.append([clew.user("x") for _ in range(200)])
    told: list[type] = []

    def read() -> None:
        try:
            while True:
                session.path()
        except Exception as error:
            told.append(type(error))

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    store.close()
    for thread in threads:
        thread.join()
    assert told == [clew.Closed] * 3


@pytest.mark.parametrize("where", ["file", "memory"])
def test_no_search_inside_a_transaction(tmp_path, where):
    """A search inside a transaction is refused: the index must not learn what may yet be undone."""
    with clew.open(tmp_path / "s.db" if where == "file" else ":memory:") as store:
        session = store.sessions.create()
        session.append(clew.user("apple"))
        assert len(store.search("apple")) == 1
        with pytest.raises(ZeroDivisionError), store.transaction():
            session.append([clew.user(f"apple {n}") for n in range(5)])
            with pytest.raises(clew.Invalid, match="inside a transaction"):
                store.search("apple")
            raise ZeroDivisionError
        session.append([clew.user("pear") for _ in range(3)])
        assert len(store.search("pear")) == 3
        assert store.verify().ok


def test_an_error_of_the_callers_keeps_its_type(tmp_path):
    """What the caller's own code raises inside a transaction comes out as it is."""
    with clew.open(tmp_path / "s.db") as store:
        for error in (
            UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
            sqlite3.OperationalError("mine"),
            KeyError("x"),
        ):
            with pytest.raises(type(error)) as caught, store.transaction():
                raise error
            assert caught.value is error


def test_a_transaction_inside_a_transaction(tmp_path):
    """An inner transaction that fails is undone alone; one that succeeds is kept only if the outer one is."""
    with clew.open(tmp_path / "s.db") as store:
        session = store.sessions.create()
        with store.transaction():
            session.append(clew.user("outer"))
            with pytest.raises(KeyError), store.transaction():
                session.append(clew.user("undone"))
                raise KeyError
            with store.transaction():
                session.append(clew.user("inner"))
        assert [node.text for node in session.path()] == ["outer", "inner"]
        with pytest.raises(KeyError), store.transaction():
            with store.transaction():
                session.append(clew.user("undone too"))
            raise KeyError
        assert [node.text for node in session.path()] == ["outer", "inner"]
        assert store.verify().ok


def test_searching_a_path_of_many_bends(tmp_path):
    """A session that was rewound a thousand times can still be searched, and long queries end."""
    with clew.open(tmp_path / "s.db", durability="relaxed") as store:
        session = store.sessions.create()
        with store.transaction():
            for number in range(1000):
                node = session.append(clew.user(f"word {number}"))
                session.append(clew.user("left"))
                session.rewind(to=node.id)
        assert len(store.search("word", session=session, limit=2000)) == 1000
        assert store.search("a " * 50_000) == []
        assert store.search(" ".join(map(str, range(3000))), mode="substring") == []


def test_workspaces_do_not_see_each_others_messages(tmp_path):
    """A message of another workspace cannot be read, listed, deleted or built upon, even by its id."""
    with clew.open(tmp_path / "s.db", workspace="a") as a, clew.open(tmp_path / "s.db", workspace="b") as b:
        node = a.sessions.create().append(clew.user("secret"))
        b.sessions.create().append(clew.user("mine"))
        assert [found.text for found in b.nodes.list().items] == ["mine"]
        assert [found.text for found in a.nodes.list(ascending=True).items] == ["secret"]
        for ask in (b.nodes.get, b.nodes.path, b.nodes.children, b.nodes.subtree, b.nodes.resolve):
            with pytest.raises(clew.NotFound):
                ask(node.id)
        with pytest.raises(clew.NotFound):
            b.nodes.save(clew.user("under it"), parent=node.id)
        assert b.nodes.delete(node.id, recursive=True).messages == 0
        assert a.nodes.get(node.id)[0].text == "secret"
