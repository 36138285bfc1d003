"""A head that is kept elsewhere shows that the whole store was rolled back, and nothing else looks like it."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import clew
from clew import retention
from clew.retention import Policy
from clew.store.session import delete_session

KEY, OTHER = bytes(range(32)), bytes(range(32, 64))
DAY = 86_400_000_000


def rollbacks(store: clew.Store, head: str) -> list[str]:
    """What `verify` says of a head."""
    return [one.why for one in store.verify(since=head).damage if one.what == "head"]


def made(path: Path, key: bytes | None) -> None:
    with clew.open(path, key=key) as store:
        for number in range(3):
            session = store.sessions.create(title=f"{number}")
            session.append([clew.user("one"), clew.assistant("two"), clew.user("three")])


def appended(store: clew.Store) -> None:
    store.sessions.latest().append(clew.user("more"))


def renamed(store: clew.Store) -> None:
    store.sessions.latest().rename("another")


def logged(store: clew.Store) -> None:
    store.sessions.latest().log.append(b"entry")


def held(store: clew.Store) -> None:
    store.sessions.latest().hold()


def purged(store: clew.Store) -> None:
    store.sessions.purge(store.sessions.latest().id)


def deleted(store: clew.Store) -> None:
    delete_session(store.sessions.latest())


def rewound(store: clew.Store) -> None:
    session = store.sessions.latest()
    session.rewind(session.path()[0].id)


def compacted(store: clew.Store) -> None:
    store.sessions.latest().compact([clew.system("summary")])


def swept(store: clew.Store) -> None:
    retention.set_policy(store, Policy(days=7))
    retention.sweep(store, force=True)


def attached(store: clew.Store) -> None:
    store.sessions.latest().attach(b"file", mime_type="text/plain")


def emptied(store: clew.Store) -> None:
    store.sessions.purge(everything=True)


CHANGES = [appended, renamed, logged, held, purged, deleted, rewound, compacted, attached, emptied, swept]


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "sealed"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_rollback_shows(path: Path, tmp_path: Path, key: bytes | None, change: Callable[[clew.Store], None]) -> None:
    """After any change, the store is not older than a head of before; an earlier copy is older than a head of after."""
    made(path, key)
    old = tmp_path / "old.db"
    with clew.open(path, key=key) as store:
        store.backup(old)
    start = clew.engine.engine.wall_clock()
    clock = (lambda: start + 30 * DAY) if change is swept else clew.engine.engine.wall_clock
    with clew.open(path, key=key, clock=clock) as store:
        before = store.head()
        change(store)
        assert rollbacks(store, before) == []
        after = store.head()
        assert rollbacks(store, after) == []
    with clew.open(old, key=key) as store:
        assert rollbacks(store, before) == []
        assert rollbacks(store, after)


def test_key_changes_are_no_rollback(path: Path, tmp_path: Path) -> None:
    """Sealing, rotating and unsealing only move the head on; a copy of before each of them is older."""
    made(path, None)
    heads: list[tuple[str, Path, bytes | None]] = []

    def note(store: clew.Store, key: bytes | None) -> None:
        file = tmp_path / f"{len(heads)}.db"
        store.backup(file)
        heads.append((store.head(), file, key))

    with clew.open(path) as store:
        note(store, None)
        store.seal(KEY)
        note(store, KEY)
        store.rotate(OTHER, deep=True)
        note(store, OTHER)
        store.unseal()
        note(store, None)
        for head, _, _ in heads:
            assert rollbacks(store, head) == []
        last = store.head()
    for _, file, key in heads[:-1]:
        with clew.open(file, key=key) as store:
            assert rollbacks(store, last)


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "sealed"])
def test_a_rollback_that_has_grown_since_shows(path: Path, tmp_path: Path, key: bytes | None) -> None:
    """An earlier copy in which people went on, further than the head, is told by its messages."""
    made(path, key)
    old = tmp_path / "old.db"
    with clew.open(path, key=key) as store:
        store.backup(old)
        appended(store)
        head = store.head()
    with clew.open(old, key=key) as store:
        for _ in range(3):
            appended(store)
            renamed(store)
        assert any("written to since" in one for one in rollbacks(store, head))


def test_a_head_has_no_content(path: Path) -> None:
    """A head is one short line that begins with its version, and is the same until something changes."""
    with clew.open(path) as store:
        assert rollbacks(store, store.head()) == []
        session = store.sessions.create(title="canary")
        session.append(clew.user("canary"))
        head = store.head()
        assert head == store.head()
        assert head.startswith("clew-head-1.")
        assert len(head) < 200
        assert "canary" not in head
        assert session.id not in head


@pytest.mark.parametrize(
    "bad",
    ["", "x", "clew-head-1.", "clew-head-1.AAAA", "clew-head-1.é", "clew-head-2.AAAA", "clew-head-1." + "A" * 1999, 5],
)
def test_what_is_no_head(path: Path, bad: str) -> None:
    """A text that is not a head, or is not the whole of one, is refused before anything is read."""
    with clew.open(path) as store:
        with pytest.raises(clew.Invalid, match="head"):
            store.verify(since=bad)
        with pytest.raises(clew.Invalid, match="head"):
            store.verify(since=store.head()[:-1])


def test_a_head_of_another_store(path: Path, tmp_path: Path) -> None:
    """Another store in the place of the one that a head is of is reported."""
    with clew.open(path) as store, clew.open(tmp_path / "other.db") as other:
        assert "another store" in rollbacks(other, store.head())[0]


def test_counters_that_were_put_back(path: Path) -> None:
    """SQLite's counters, lowered by hand, are a rollback too."""
    made(path, KEY)
    with clew.open(path, key=KEY) as store:
        head = store.head()
    with closing(sqlite3.connect(path)) as conn, conn:
        conn.execute("DELETE FROM sqlite_sequence WHERE name = 'runs'")
    shutil.copy(path, f"{path}.copy")
    with clew.open(f"{path}.copy", key=KEY) as store:
        assert rollbacks(store, head)


@pytest.mark.parametrize("change", [appended, renamed, rewound, compacted])
def test_a_rollback_with_raised_counters_shows(
    path: Path, tmp_path: Path, change: Callable[[clew.Store], None]
) -> None:
    """An earlier copy whose counters were raised by hand, with a deletion planted, is told by its signed rows."""
    made(path, KEY)
    old = tmp_path / "old.db"
    with clew.open(path, key=KEY) as store:
        store.backup(old)
        change(store)
        head = store.head()
    with closing(sqlite3.connect(old)) as conn, conn:
        conn.execute("UPDATE epoch SET ord_floor = ord_floor + 100")
        conn.execute("INSERT INTO forgotten (number, low, high) VALUES (500, 900000000, 900000000)")
        conn.execute("UPDATE sqlite_sequence SET seq = seq + 100")
    with clew.open(old, key=KEY) as store:
        assert rollbacks(store, head)
