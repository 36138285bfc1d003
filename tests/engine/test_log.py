"""Entries beside the tree."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import clew
from clew.engine.log import PAGE
from clew.store.session import delete_session
from clew.store.store import Store


def test_ranges(path: Path) -> None:
    """Entries are read from a number up to another, over pages, also when more come meanwhile."""
    with clew.open(path, durability="relaxed") as store:
        log = store.sessions.create().log
        count = PAGE * 2 + 3
        log.append([str(number).encode() for number in range(count)])
        reader = log.read()
        assert next(reader).data == b"0"
        log.append(b"late")
        assert [entry.number for entry in reader] == list(range(1, count + 1))
        assert [entry.data for entry in log.read(PAGE - 1, PAGE + 2)] == [str(PAGE + n).encode() for n in (-1, 0, 1)]
        assert list(log.read(count + 5)) == list(log.read(5, 5)) == list(log.read(5, 0)) == []
        assert list(log.read(1 << 24)) == list(log.read((1 << 24) + 1)) == []
        assert len(log) == count + 1


def test_any_bytes(store: Store) -> None:
    """An entry is bytes of any kind, with an id and a time, and comes back as it was."""
    log = store.sessions.create().log
    for data in (b"", b"\0\xff\n\r", b"x" * 100_000):
        (entry,) = log.append(data)
        assert list(log.read(entry.number)) == [entry]
        assert entry.data == data
        assert entry.created_at.tzinfo is not None


def test_bad_entries(path: Path, sound: Callable[[Store], None]) -> None:
    """What is not bytes, too large, or has not as many ids as entries is refused, and nothing is stored."""
    with clew.open(path, max_body=100) as store:
        log = store.sessions.create().log
        for data, name in (
            (b"x" * 101, None),
            ("text", None),
            ([b"a", "b"], None),
            ([b"a", b"b"], ["1"]),
            (b"a", "no id"),
        ):
            with pytest.raises(clew.Invalid):
                log.append(data, id=name)  # type: ignore[arg-type]
        assert len(log) == 0
        sound(store)


def test_logs_are_apart(store: Store) -> None:
    """Each session has its own log; an id is taken in all of them."""
    one, two = store.sessions.create(), store.sessions.create()
    name = "00000000-0000-4000-8000-000000000001"
    one.log.append(b"x", id=name)
    with pytest.raises(clew.Conflict):
        two.log.append(b"x", id=name)
    assert (len(one.log), len(two.log), one.path()) == (1, 0, [])
    delete_session(one)
    assert len(two.log) == 0
    two.log.append(b"x", id=name)
    with pytest.raises(clew.NotFound):
        one.log.read()


def test_the_store_reaches_the_log_of_any_session(tmp_path):
    """A log is written and read by session, id or handle."""
    with clew.open(tmp_path / "s.db") as store:
        session = store.sessions.create()
        store.log.append(session, b"one")
        store.log.append(session.handle, [b"two", b"three"])
        assert [entry.data for entry in store.log.read(session.id, 1)] == [b"two", b"three"]
        assert store.log.count(session) == len(session.log) == 3
        for bad in ({"start": "a"}, {"start": -1}, {"stop": "b"}):
            with pytest.raises(clew.Invalid):
                store.log.read(session, **bad)
