"""Units of work: what imports and their undoing ask of a store."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

import clew
from clew.engine.node import microseconds
from clew.errors import Ambiguous, Conflict, Corrupted, Invalid, NotFound
from clew.redaction import Rules, builtin
from clew.store.evaluate import delete_if
from clew.store.session import is_same, purge_if, tree_of
from clew.store.unit import Unit

KEY = bytes(range(32))


@pytest.fixture(params=["plain", "sealed"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[clew.Store]:
    with clew.open(tmp_path / "s.db", key=KEY if request.param == "sealed" else None) as store:
        yield store


def talk(store: clew.Store, *texts: str) -> clew.Session:
    """A session with these messages."""
    session = store.sessions.create()
    session.append([clew.user(text) for text in texts])
    return session


def test_what_was_purged(store: clew.Store) -> None:
    """A unit knows the ids of purged sessions and messages, and takes no other for one."""
    gone, kept = talk(store, "1"), talk(store, "2")
    ids = [gone.id, gone.path()[0].id, kept.id, kept.path()[0].id]
    assert store.read(lambda unit: unit.purged(ids)) == set()
    gone.purge()
    found = store.read(lambda unit: unit.purged(ids))
    assert found == {clew.base.ids.parse(one) for one in ids[:2]}


def test_sessions_with_a_message(store: clew.Store) -> None:
    """On the path, in a branch, behind a compaction, in the trash or not; the first one had it first."""
    first = talk(store, "1", "2")
    one, two = (node.id for node in first.path())
    fork = first.fork(at=one)
    first.rewind(None)
    fork.compact(clew.user("sum"))
    fork.trash()
    other = talk(store, "3")
    assert store.read(lambda unit: unit.sessions_with(one)) == [first.id, fork.id]
    assert store.read(lambda unit: unit.sessions_with(two)) == [first.id]
    assert store.read(lambda unit: unit.sessions_with(other.id)) == []


def test_what_shares_a_tree(store: clew.Store) -> None:
    """Forks and snapshots share the tree of a session; documents, branches and other conversations do not count."""
    session, other = talk(store, "1", "2"), talk(store, "3")
    session.rewind(session.path()[0].id)
    fork = session.fork()
    store.write(lambda unit: unit.put("document", store.new_id(), b"[]", owner=session, at=session.head_id))
    assert store.read(lambda unit: unit.sharing(session)) == [("session", fork.id)]
    assert store.read(lambda unit: unit.sharing(other)) == []
    assert tree_of(session) == tree_of(fork) == tree_of(session.path()[0]) != tree_of(other)


def test_one_session_or_another_with_its_id(store: clew.Store) -> None:
    """A session that was deleted and created again is another one."""
    before = talk(store, "1")
    assert is_same(before, store.sessions.get(before.id).rename("new"))
    before.purge()
    assert not is_same(before, store.sessions.create(id=before.id))


def test_a_session_or_a_trace(store: clew.Store) -> None:
    """`subagent` chooses between the two kinds; None takes either."""
    owner = store.sessions.create()
    trace = store.sessions.create(agent="a", owner=owner)
    for subagent, found in ((False, [owner.id]), (True, [trace.id]), (None, [owner.id, trace.id])):

        def work(unit: Unit, subagent: bool | None = subagent) -> list[str]:
            both = (unit.session(one, subagent=subagent) for one in (owner.id, trace.id))
            return [one.id for one in both if one is not None]

        assert store.read(work) == found


def test_entries_of_logs(store: clew.Store) -> None:
    """An entry is found by its id in its own log alone; that an id is taken in any log can be asked."""
    session, other, id = talk(store, "1"), talk(store, "2"), store.new_id()
    store.write(lambda unit: unit.log(session, [(id, b"data"), (None, b"more")]))
    key = clew.base.ids.parse(id)
    assert store.read(lambda unit: unit.entry(session, id)) == b"data"
    assert store.read(lambda unit: unit.entry(other, id)) is None
    assert store.read(lambda unit: unit.entry(session, store.new_id())) is None
    assert store.read(lambda unit: unit.logged(other, [id])) == set()
    assert store.read(lambda unit: unit.logged(None, [id, store.new_id()])) == {key}
    with pytest.raises(Conflict):
        store.write(lambda unit: unit.log(other, [(id, b"again")]))


def test_activity_in_the_past(store: clew.Store) -> None:
    """A session takes its place among the others by the last activity that is set; nothing is active in the future."""
    old, new = talk(store, "1"), talk(store, "2")
    past, future = datetime(2020, 1, 1, tzinfo=UTC), datetime(2999, 1, 1, tzinfo=UTC)
    saved = store.write(lambda unit: unit.save(new, new.data, active_at=microseconds(past)))
    assert saved.updated_at == past
    assert [one.id for one in store.sessions.list()] == [old.id, new.id]
    again = store.write(lambda unit: unit.save(saved, saved.data, active_at=microseconds(past)))
    assert again.version == saved.version
    assert store.write(lambda unit: unit.save(new, new.data, active_at=microseconds(future))).updated_at < future
    assert [one.id for one in store.sessions.list()] == [new.id, old.id]
    assert store.verify().ok


def test_documents_of_a_session(store: clew.Store) -> None:
    """Every kind can be listed for an owner, without traces and branches; one in the trash is found if asked for."""
    session, key = talk(store, "1", "2"), store.lookup_hash("kind", b"name")
    store.sessions.create(agent="a", owner=session)
    session.rewind(None)

    def work(unit: Unit) -> None:
        for number, kind in enumerate(("one", "two")):
            unit.put(kind, key, b"%d" % number, owner=session)

    store.write(work)
    found = store.read(lambda unit: unit.documents(None, owner=session))
    assert [(one.kind, one.data) for one in found] == [("one", b"0"), ("two", b"1")]
    with pytest.raises(Invalid):
        store.read(lambda unit: unit.documents(None))
    session.trash()
    assert store.read(lambda unit: unit.document("one", key)) is None
    assert list(store.documents("one")) == []
    there = store.read(lambda unit: unit.document("one", key, trashed=True))
    assert there is not None
    assert (there.data, there.trashed) == (b"0", True)


def test_a_document_gets_another_owner(store: clew.Store) -> None:
    """It goes with the owner that was given last; a value without an owner leaves it to the one that it has."""
    first, last, key = talk(store, "1"), talk(store, "2"), store.new_id()
    for number, owner in enumerate((None, first, last, None)):
        store.write(lambda unit, number=number, owner=owner: unit.put("one", key, b"%d" % number, owner=owner))  # type: ignore[misc]
    first.purge()
    assert [one.data for one in store.documents("one")] == [b"3"]
    last.purge()
    assert list(store.documents("one")) == []
    assert store.verify().ok


def test_a_document_by_its_handle(store: clew.Store) -> None:
    """A document has a short name, which finds it as its id does."""
    for last in range(3):
        store.write(lambda unit, last=last: unit.put("one", b"alike" * 3 + bytes([last]), b"[]"))  # type: ignore[misc]
    for one in store.documents("one"):
        assert store.document("one", one.handle) == store.document("one", one.id) == one
    with pytest.raises(Ambiguous):
        store.document("one", next(store.documents("one")).handle[:6])
    for typed in (store.new_id(), "zzzzzz"):
        with pytest.raises(NotFound):
            store.document("one", typed)


def test_a_version_is_verified(tmp_path: Path) -> None:
    """A damaged document is not said to have a version."""
    with clew.open(tmp_path / "s.db") as store:
        document = store.write(lambda unit: unit.put("one", store.new_id(), b"[]"))
        assert document.version == 1
        document._row = document._row._replace(version=2)
        with pytest.raises(Corrupted):
            _ = document.version


def test_bytes_are_redacted(tmp_path: Path) -> None:
    """JSON and text are redacted as messages are; a store without rules returns what it is given."""
    secret = b"key AKIAQ7ZLXKCMWPBRTNDV"
    with clew.open(tmp_path / "s.db", redact=Rules(builtin())) as store:
        assert b"AKIA" not in store.redacted(secret) + store.redacted(b'{"a": "%s"}' % secret, own=True)
    with clew.open(tmp_path / "t.db") as store:
        assert store.redacted(secret) is secret


# -- deleting


def test_a_purge_that_is_decided_in_its_transaction(store: clew.Store) -> None:
    """A session that the check refuses stays and is named; the check sees it as it is then, not as it was listed."""
    sessions = [talk(store, str(number)) for number in range(3)]
    store.sessions.get(sessions[1].id).rename("changed")
    sessions[2].purge()
    kept = sessions[1]

    def check(session: clew.Session) -> None:
        assert session.path()
        if session.title == "changed":
            raise Conflict("it was changed")

    would = purge_if(sessions, check, dry_run=True)
    assert (would.sessions, len(list(store.sessions.list()))) == ((sessions[0].id,), 2)
    done = purge_if(sessions, check, remember=False)
    assert done.sessions == (sessions[0].id,)
    assert [(one.session, one.error) for one in done.failures] == [(kept.id, "it was changed")]
    assert store.read(lambda unit: unit.purged([sessions[0].id])) == set()
    purge_if([kept], lambda session: None)
    assert store.read(lambda unit: unit.purged([kept.id])) == {clew.base.ids.parse(kept.id)}


def test_messages_that_are_chosen_in_their_transaction(store: clew.Store) -> None:
    """Chosen messages go; what raises deletes nothing, and a dry run refuses what the deletion refuses."""
    session = talk(store, "1", "2", "3")

    def choose(unit: Unit, start: int = 1, stop: int = 3) -> list[str]:
        return [node.id for node in unit.path(session)[start:stop]]

    def refuse(unit: Unit) -> list[str]:
        raise Conflict("no")

    for dry_run in (True, False):
        with pytest.raises(Conflict, match="no"):
            delete_if(store, refuse, dry_run=dry_run)
        with pytest.raises(Conflict):  # a reply would stay
            delete_if(store, lambda unit: choose(unit, 1, 2), dry_run=dry_run)
        assert delete_if(store, choose, remember=False, dry_run=dry_run) == 2
        assert len(session.path()) == (3 if dry_run else 1)


# -- workspaces


def test_workspaces_do_not_meet(tmp_path: Path) -> None:
    """No workspace hears of another's messages, sessions, purges, entries or documents."""
    with clew.open(tmp_path / "s.db", workspace="a") as a, clew.open(tmp_path / "s.db", workspace="b") as b:
        theirs, mine, entry = talk(a, "secret"), talk(b, "1"), a.new_id()
        node = theirs.path()[0].id
        a.write(lambda unit: unit.log(theirs, [(entry, b"secret")]))
        assert b.read(lambda unit: unit.sessions_with(node)) == []
        assert b.read(lambda unit: unit.entry(mine, entry)) is None
        assert b.read(lambda unit: unit.session(theirs.id, subagent=None)) is None
        theirs.purge()
        assert b.read(lambda unit: unit.purged([theirs.id, node])) == set()
        document = a.write(lambda unit: unit.put("one", a.new_id(), b"[]"))
        with pytest.raises(NotFound):
            b.document("one", document.id)
        assert a.lookup_hash("x", b"1") == b.lookup_hash("x", b"1") != b.lookup_hash("y", b"1")
