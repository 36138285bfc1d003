"""Units of work: one transaction as verbs over sessions, messages and documents."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.engine.session_data import SessionData
from clew.errors import Closed, Conflict, Corrupted, Invalid, NotFound, Unavailable
from clew.redaction import Rules, builtin
from clew.store.store import store_of
from clew.store.unit import HEAD, Unit

KEY = bytes(range(32))


@pytest.fixture(params=["plain", "sealed"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[clew.Store]:
    with clew.open(tmp_path / "s.db", key=KEY if request.param == "sealed" else None) as store:
        yield store


def talk(store: clew.Store, *texts: str, **fields: Any) -> clew.Session:
    """A session with these messages."""
    session = store.sessions.create(**fields)
    session.append([clew.user(text) for text in texts])
    return session


def texts(nodes: list[clew.Node]) -> list[str]:
    return [node.text for node in nodes]


# -- the transaction


def test_all_or_nothing(store: clew.Store) -> None:
    """What `work` raises undoes all that it did, and reaches the caller as it is."""
    session = talk(store, "1")
    key = store.derived_id("k")

    def work(unit: Unit) -> None:
        unit.append(session, [clew.user("2")])
        unit.put("document", key, b"[]", owner=session)
        raise ValueError("mine") from KeyError("why")

    with pytest.raises(ValueError, match="mine") as caught:
        store.write(work)
    assert isinstance(caught.value.__cause__, KeyError)
    assert texts(session.path()) == ["1"]
    assert store.read(lambda unit: unit.document("document", key)) is None


@pytest.mark.parametrize("kind", [ValueError, TypeError, OverflowError, KeyError, clew.Conflict, KeyboardInterrupt])
def test_an_error_of_the_caller_is_no_damage(store: clew.Store, kind: type[BaseException]) -> None:
    """Also an error that a damaged row would cause comes out unchanged, of a write and of a read."""
    mine = kind("mine")

    def work(unit: Unit) -> None:
        raise mine

    for call in (store.write, store.read):
        with pytest.raises(kind) as caught:
            call(work)
        assert caught.value is mine


def test_damage_in_a_verb_is_damage(tmp_path: Path) -> None:
    """A row with a value of a wrong type is Corrupted, not a TypeError."""
    with clew.open(tmp_path / "s.db") as store:
        session = talk(store, "1")
        writer = store._engine.backend.writer  # type: ignore[attr-defined]
        writer.tx.conn.execute("UPDATE refs SET version = 'x' WHERE kind = 'session'")
        for call in (store.write, store.read):
            with pytest.raises(Corrupted):
                call(lambda unit: unit.path(session))


def test_reads_see_the_unit(store: clew.Store) -> None:
    """Inside `work`, sessions and documents read what the unit has written; afterwards nothing is left of that."""
    session, key = talk(store, "1"), store.derived_id("k")

    def work(unit: Unit) -> None:
        unit.append(session, [clew.user("2")])
        document = unit.put("document", key, b"[1]", owner=session)
        unit.log(document, [(None, b"entry")])
        assert texts(session.path()) == texts(unit.path(session)) == ["1", "2"]
        assert [message.blocks[0].text for message in session.messages()] == ["1", "2"]  # type: ignore[union-attr]
        assert session.counters.messages == 2
        assert [one.data for one in document.log.read()] == [b"entry"]
        assert [one.data for one in store.documents("document")] == [b"[1]"]
        raise StopIteration

    with pytest.raises(StopIteration):
        store.write(work)
    assert texts(session.path()) == ["1"]
    assert list(store.documents("document")) == []


def test_a_read_is_one_snapshot(store: clew.Store) -> None:
    """Two reads of a unit see the same moment, while another thread writes in between."""
    session = talk(store, "1")

    def work(unit: Unit) -> tuple[list[str], list[str], list[str]]:
        before = texts(unit.path(session))
        other = threading.Thread(target=lambda: session.append(clew.user("2")))
        other.start()
        other.join()
        return before, texts(unit.path(session)), texts(session.path())

    assert store.read(work) == (["1"], ["1"], ["1"])
    assert texts(session.path()) == ["1", "2"]


def test_a_read_uses_the_row_it_has_read(store: clew.Store) -> None:
    """The path of a session that the unit has read ends at its head then, or at the new one when repeated."""
    session = talk(store, "1")
    seen = []

    def work(unit: Unit) -> list[str]:
        now = unit.session(session.id)
        assert now is not None
        other = threading.Thread(target=lambda: session.append(clew.user("2")))
        other.start()
        other.join()
        seen.append((texts(unit.path(now)), texts(unit.path(session)), texts(unit.path(now, last=1))))
        return texts(unit.path(now))

    assert [store.read(work), store.read(work)] == [["1"], ["1", "2"]]
    assert seen == [(["1"], ["1"], ["1"]), (["1", "2"], ["1", "2"], ["2"])]


def test_a_read_inside_a_transaction_sees_the_head_move(store: clew.Store) -> None:
    """It has no snapshot of its own: what its thread, or the unit around it, appends in between is on the path."""
    session = talk(store, "1")

    def read(append: Callable[[], object]) -> list[str]:
        def work(unit: Unit) -> list[str]:
            now = unit.session(session.id)
            assert now is not None
            append()
            return texts(unit.path(now))

        return store.read(work)

    with store.transaction():
        assert read(lambda: session.append(clew.user("2"))) == ["1", "2"]
    assert store.write(lambda unit: read(lambda: unit.append(session, [clew.user("3")]))) == ["1", "2", "3"]


def test_writing_in_a_read_is_refused(store: clew.Store) -> None:
    """Also in a store in memory, where the connection could write."""
    with clew.open(":memory:") as memory:
        for one in (store, memory):
            session = talk(one, "1")
            with pytest.raises(Invalid, match="read cannot write"):
                one.read(lambda unit: unit.append(session, [clew.user("2")]))
            assert texts(session.path()) == ["1"]


def test_a_unit_ends(store: clew.Store) -> None:
    """A unit that was kept does nothing after its transaction."""
    session = talk(store, "1")
    for call in (store.write, store.read):
        unit = call(lambda unit: unit)
        for verb in (lambda: unit.append(session, [clew.user("2")]), lambda: unit.path(session)):
            with pytest.raises(Invalid, match="has ended"):
                verb()
    assert texts(session.path()) == ["1"]


def test_a_write_inside_a_unit_is_refused(store: clew.Store) -> None:
    """`work` has no other way to write: it would wait for itself, or be stored apart."""
    session = talk(store, "1")
    for call in (lambda: session.append(clew.user("2")), lambda: store.write(lambda unit: None)):
        with pytest.raises(Unavailable):
            store.write(lambda unit: call())
    assert texts(session.path()) == ["1"]


def test_inside_a_transaction(store: clew.Store) -> None:
    """A unit is a part of the transaction of its thread: it is undone alone, or with it."""
    session = talk(store, "1")
    with pytest.raises(StopIteration), store.transaction():
        store.write(lambda unit: unit.append(session, [clew.user("2")]))
        with pytest.raises(ValueError, match="x"):
            store.write(lambda unit: (unit.append(session, [clew.user("3")]), int("x")))
        assert texts(session.path()) == ["1", "2"]
        raise StopIteration
    assert texts(session.path()) == ["1"]


def check_shared_commits(store: clew.Store) -> None:
    """Runs units of 40 threads, of which every fifth raises. The others are stored once, in any order."""
    session, failed = store.sessions.create(), list[int]()

    def one(number: int) -> None:
        def work(unit: Unit) -> None:
            unit.append(session, [clew.user(str(number))])
            if number % 5 == 0:
                raise ValueError(number)

        try:
            store.write(work)
        except ValueError:
            failed.append(number)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(failed) == list(range(0, 40, 5))
    assert sorted(int(text) for text in texts(session.path())) == [n for n in range(40) if n % 5]
    assert store.verify().ok


def test_threads_share_commits(store: clew.Store) -> None:
    """A unit of many at once is stored once or not at all, and its own error reaches its caller."""
    check_shared_commits(store)


# -- heads and branches


def test_what_the_head_leaves_stays(store: clew.Store) -> None:
    """The head leaves no message unreachable, and makes no branch that another one holds already."""
    session = talk(store, "1", "2", "3")
    one, two, three = session.path()

    def branches() -> list[str]:
        return [branch.head_id for branch in session.branches()]

    store.write(lambda unit: unit.move(session, two.id))
    assert (texts(session.path()), branches()) == (["1", "2"], [three.id])
    store.write(lambda unit: unit.move(session, one.id))  # the branch at 3 has 2 already
    assert (texts(session.path()), branches()) == (["1"], [three.id])
    (other,) = store.write(lambda unit: unit.append(session, [clew.user("b")]))
    store.write(lambda unit: unit.move(session, three.id))  # the branch is the conversation again
    assert (texts(session.path()), branches()) == (["1", "2", "3"], [other.id])
    store.write(lambda unit: unit.move(session, None))
    assert (session.path(), sorted(branches())) == ([], sorted([three.id, other.id]))
    (root,) = store.write(lambda unit: unit.append(session, [clew.user("new")], after=None))
    assert texts(session.path()) == ["new"]
    store.write(lambda unit: unit.append(session, [clew.user("4")], after=three.id))
    assert texts(session.path()) == ["1", "2", "3", "4"]
    assert root.id in branches()
    assert store.verify().ok


def test_another_sessions_message_does_not_count(store: clew.Store) -> None:
    """A fork that continues the left messages may be purged: so the branch is made all the same."""
    session = talk(store, "1", "2")
    fork = session.fork()
    fork.append(clew.user("3"))
    one, two = session.path()
    store.write(lambda unit: unit.move(session, one.id))
    fork.purge()
    assert [branch.head_id for branch in session.branches()] == [two.id]
    assert texts(store.nodes.path(two.id)) == ["1", "2"]


def test_a_compaction_continues_the_totals(store: clew.Store) -> None:
    """A root that replaces a message has its history before it."""
    session = talk(store, "1", "2")
    last = session.path()[-1]
    store.write(lambda unit: unit.append(session, [clew.user("short")], after=None, replaces=last.id))
    assert texts(session.path()) == ["short"]
    assert texts(list(session.history())) == ["1", "2", "short"]
    assert session.counters.messages == 3
    assert session.branches() == []


def test_rebase_into_another_conversation(store: clew.Store) -> None:
    """The session continues elsewhere with what it owns; its old end is a branch. Not if that would lose anything."""
    session, other = talk(store, "1", title="mine"), talk(store, "a", "b")
    end, there = session.path()[-1], other.path()[0]
    key = store.derived_id("k")
    store.write(lambda unit: unit.put("document", key, b"[1]", owner=session))
    moved = store.write(lambda unit: unit.rebase(session, there.id))
    assert (moved.id, moved.title, texts(moved.path())) == (session.id, "mine", ["a"])
    assert [branch.head_id for branch in moved.branches()] == [end.id]
    assert [one.data for one in store.read(lambda unit: unit.documents("document", owner=moved))] == [b"[1]"]
    assert store.verify().ok
    moved.log.append(b"entry")
    elsewhere = talk(store, "x").path()[0].id
    with pytest.raises(Conflict):
        store.write(lambda unit: unit.rebase(moved, elsewhere))


def test_replace(store: clew.Store) -> None:
    """A message in the middle is replaced; the later ones keep their ids, and nothing of the old one is left."""
    session = talk(store, "1", "2", "3")
    one, two, three = session.path()
    store.write(lambda unit: unit.replace(session, two, [store.draft(clew.user("new"))]))
    assert texts(session.path()) == ["1", "new", "3"]
    assert [session.path()[0].id, session.path()[-1].id] == [one.id, three.id]
    assert (session.branches(), store.read(lambda unit: unit.node(two.id))) == ([], None)
    session.hold()
    new = session.path()[1]
    store.write(lambda unit: unit.replace(session, new, []))
    assert texts(session.path()) == ["1", "3"]
    assert len(session.branches()) == 1
    with pytest.raises(NotFound):
        store.write(lambda unit: unit.replace(session, two, []))
    assert store.verify().ok


def test_branches_by_name(store: clew.Store) -> None:
    """A branch is kept unless the session has the message already; it is dropped by its end, and never when held."""
    session = talk(store, "1", "2")
    one, two = session.path()

    def work(unit: Unit) -> set[str]:
        unit.branch(session, one.id)
        unit.move(session, None)
        return unit.branches(session)

    assert store.write(work) == {two.id}
    session.hold()
    with pytest.raises(Conflict):
        store.write(lambda unit: unit.drop_branches(session, {two.id}))
    session.release()
    store.write(lambda unit: unit.drop_branches(session, {one.id}))
    assert len(session.branches()) == 1
    store.write(lambda unit: unit.drop_branches(session, {two.id}))
    assert session.branches() == []


def test_a_damaged_end_is_not_continued(tmp_path: Path) -> None:
    """P6: new messages would sign the damage as valid."""
    with clew.open(tmp_path / "s.db") as store:
        session = talk(store, "1", "2")
        one, two = session.path()
        writer = store._engine.backend.writer  # type: ignore[attr-defined]
        writer.tx.conn.execute("UPDATE nodes SET body = x'00'")
    with clew.open(tmp_path / "s.db") as store:
        session = store.sessions.get(session.id)
        for after in (HEAD, two.id, one.id):
            with pytest.raises(Corrupted):
                store.write(lambda unit: unit.append(session, [clew.user("3")], after=after))


def test_a_path_without_its_end_is_damage(tmp_path: Path) -> None:
    """P6: also if the unit has read the session, whose row alone does not tell that its last message is gone."""
    with clew.open(tmp_path / "s.db") as store:
        session = talk(store, "1", "2")
        writer = store._engine.backend.writer  # type: ignore[attr-defined]
        writer.tx.conn.execute("DELETE FROM nodes WHERE pos = (SELECT max(pos) FROM nodes)")
    with clew.open(tmp_path / "s.db") as store:
        for count in (None, 1):
            with pytest.raises(Corrupted):
                store.read(lambda unit: unit.path(unit.session(session.id) or session, last=count))


# -- sessions


def test_sessions(store: clew.Store) -> None:
    """Created once, found by id, message and label; the trash and other kinds apart."""
    key = store.derived_id("app", "user")

    def ensure(unit: Unit) -> clew.Session:
        return unit.session(key) or unit.create(SessionData(title="t", labels=("l",)), key)

    session = store.write(ensure)
    assert store.write(ensure) == session
    other = store.sessions.create(labels=["l"])
    first = store.read(lambda unit: unit.labelled("l", limit=1))
    assert first == [other]
    assert store.read(lambda unit: unit.labelled("l", after=first[0])) == [session]
    other.purge()
    with pytest.raises(Conflict):
        store.write(lambda unit: unit.create(SessionData(), key))
    session.append(clew.user("1"))
    last = session.path()[-1]
    data, name = SessionData(agent="a"), store.derived_id("s")
    agent = store.write(lambda unit: unit.create(data, name, owner=session, at=last.id))
    assert session.subagents() == [agent]
    assert store.read(lambda unit: unit.session(agent.id)) is None
    assert store.read(lambda unit: unit.session(agent.id, subagent=True)) == agent
    assert store.read(lambda unit: unit.sessions_at(last.id)) == [session]
    assert store.read(lambda unit: unit.sessions_with(last.id))[0] == session.id
    trashed = store.write(lambda unit: unit.trash(session))
    assert trashed.trashed_at is not None
    assert store.read(lambda unit: unit.session(key)) is None
    assert store.read(lambda unit: unit.session(key, trashed=True)) == session
    for verb in (lambda unit: unit.append(session, [clew.user("x")]), lambda unit: unit.save(session, session.data)):
        with pytest.raises(NotFound):
            store.write(verb)


def test_save(tmp_path: Path) -> None:
    """Data, hold and retention in one write, each with its audit entry; equal ones write nothing."""
    with clew.open(tmp_path / "s.db", audit=True) as store:
        session = talk(store, "1")
        day = 24 * 3600 * 1_000_000
        saved = store.write(lambda unit: unit.save(session, SessionData(title="t"), hold=True, expires_at=-day))
        assert (saved.title, saved.held) == ("t", True)
        assert saved.expires_at == saved.updated_at + timedelta(days=1)
        again = store.write(lambda unit: unit.save(saved, saved.data, hold=True, expires_at=-day))
        assert again.version == saved.version
        with pytest.raises(Conflict):
            store.write(lambda unit: unit.trash(saved))
        released = store.write(lambda unit: unit.save(saved, saved.data, hold=False, expires_at=None))
        assert (released.held, released.expires_at) == (False, None)
        kinds = [entry.kind for entry in store.audit.read()]
        assert [kind for kind in kinds if kind in ("hold", "retain", "release")] == [
            "hold",
            "retain",
            "release",
            "retain",
        ]


# -- documents


def test_documents(store: clew.Store) -> None:
    """A value under a key: put, replaced, listed by owner, index and label, and deleted."""
    session = talk(store, "1")
    keys = [store.derived_id(str(number)) for number in range(5)]
    index, label = store.derived_id("index"), store.derived_id("label")

    def work(unit: Unit) -> None:
        for number, key in enumerate(keys):
            unit.put("document", key, b"%d" % number, owner=session, index=index, labels=[label] * (number % 2))

    store.write(work)
    assert [one.data for one in store.read(lambda unit: unit.documents("document", owner=session))] == [
        b"%d" % n for n in range(5)
    ]
    assert [one.data for one in store.documents("document", index=index)] == [b"%d" % n for n in (4, 3, 2, 1, 0)]
    assert [one.data for one in store.documents("document", label=label)] == [b"3", b"1"]
    first = store.read(lambda unit: unit.document("document", keys[0]))
    assert first is not None
    changed = store.write(lambda unit: unit.put("document", keys[0], b"new", before=first))
    assert (changed.data, changed.order, changed.stamp != first.stamp) == (b"new", first.order, True)
    with pytest.raises(Conflict):
        store.write(lambda unit: unit.put("document", keys[0], b"lost", before=first))
    with pytest.raises(Conflict):
        store.write(lambda unit: unit.put("document", keys[0], b"lost", new=True))
    store.write(lambda unit: unit.label(changed, [label]))
    assert store.read(lambda unit: unit.has_label(changed, label))
    store.write(lambda unit: unit.delete(changed))
    store.write(lambda unit: unit.delete(changed))
    assert store.read(lambda unit: unit.document("document", keys[0])) is None
    session.trash()
    assert list(store.documents("document")) == []
    with pytest.raises(Conflict):
        store.write(lambda unit: unit.put("document", keys[1], b"x"))
    session.purge()
    with pytest.raises(NotFound):
        store.read(lambda unit: unit.documents("document", owner=session))


def test_a_document_in_the_trash(store: clew.Store) -> None:
    """It is found only when asked for, and its session takes no blobs."""
    session, key = talk(store, "1"), store.derived_id("k")
    store.write(lambda unit: unit.put("document", key, b"[]", owner=session))
    session.trash()
    assert store.read(lambda unit: unit.document("document", key)) is None
    found = store.read(lambda unit: unit.document("document", key, trashed=True))
    assert found is not None and found.data == b"[]"
    for work in (lambda unit: unit.blob(session, b"x"), lambda unit: unit.blobs(session, [("0" * 64, b"x")])):
        with pytest.raises(NotFound):
            store.write(work)


def test_the_store_of_a_session(store: clew.Store) -> None:
    """It is the same store under another object, and lives as long as the session's does."""
    session = talk(store, "1")
    other = store_of(session)
    other.write(lambda unit: unit.append(session, [clew.user("2")]))
    assert texts(store.sessions.get(session.id).path()) == ["1", "2"]
    assert other.new_id() != store.new_id()
    store.close()
    with pytest.raises(Closed):
        other.sessions.get(session.id)


