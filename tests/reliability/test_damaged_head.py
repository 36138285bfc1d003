"""P6: what is written after a damaged message."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import clew
from clew.records import RecordService
from clew.snapshots import Messages, new_snapshot
from clew.store.store import Store

KEY = bytes(range(32))
DAMAGE = {
    "body": "body = CAST(substr(body, 1, 20) || x'FF00FF00FF00' || substr(body, 27) AS BLOB)",
    "totals": "facts = CAST(substr(facts, 1, 20) || x'FF' || substr(facts, 22) AS BLOB)",
    "empty": "body = x''",
}


def spoil(path: Path, what: str, ord: int) -> None:
    """Damages the message with this number."""
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        assert conn.execute(f"UPDATE nodes SET {DAMAGE[what]} WHERE ord = ?", (ord,)).rowcount == 1


@pytest.fixture(params=["plain", "sealed"])
def opened(request: pytest.FixtureRequest, path: Path) -> Callable[[], Store]:
    """Opens the store."""
    return lambda: clew.open(path, key=KEY if request.param == "sealed" else None)


def said(opened: Callable[[], Store]) -> str:
    """The id of a session with three messages, in a store that is closed."""
    with opened() as store:
        session = store.sessions.create()
        session.append([clew.user(text) for text in ("one", "two", "three")])
        return session.id


def to_branch(store: Store, session: clew.Session) -> object:
    """Appends after the last message, from which the session has gone back."""
    damaged = session.branches()[0].head_id if session.branches() else session.head_id
    session.rewind(session.path()[1].id)
    return session.append(clew.user("four"), expect_head=damaged, on_conflict="branch")


def to_record(store: Store, session: clew.Session) -> object:
    """Adds a message to the session as a record."""
    privacy = {"containsSecrets": False, "redactionRulesApplied": []}
    four = {
        "frameId": "4", "sequence": 4, "role": "user", "content": "four", "createdAt": "2025-10-21T12:00:00Z",
        "privacy": privacy,
    }  # fmt: skip
    with RecordService(store) as service:
        return service.update(session.id, {"appendMessages": [four]})


WRITES: dict[str, Callable[[Store, clew.Session], object]] = {
    "append": lambda store, session: session.append(clew.user("four")),
    "compact": lambda store, session: session.compact(clew.system("summary")),
    "save": lambda store, session: store.nodes.save(clew.user("four"), parent=session.head_id),
    "branch": to_branch,
    "record": to_record,
}


@pytest.mark.parametrize("what", DAMAGE)
@pytest.mark.parametrize("write", WRITES)
def test_nothing_is_written_after_a_damaged_message(
    opened: Callable[[], Store], path: Path, write: str, what: str
) -> None:
    """A message takes over the totals of the one before it: if that is damaged nothing follows it, and it is named."""
    id = said(opened)
    spoil(path, what, 3)
    with opened() as store:
        session = store.sessions.get(id)
        head = session.head_id or ""
        for _ in range(2):
            with pytest.raises(clew.Corrupted) as told:
                WRITES[write](store, session)
            assert head in str(told.value)
        assert {damage.where for damage in store.verify().damage} == {f"node {head}"}


def test_a_snapshot_does_not_grow_after_a_damaged_message(opened: Callable[[], Store], path: Path) -> None:
    """Nor does a client's conversation that is saved again, whose stored messages are not read for that."""
    messages = Messages([b'{"role":"user","content":"one"}'])
    snapshot = new_snapshot(provider="openai", messages=messages)
    with opened() as store:
        store.snapshots.save(snapshot)
        spoil(path, "totals", 1)
        messages.append(b'{"role":"assistant","content":"two"}')
        with pytest.raises(clew.Corrupted):
            store.snapshots.save(new_snapshot(provider="openai", messages=messages).replace(id=snapshot.id))
        assert len(store.verify().damage) == 1


def test_damage_elsewhere_stops_nothing(opened: Callable[[], Store], path: Path) -> None:
    """A damaged message further up is no reason to lose what is said now; it stays named, and the rest sound."""
    id = said(opened)
    spoil(path, "body", 2)
    with opened() as store:
        session = store.sessions.get(id)
        session.append(clew.user("four"))
        assert [node.text for node in session.path(last=2)] == ["three", "four"]
        assert len(store.verify().damage) == 1


@pytest.mark.parametrize("way", ["rewind", "quarantine"])
def test_ways_on_from_a_damaged_message(opened: Callable[[], Store], path: Path, way: str) -> None:
    """Who goes back before it, or has it put in quarantine, goes on."""
    id = said(opened)
    spoil(path, "body", 3)
    with opened() as store:
        session = store.sessions.get(id)
        if way == "rewind":
            session.rewind(store.nodes.get(session.head_id or "")[0].parent_id)
        else:
            store.quarantine.sweep(force=True)
        session.append(clew.user("four"))
        assert session.path(last=1)[0].text == "four"
