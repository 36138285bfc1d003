"""What all adapters share: sessions by a framework's key, and moves of their heads."""

from __future__ import annotations

import sqlite3
import uuid
import warnings
from contextlib import closing

import pytest

import clew
from clew.adapters.keyed import Keyed, check_version
from clew.sources.writing import session_id


@pytest.fixture
def keyed(tmp_path):
    keyed = Keyed(tmp_path / "c.db", "made-up", {})
    yield keyed
    keyed.close()


def ensure(keyed, *names):
    return keyed.ensured(*names)


def test_a_key_is_a_session(keyed):
    """The same names are the same session, whose free data says where it belongs."""
    session = ensure(keyed, "app", "user")
    session.append(clew.user("hello"))
    assert ensure(keyed, "app", "user").id == session.id
    assert keyed.find("app", "user").path()[0].text == "hello"
    assert keyed.find("app", "other") is None
    assert session.extra["source"] == {"tool": "made-up", "id": "app/user"}


def test_names_do_not_run_together(keyed):
    """Names that give the same text when joined are different keys."""
    assert len({keyed.key("a", "b"), keyed.key("ab"), keyed.key("a/b"), keyed.key("a\0b"), keyed.key("b", "a")}) == 5


def test_a_key_reveals_nothing(keyed, tmp_path):
    """The id of a session does not show the framework's key: two stores have different ids for it."""
    with closing(sqlite3.connect(tmp_path / "c.db")) as db:
        ensure(keyed, "secret-user")
        assert db.execute("SELECT key FROM refs").fetchall() == [(keyed.key("secret-user"),)]
    other = Keyed(tmp_path / "other.db", "made-up", {})
    assert other.id("secret-user") != keyed.id("secret-user")
    other.close()


def test_the_trash_is_not_written_to(keyed):
    """A session in the trash is not found, and creating it again is a conflict."""
    ensure(keyed, "a").trash()
    assert keyed.find("a") is None
    with pytest.raises(clew.Conflict, match="trash"):
        ensure(keyed, "a")
    assert keyed.purge("a")
    assert not keyed.purge("a")


def test_an_open_store_stays_open(tmp_path):
    """Closing an adapter leaves a store open that it was given."""
    with clew.open(tmp_path / "c.db") as store:
        Keyed(store, "made-up", {}).close()
        assert store.sessions.list().items == []


def move(keyed, session, after, *texts):
    drafts = [keyed.draft(clew.user(text)) for text in texts]
    return keyed.write(lambda unit: unit.append(keyed.session(unit, "a"), drafts, after=after))


def test_moves_leave_branches(keyed, sound):
    """The messages that a move leaves are a branch, once; moving on along the path leaves none."""
    session = ensure(keyed, "a")
    first, second, third = session.append([clew.user(text) for text in "123"])
    move(keyed, session, second.id)
    move(keyed, session, first.id)
    assert len(session.branches()) == 1
    move(keyed, session, second.id)
    move(keyed, session, third.id)
    move(keyed, session, None)
    move(keyed, session, first.id, "4")
    assert [node.text for node in session.path()] == ["1", "4"]
    assert [branch.head_id for branch in session.branches()] == [third.id]
    sound(keyed.store)


def test_replace(keyed, sound):
    """A message is replaced, or removed, without a trace; those after it keep their ids and their attachments."""
    session = ensure(keyed, "a")
    blob = session.blobs.put(b"picture")
    picture = clew.Media(mime_type="image/png", modality="image", blob=blob.digest)
    first, second, third = session.append([clew.user("1"), clew.user("2"), clew.user("3", picture)])
    change(keyed, second, "two")
    assert [node.text for node in session.path()] == ["1", "two", "3"]
    assert [node.id for node in session.path()][::2] == [first.id, third.id]
    change(keyed, session.path()[1])
    change(keyed, first, "0", "1")
    assert [node.text for node in session.path()] == ["0", "1", "3"]
    assert session.branches() == []
    assert session.blobs.get(blob.digest) == b"picture"
    assert len(keyed.store.nodes.list().items) == 3
    change(keyed, session.path()[-1])
    with pytest.raises(clew.NotFound):
        session.blobs.get(blob.digest)
    sound(keyed.store)


def change(keyed, node, *texts):
    drafts = [keyed.draft(clew.user(text)) for text in texts]
    keyed.write(lambda unit: unit.replace(keyed.session(unit, "a"), node, drafts))


def test_replace_leaves_others_alone(keyed, sound):
    """A fork keeps the messages that its origin replaces; in a session on hold they stay as a branch."""
    session = ensure(keyed, "a")
    first, _, _ = session.append([clew.user(text) for text in "123"])
    fork = session.fork()
    change(keyed, first, "one")
    assert [node.text for node in session.path()] == ["one", "2", "3"]
    assert [node.text for node in fork.path()] == ["1", "2", "3"]
    assert session.branches() == []
    session.hold()
    change(keyed, session.path()[0], "eins")
    assert [node.text for node in session.path()] == ["eins", "2", "3"]
    assert len(session.branches()) == 1
    sound(keyed.store)


def test_an_imported_session_is_found(keyed):
    """A session that was imported from the framework's own store has its names, and no other one has."""
    name = session_id("made-up", "app/user")
    origin = {"tool": "made-up", "id": "app/user"}
    session = keyed.store.sessions.create(id=name, extra={"source": origin, "made-up": {"names": ["app", "user"]}})
    assert keyed.find("app", "user") == session
    assert keyed.find("app/user") is None
    assert ensure(keyed, "app", "user") == session
    assert keyed.find("app", "other") is None
    other = str(uuid.uuid4())
    keyed.store.sessions.create(id=other, extra={"source": {"tool": "another", "id": other}})
    assert keyed.find(other) is None
    assert keyed.purge("app", "user")
    assert keyed.find("app", "user") is None


def test_versions():
    """A version outside the tested range warns; one inside does not, nor does a missing package."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_version("msgspec", "0.1", "99")
        check_version("no-such-package", "1", "2")
    with pytest.warns(UserWarning, match="msgspec"):
        check_version("msgspec", "98.0", "99")


def test_a_branch_survives_a_purge_of_its_origin(keyed, sound):
    """A message that a fork has left stays, also if only the origin had messages after it and is purged."""
    origin = ensure(keyed, "origin")
    first, second, _ = origin.append([clew.user(text) for text in "123"])
    fork = keyed.write(lambda unit: keyed.ensure(unit, "a", at=second.id))
    move(keyed, fork, first.id, "4")
    assert keyed.purge("origin")
    assert [branch.head_id for branch in fork.branches()] == [second.id]
    assert keyed.store.nodes.get(second.id)[0].text == "2"
    sound(keyed.store)


def test_messages_continue_where_the_caller_says(keyed, sound):
    """After appends of its own, an adapter can continue at an earlier message, or after another writer's message."""
    session = ensure(keyed, "a")
    (first,) = move(keyed, session, None, "1")
    (second,) = move(keyed, session, first.id, "2")
    move(keyed, session, second.id, "3")
    move(keyed, session, first.id, "4")
    assert [node.text for node in session.path()] == ["1", "4"]
    assert len(session.branches()) == 1
    with clew.open(keyed.store.path) as store:
        last = store.sessions.get(session.id).append(clew.user("5"))
    move(keyed, session, last.id, "6")
    assert [node.text for node in session.path()] == ["1", "4", "5", "6"]
    sound(keyed.store)