def test_trashed_documents_end_no_page(store: clew.Store) -> None:
    """Pages skip what is in the trash, however much it is, and do not end there."""
    kept, gone = talk(store, "1"), talk(store, "2")

    def fill(unit: Unit) -> None:
        for number in range(250):
            owner = kept if number < 20 else gone
            unit.put("document", store.derived_id(str(number)), b"%d" % number, owner=owner)

    store.write(fill)
    gone.trash()
    assert [one.data for one in store.documents("document")] == [b"%d" % n for n in reversed(range(20))]


def test_a_hold_keeps_documents(store: clew.Store) -> None:
    """A document of a held session is not deleted; one that is only bookkeeping is."""
    session = talk(store, "1")
    key = store.derived_id("k")
    document = store.write(lambda unit: unit.put("document", key, b"[]", owner=session))
    session.hold()
    with pytest.raises(Conflict):
        store.write(lambda unit: unit.delete(document))
    assert [failure.error for failure in document.purge().failures] != []
    store.write(lambda unit: unit.discard(document))
    assert store.read(lambda unit: unit.document("document", key)) is None


def test_what_another_has_now_is_not_deleted(store: clew.Store) -> None:
    """A handle of a document or session that was deleted does not stand for a new one under the same key."""
    key, name = store.derived_id("k"), store.derived_id("s")
    document = store.write(lambda unit: unit.put("document", key, b"old"))
    session = store.write(lambda unit: unit.create(SessionData(), name))
    store.write(lambda unit: (unit.delete(document), unit.delete(session)))
    store.write(lambda unit: (unit.put("document", key, b"new"), unit.create(SessionData(title="new"), name)))
    store.write(lambda unit: (unit.delete(document), unit.discard(document), unit.delete(session)))
    assert [one.data for one in store.documents("document")] == [b"new"]
    assert [one.title for one in store.sessions.list()] == ["new"]


