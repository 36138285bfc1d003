"""clew's own export: everything goes out, and everything comes in again."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

import clew
from clew import checkpoints
from clew.exports import jsonl, restore

KEYS = [None, b"k" * 32]


@pytest.fixture(params=KEYS, ids=["plain", "sealed"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[clew.Store]:
    with clew.open(tmp_path / "one.db", key=request.param) as store:
        yield store


@pytest.fixture
def other(tmp_path: Path) -> Iterator[clew.Store]:
    with clew.open(tmp_path / "other.db", key=b"o" * 32) as store:
        yield store


def normal(lines: Iterator[bytes]) -> list[Any]:
    """The lines of an export without the numbers of trees and the time, which are the store's own."""
    trees: dict[int, int] = {}
    found = []
    for line in lines:
        fields = msgspec.json.decode(line)
        if fields["type"] == "export":
            continue
        if "tree" in fields:
            fields["tree"] = trees.setdefault(fields["tree"], len(trees))
        found.append(fields)
    return found


def content(store: clew.Store) -> list[Any]:
    """What a store exports, in an order that does not depend on where its rows are."""
    return sorted(msgspec.json.encode({**line, "tree": None}) for line in normal(jsonl(store)))


def fill(store: clew.Store, folder: Path) -> clew.Session:
    """A store with a bit of everything."""
    session = store.sessions.create(title="One", cwd="/src/app", labels=["a", "b"], extra={"x": [1]})
    picture = session.attach(io.BytesIO(b"\x89PNG" * 300_000), mime_type="image/png", modality="image", name="e.png")
    first = session.append(clew.user("Hello", picture), created_at=datetime(2026, 1, 2, tzinfo=UTC))
    session.append(clew.native("claude", b'{"role":"assistant","content":"Hi \xc3\xa9"}', extra={"k": 1}))
    session.append(clew.user("Again"))
    session.rewind(first.id)
    session.append(clew.assistant("Other", model="m"))
    session.compact(clew.user("Summary"))
    session.append(clew.assistant("On"))
    session.log.append([b"\x01{}", b"\xff\xfe"])
    fork = session.fork(at=first.id, title="Fork")
    fork.append(clew.user("In the fork"))
    store.sessions.create(title="Trace", agent="search", owner=session).append(clew.user("Find"))
    store.sessions.create(title="Empty").hold("why")
    gone = store.sessions.create(title="Trashed")
    gone.append(clew.user("Old"))
    store.sessions.trash(gone.id)
    store.nodes.save([clew.user("Loose"), clew.assistant("Yes")])
    (folder / "f.txt").write_text("before")
    with checkpoints.Checkpoints(session, folder).guard(session.head_id or ""):
        (folder / "f.txt").write_text("after")
    return session


def test_a_store_comes_back_as_it_was(store: clew.Store, other: clew.Store, tmp_path: Path) -> None:
    """Messages, branches, forks, logs, attachments, checkpoints: all of it, under the same ids."""
    work = tmp_path / "work"
    work.mkdir()
    session = fill(store, work)
    lines = list(jsonl(store))
    done = restore(other, lines)
    assert done.complete
    assert (done.messages, done.known) == (sum(b'"type":"node"' in line for line in lines), 0)
    assert content(other) == content(store)
    assert other.verify().damage == []
    again = other.sessions.get(session.id)
    assert [node.text for node in again.history()] == [node.text for node in session.history()]
    assert (again.title, again.labels, again.updated_at) == (session.title, session.labels, session.updated_at)
    assert again.counters == session.counters
    assert [one.id for one in other.sessions.list()] == [one.id for one in store.sessions.list()]
    assert other.sessions.latest("/src/app").id == store.sessions.latest("/src/app").id
    done_files = checkpoints.Checkpoints(again, work).rewind(session.head_id or "")
    assert (work / "f.txt").read_text() == "before", done_files
    held = next(one.id for one in other.sessions.list() if one.held)
    assert [failure.session for failure in other.sessions.purge(held).failures] == [held]


def test_again_nothing_is_new(store: clew.Store, other: clew.Store, tmp_path: Path) -> None:
    """Restored twice, a store is the same; so is one that has its own export restored."""
    fill(store, tmp_path)
    lines = list(jsonl(store))
    restore(other, lines)
    before = content(other)
    done = restore(other, lines)
    assert (done.messages, done.sessions) == (0, 0)
    assert content(other) == before
    same = content(store)
    restore(store, lines)
    assert content(store) == same


