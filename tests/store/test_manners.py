"""What callers may pass and do: objects where ids are, texts as messages, sessions as iterables."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.errors import Conflict, Invalid


def open_session(path: Path) -> str:
    """Opens the session of one key, in a process of its own."""
    with clew.open(path) as store:
        return store.sessions.open("app", "alice").id


def test_a_node_stands_for_its_id() -> None:
    """Wherever the id of a message goes, the message itself does."""
    with clew.open(":memory:") as store:
        session = store.sessions.create()
        one, two, three = (session.append(text) for text in "123")
        assert [node.text for node in session.path(until=two)] == ["1", "2"]
        assert session.fork(at=two).head_id == store.sessions.create(at=two).head_id == two.id
        assert store.nodes.get(two)[0].id == store.nodes.get([two, one.id])[0].id == two.id
        assert [node.text for node in store.nodes.path(three, last=1)] == ["3"]
        assert [node.id for node in store.nodes.children(one)] == [two.id]
        assert next(iter(session.watch(after=two, timeout=5))).id == three.id
        assert session.append(clew.user("4"), expect_head=three).text == "4"
        with pytest.raises(Conflict):
            session.append(clew.user("5"), expect_head=three)
        session.rewind(one)
        assert session.refresh().head_id == one.id


def test_a_session_stands_for_its_id() -> None:
    """Wherever the id of a session goes, the session itself does."""
    with clew.open(":memory:") as store:
        session, other = store.sessions.create(title="t"), store.sessions.create()
        assert store.sessions.get(session).title == "t"
        assert store.sessions.hold(session).held
        assert not store.sessions.release(session).held
        assert store.sessions.delete(session).trashed_at is not None
        assert store.sessions.find_anywhere(session) == session
        assert store.sessions.restore(session).trashed_at is None
        assert session.delete().trashed_at is not None
        store.sessions.purge([session, other.id])
        store.sessions.purge(store.sessions.create())
        assert list(store.sessions) == []


def test_texts_and_dicts_are_messages() -> None:
    """A text is the user's; a dict has a role and a text. Anything else is refused, and nothing is guessed."""
    with clew.open(":memory:") as store:
        session = store.sessions.create()
        session.append("hello")
        session.append({"role": "assistant", "content": "hi"})
        assert session.messages() == [clew.user("hello"), clew.assistant("hi")]
        wrong: list[Any] = [
            {"role": "user"}, {"role": "boss", "content": "x"}, {"role": "user", "content": [{"type": "text"}]},
            {"role": "user", "content": "x", "name": "n"}, {}, ["hello", "you"], [{"role": "user", "content": "x"}], 5,
        ]  # fmt: skip
        for one in wrong:
            with pytest.raises(Invalid):
                session.append(one)
        with pytest.raises(Invalid, match="has the key name"):
            session.append({"role": "user", "content": "x", "name": "n"})
        assert len(session) == 2


def test_a_session_is_iterable_and_true() -> None:
    """Also an empty one is true: `find() or create()` must not create a second one."""
    with clew.open(":memory:") as store:
        session = store.sessions.create()
        assert bool(session)
        assert (len(session), list(session)) == (0, [])
        session.append([clew.user("1"), clew.user("2")])
        assert ([node.text for node in session], len(session)) == (["1", "2"], 2)
        session.compact(clew.user("short"))
        assert ([node.text for node in session], len(session)) == (["short"], 3)
        sessions = [store.sessions.create() for _ in range(60)]
        assert [one.id for one in store.sessions] == [one.id for one in reversed([session, *sessions])]


def test_a_native_message_from_a_dict() -> None:
    """It is stored as JSON; what JSON cannot say is refused."""
    message = clew.native("openai", {"role": "user", "content": "ä"})
    assert json.loads(message.raw) == {"role": "user", "content": "ä"}
    with pytest.raises(Invalid):
        clew.native("openai", {"role": object()})


def test_a_session_by_the_callers_own_key(tmp_path: Path) -> None:
    """Found or created, the same one from any process; keys are compared part by part, and workspaces are apart."""
    path = tmp_path / "s.db"
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        found = set(pool.map(open_session, [path] * 12))
    with clew.open(path) as store, clew.open(path, workspace="w") as other:
        session = store.sessions.open("app", "alice", title="not new")
        assert found == {session.id}
        assert (session.title, session.extra["key"]) == (None, ["app", "alice"])
        keys = [
            ("app", "alice"),
            ("app/alice",),
            ("app", "alice", ""),
            ("", "app", "alice"),
            ("app", "ALICE"),
            ("app",),
        ]
        assert len({store.sessions.open(*key).id for key in keys}) == len(keys)
        made = other.sessions.open("app", "alice", title="theirs", labels=["l"], cwd="/w", model="m", extra={"a": 1})
        assert (made.title, made.labels, made.cwd, made.model, made.extra["a"]) == ("theirs", ("l",), "/w", "m", 1)
        assert session.refresh().title is None
        session.trash()
        with pytest.raises(Conflict):
            store.sessions.open("app", "alice")
        for wrong in ((), (5,), (("app", "alice"),)):
            with pytest.raises(Invalid):
                store.sessions.open(*wrong)


@pytest.mark.parametrize("key", [None, b"k" * 32])
def test_ping_reads_the_store(path: Path, key: bytes | None) -> None:
    """It returns if the store can be read, also inside a transaction, and raises what a read raises."""
    with clew.open(path, key=key) as store:
        before = path.read_bytes()
        store.ping()
        assert path.read_bytes() == before
        with store.transaction():
            store.ping()
    with pytest.raises(clew.Closed):
        store.ping()
    with clew.open(":memory:") as memory:
        memory.ping()