def test_logs_and_blobs(store: clew.Store) -> None:
    """Entries have ids of one log; blobs live as long as a document uses them."""
    session, other = talk(store, "1"), talk(store, "2")
    key, id = store.derived_id("k"), store.derived_id("e")

    def work(unit: Unit) -> None:
        document = unit.put("document", key, b"[]", owner=session)
        unit.log(document, [(id, b"first"), (None, b"second")])
        unit.use(document, session, [unit.blob(session, b"bytes" * 100)])

    store.write(work)
    document = store.read(lambda unit: unit.document("document", key))
    assert document is not None
    assert [one.data for one in document.log.read()] == [b"first", b"second"]
    assert store.read(lambda unit: unit.logged(document, [id, key])) == {id}
    assert store.read(lambda unit: unit.logged(other, [id])) == set()
    with pytest.raises(NotFound):
        store.write(lambda unit: unit.use(document, session, ["0" * 64]))
    store.write(lambda unit: unit.delete(document))
    with pytest.raises(NotFound):
        store.write(lambda unit: unit.log(document, [(None, b"third")]))


def test_documents_and_entries_are_redacted(tmp_path: Path) -> None:
    """A store with rules keeps no secret in them, unless the caller needs its bytes back as they are."""
    secret = b"AKIA" + b"Q7ZLXKCMWPBRTNDV"
    with clew.open(tmp_path / "s.db", redact=Rules(builtin())) as store:
        session = talk(store, "1")

        def work(unit: Unit) -> None:
            document = unit.put("document", store.derived_id("a"), b'"%s"' % secret, owner=session)
            unit.log(document, [(None, b"key " + secret)])

        store.write(work)
        (document,) = store.documents("document")
        assert secret not in document.data + b"".join(one.data for one in document.log.read())
        store.write(lambda unit: unit.put("document", store.derived_id("b"), secret, exact=True))
        assert next(store.documents("document")).data == secret