def test_one_session_without_the_others(store: clew.Store, other: clew.Store, tmp_path: Path) -> None:
    """An export of a session has its messages, branches and traces, and nothing of its forks."""
    session = fill(store, tmp_path)
    restore(other, jsonl(store, [session]))
    assert [one.id for one in other.sessions.list()] == [session.id]
    again = other.sessions.get(session.id)
    assert [node.id for node in again.history()] == [node.id for node in session.history()]
    assert [branch.head_id for branch in again.branches()] == [branch.head_id for branch in session.branches()]
    assert [trace.agent for trace in again.subagents()] == ["search"]
    assert not any(node.text == "In the fork" for node in other.nodes.list().all())


@pytest.mark.parametrize("cut", [1, 2, 5, 9])
def test_a_file_that_was_cut_off(store: clew.Store, other: clew.Store, tmp_path: Path, cut: int) -> None:
    """A file without its end says so; restored again from the whole file, everything is there."""
    fill(store, tmp_path)
    lines = list(jsonl(store))
    assert not restore(other, [*lines[:-cut], lines[-cut][:-3]]).complete
    restore(other, lines)
    assert {node.id for node in other.nodes.list().all()} == {node.id for node in store.nodes.list().all()}


REF = {"type": "ref", "id": "01890a5d-ac96-774b-bcce-b302099a8057", "version": 1, "created_at": 1, "active_at": 1}
BAD = [
    b"{",
    b'{"type":"other"}',
    b'{"type":"node","tree":7,"id":"x","at":1}',
    b'{"type":"blob","tree":1,"data":"%"}',
    msgspec.json.encode({**REF, "kind": "audit", "rank": 1, "data": "x"}),
]


@pytest.mark.parametrize("line", BAD)
def test_bad_lines_are_named(other: clew.Store, line: bytes) -> None:
    """A line that is not an export's is an error that says which."""
    with pytest.raises(clew.Invalid):
        restore(other, [b'{"type":"export","version":1,"at":1}\n', line + b"\n"])


def test_another_message_under_the_same_id(store: clew.Store, other: clew.Store) -> None:
    """A message is never replaced by another one that has its id."""
    node = store.sessions.create().append(clew.user("One"))
    other.sessions.create().append(clew.user("Two"), id=node.id)
    with pytest.raises(clew.Conflict):
        restore(other, jsonl(store))
    assert other.nodes.get(node.id)[0].text == "Two"


def test_a_damaged_message_is_marked(tmp_path: Path) -> None:
    """A message that cannot be read is named, and the ones after it are exported."""
    with clew.open(tmp_path / "s.db") as store:
        session = store.sessions.create()
        session.append([clew.user(f"Message {n}") for n in range(5)])
        bad = session.path()[2]
    data = (tmp_path / "s.db").read_bytes()
    (tmp_path / "s.db").write_bytes(data.replace(b"Message 2", b"Massage 2"))
    damaged: list[str] = []
    with clew.open(tmp_path / "s.db") as store, clew.open(tmp_path / "t.db") as other:
        restore(other, jsonl(store, damaged=damaged))
        assert damaged == [bad.id]
        assert [node.text for node in other.sessions.get(session.id).path()][3:] == ["Message 3", "Message 4"]


@pytest.mark.parametrize("seed", range(6))
def test_any_history(tmp_path: Path, seed: int) -> None:
    """Random appends, forks, rewinds, compactions, deletions and saves come back as they were."""
    dice = random.Random(seed)
    with clew.open(tmp_path / "a.db") as store, clew.open(tmp_path / "b.db") as other:
        for step in range(60):
            sessions = list(store.sessions.list().all())
            one = dice.choice(sessions) if sessions else store.sessions.create()
            path = one.path()
            match dice.randrange(8):
                case 0:
                    store.sessions.create(title=f"S{step}")
                case 1 if path:
                    one.fork(at=dice.choice(path).id)
                case 2 if path:
                    one.rewind(dice.choice(path).id)
                case 3 if path:
                    one.compact(clew.user(f"Summary {step}"))
                case 4 if len(sessions) > 3:
                    store.sessions.purge(one.id)
                case 5:
                    parent = dice.choice(path).id if path else None
                    store.nodes.save([clew.user(f"Saved {step}"), clew.assistant("x")], parent=parent)
                case _:
                    one.append([clew.user(f"M{step}.{n}") for n in range(dice.randrange(1, 4))])
        restore(other, jsonl(store))
        assert content(other) == content(store)
        assert other.verify().damage == []
