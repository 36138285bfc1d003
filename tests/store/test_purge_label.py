"""`store.sessions.purge(label=…)`: all sessions and documents of a label, with one receipt."""

from __future__ import annotations

import pytest

import clew
from clew.adapters.documents import Documents
from clew.adapters.keyed import Keyed


@pytest.fixture
def store(tmp_path):
    with clew.open(tmp_path / "chats.db") as store:
        yield store


def add(store, text, *labels):
    session = store.sessions.create(labels=labels)
    session.append(clew.user(text))
    return session


def document(keyed, name, text, **options):
    documents = Documents(keyed)
    keyed.write(lambda unit: documents.put(unit, [name], text, **options))


def test_all_of_a_user(store, tmp_path):
    """Sessions, also in the trash, subagents, and documents without a session go; others stay. No file has a trace."""
    one, two = add(store, "needle-1", "user:42", "vip"), add(store, "needle-2", "user:42")
    other = add(store, "stays", "user:4")
    two.trash()
    ours, theirs = Keyed(store, "tool", {"labels": ("user:42",)}), Keyed(store, "tool", {})
    document(ours, "a", "needle-3")
    document(theirs, "b", "needle-4", labels=["user:42"])
    document(theirs, "c", "stays")
    ours.ensured("thread").append(clew.user("needle-5"))
    preview = store.sessions.purge(label="user:42", dry_run=True)
    assert len(preview.sessions) == 5
    receipt = store.sessions.purge(label="user:42")
    assert set(receipt.sessions) == set(preview.sessions) >= {one.id, two.id}
    assert (receipt.failures, receipt.pending) == ((), ())
    assert [session.id for session in store.sessions.list()] == [other.id]
    assert Documents(theirs).find("a") is Documents(theirs).find("b") is None
    assert Documents(theirs).value(Documents(theirs).find("c")) == "stays"
    assert store.sessions.purge(label="user:42").sessions == ()
    store.close()
    assert not [file for file in tmp_path.iterdir() if b"needle" in file.read_bytes()]


def test_a_held_session_is_a_failure(store):
    """It stays, the receipt says so, and the others are purged."""
    held, gone = add(store, "a", "user:42"), add(store, "b", "user:42")
    held.hold()
    receipt = store.sessions.purge(label="user:42")
    assert [failure.session for failure in receipt.failures] == [held.id]
    assert receipt.sessions == (gone.id,)


def test_one_choice(store):
    """A label goes with neither ids nor a time."""
    for wrong in ({"label": "a", "everything": True}, {"label": "a", "before": store.sessions.create().created_at}):
        with pytest.raises(clew.Invalid):
            store.sessions.purge(**wrong)


def test_another_workspace(tmp_path):
    """The same label in another workspace stays."""
    with clew.open(tmp_path / "chats.db", workspace="a") as one, clew.open(tmp_path / "chats.db", workspace="b") as two:
        add(one, "x", "user:42")
        add(two, "x", "user:42")
        assert len(one.sessions.purge(label="user:42").sessions) == 1
        assert len(two.sessions.list().items) == 1