# -- purges


def test_a_purge_is_checked_in_its_transaction(store: clew.Store) -> None:
    """What `check` reads is what the purge deletes; an error of its own reaches the caller, a ClewError the receipt."""
    session = talk(store, "1")
    seen = []

    def refuse(error: Exception) -> Callable[[clew.Session], None]:
        def check(now: clew.Session) -> None:
            seen.append((now.title, store.read(lambda unit: unit.head(now)), texts(session.path())))
            raise error

        return check

    session.rename("new")
    with pytest.raises(ValueError, match="mine"):
        session.purge(check=refuse(ValueError("mine")))
    receipt = session.purge(check=refuse(Conflict("still needed")))
    assert [one.error for one in receipt.failures] == ["still needed"]
    assert seen == [("new", session.path()[0].id, ["1"])] * 2
    assert session.purge(check=lambda _: None).failures == ()
    with pytest.raises(NotFound):
        session.purge(check=lambda _: None)


# -- workspaces


def test_workspaces_do_not_meet(tmp_path: Path) -> None:
    """No verb reads, moves to, or continues a message of another workspace, whatever id it gets."""
    with clew.open(tmp_path / "s.db", workspace="a") as a, clew.open(tmp_path / "s.db", workspace="b") as b:
        theirs, mine = talk(a, "secret", title="theirs"), talk(b, "1")
        id, key = theirs.path()[0].id, a.derived_id("k")
        a.write(lambda unit: unit.put("document", key, b'"secret"', owner=theirs))
        draft = b.draft(clew.user("secret"), id=id)
        reads: list[tuple[Callable[[Unit], object], object]] = [
            (lambda unit: unit.node(id), None),
            (lambda unit: unit.session(theirs.id), None),
            (lambda unit: unit.sessions_at(id), []),
            (lambda unit: unit.sessions_with(id), []),
            (lambda unit: unit.shares(mine, id), False),
            (lambda unit: unit.is_above(id, id), False),
            (lambda unit: unit.document("document", key), None),
            (lambda unit: unit.documents("document"), []),
        ]
        for read, nothing in reads:
            assert b.read(read) == nothing
        for verb in (
            lambda unit: unit.path(id),
            lambda unit: unit.move(mine, id),
            lambda unit: unit.rebase(mine, id),
            lambda unit: unit.append(mine, [clew.user("x")], after=id),
            lambda unit: unit.append(mine, [clew.user("x")], after=None, replaces=id),
            lambda unit: unit.branch(mine, id),
            lambda unit: unit.create(SessionData(), b.derived_id("n"), at=id),
            lambda unit: unit.put("document", b.derived_id("n"), b"", at=id),
        ):
            with pytest.raises(NotFound):
                b.write(verb)
        with pytest.raises(Conflict):
            b.read(lambda unit: unit.stored(draft))
        assert texts(theirs.path()) == ["secret"]
        assert b.verify().ok
