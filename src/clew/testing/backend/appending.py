"""Appends: results, repeated calls, conflicts; transactions, close, and visibility to others."""

from __future__ import annotations

import threading
from contextlib import suppress
from datetime import UTC, datetime

from clew.base.messages import assistant, user
from clew.errors import Closed, Conflict, Invalid, NotFound
from clew.store.session import delete_session
from clew.testing.contract import Contract, FakeClock, OpenStore, an_id, raises, skip, texts


class Appending(Contract):
    """Appends: results, repeated calls, and conflicts."""

    def test_append_returns_what_was_stored(self, open_store: OpenStore) -> None:
        """`append` returns a node with an id, a parent, a time and the content."""
        with open_store(clock=FakeClock(1_000_000)) as store:
            session = store.sessions.create()
            first, second = session.append(user("hello")), session.append(assistant("hi", model="m"))
            assert (first.parent_id, second.parent_id) == (None, first.id)
            assert [node.message for node in session.path()] == [user("hello"), assistant("hi", model="m")]
            assert (first.role, first.depth, second.depth) == ("user", 0, 1)
            assert first.created_at == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
            assert session.head_id == second.id

    def test_append_goes_on_from_what_is_there_now(self, open_store: OpenStore) -> None:
        """An append takes into account every change since the last one, however it was made."""
        with open_store() as store:
            session = store.sessions.create()
            first = session.append(user("a"))
            beside = store.nodes.save(user("beside"), parent=first.id)[0]
            session.append(user("b"))
            assert texts(session.path()) == ["a", "b"]
            assert store.nodes.path(beside.id) == [first, beside]

            last = session.append(user("c"))
            gone = store.nodes.save(user("gone"), parent=last.id)[0]
            store.nodes.delete(gone.id)
            session.append(user("d"))
            assert texts(session.path()) == ["a", "b", "c", "d"]

            other = store.sessions.create()
            assert store.sessions.latest() == other
            session.append(user("e"))
            assert store.sessions.latest() == session

            session.rewind(first.id)
            session.append(user("f"))
            assert texts(session.path()) == ["a", "f"]

            with suppress(ZeroDivisionError), store.transaction():
                session.append(user("undone"))
                raise ZeroDivisionError
            session.append(user("g"))
            assert texts(session.path()) == ["a", "f", "g"]

            delete_session(session)
            with raises(NotFound):
                session.append(user("h"))

    def test_many_are_one(self, open_store: OpenStore) -> None:
        """Several messages are appended in order, or not at all."""
        with open_store() as store:
            session = store.sessions.create()
            session.append([user("a"), assistant("b"), user("c")])
            with raises(Invalid):
                session.append([user("d"), user("\ud800")])
            assert session.append([]) == []
            assert texts(session.path()) == ["a", "b", "c"]

    def test_same_id_is_stored_once(self, open_store: OpenStore) -> None:
        """Repeating an append with the same id changes nothing; other content with that id raises Conflict."""
        with open_store() as store:
            session = store.sessions.create()
            first = session.append(user("a"), id=an_id(1))
            session.append(user("b"))
            version = session.version
            assert session.append(user("a"), id=an_id(1)) == first
            with raises(Conflict):
                session.append(user("other"), id=an_id(1))
            with raises(Conflict):
                store.sessions.create().append(user("a"), id=an_id(1))
            assert texts(session.path()) == ["a", "b"]
            assert session.refresh().version == version

    def test_half_known_is_a_conflict(self, open_store: OpenStore) -> None:
        """If only some of several messages are stored already, none is stored, in any order."""
        with open_store() as store:
            session = store.sessions.create()
            session.append(user("a"), id=an_id(1))
            for texts_given, names in (("ba", [2, 1]), ("ab", [1, 2])):
                with raises(Conflict):
                    session.append([user(text) for text in texts_given], id=[an_id(name) for name in names])
            assert len(store.nodes.list().items) == 1

    def test_repeat_after_rewind(self, open_store: OpenStore) -> None:
        """Repeating an append that was rewound raises Conflict and stores nothing."""
        with open_store() as store:
            session = store.sessions.create()
            root = session.append(user("a"))
            session.append(user("b"), id=an_id(1))
            session.rewind(root.id)
            assert session.append(user("b"), id=an_id(1)).id == an_id(1)
            assert texts(session.path()) == ["a"]
            assert delete_session(session).messages == 2
            assert store.nodes.list().items == []

    def test_any_uuid_is_an_id(self, open_store: OpenStore) -> None:
        """UUIDs of any version are accepted as ids."""
        names = [f"00000000-0000-{version:x}000-8000-0000000000{version:02x}" for version in range(16)]
        with open_store() as store:
            session = store.sessions.create(id="ffffffff-ffff-ffff-ffff-ffffffffffff")
            session.append([user("x")] * 16, id=names)
            assert [node.id for node in session.path()] == names
            assert store.sessions.get(session.id).id == "ffffffff-ffff-ffff-ffff-ffffffffffff"

    def test_expect_head_raises(self, open_store: OpenStore) -> None:
        """With `expect_head`, the message is stored only if that is the head."""
        with open_store() as store:
            session = store.sessions.create()
            first = session.append(user("a"), expect_head=None)
            session.append(user("b"), expect_head=first.id)
            for wrong in (first.id, None, an_id(9)):
                with raises(Conflict):
                    session.append(user("c"), expect_head=wrong)
            assert texts(session.path()) == ["a", "b"]

    def test_expect_head_branches(self, open_store: OpenStore) -> None:
        """With ``on_conflict="branch"``, a late append becomes a branch at the expected head."""
        with open_store() as store:
            session = store.sessions.create()
            first = session.append(user("a"))
            session.append(user("b"))
            lost = session.append(user("c"), id=an_id(1), expect_head=first.id, on_conflict="branch")
            assert session.append(user("c"), id=an_id(1), expect_head=first.id, on_conflict="branch") == lost
            assert lost.parent_id == first.id
            assert [branch.head_id for branch in session.branches()] == [lost.id]
            assert texts(session.path()) == ["a", "b"]
            assert texts(store.nodes.path(lost.id)) == ["a", "c"]

    def test_stale_objects_append_at_the_end(self, open_store: OpenStore) -> None:
        """Without `expect_head`, a message is appended after the current last one."""
        with open_store() as store:
            one = store.sessions.create()
            two = store.sessions.get(one.id)
            for number, session in enumerate((one, two, one, two)):
                session.append(user(str(number)))
            assert texts(one.path()) == ["0", "1", "2", "3"]

    def test_threads_lose_nothing(self, open_store: OpenStore) -> None:
        """Concurrent appends of several threads are all stored; each thread's messages keep their order."""
        with open_store(durability="relaxed") as store:
            session = store.sessions.create()

            def work(writer: int) -> None:
                mine = store.sessions.get(session.id)
                for number in range(20):
                    mine.append(user(f"{writer} {number}"))

            threads = [threading.Thread(target=work, args=(writer,)) for writer in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            found = texts(session.path())
            for writer in range(4):
                own = [text for text in found if text.startswith(f"{writer} ")]
                assert own == [f"{writer} {number}" for number in range(20)]
            assert len(found) == 80


class Lasting(Contract):
    """Transactions, close, and visibility to others."""

    def test_transaction_is_all_or_none(self, open_store: OpenStore) -> None:
        """A transaction is atomic; an error that is caught inside it undoes only its own step."""
        with open_store() as store:
            session = store.sessions.create(title="old")
            with store.transaction():
                session.append(user("a"), id=an_id(1))
                session.rename("new")
                with raises(Conflict):
                    session.append([user("b"), user("c")], id=[an_id(2), an_id(1)])
                with store.transaction():
                    session.append(user("d"))
            assert (session.refresh().title, texts(session.path())) == ("new", ["a", "d"])
            with raises(NotFound), store.transaction():
                session.append(user("e"))
                lost = store.sessions.create()
                session.rewind(an_id(9))
            assert texts(session.path()) == ["a", "d"]
            store.sessions.create()
            with raises(NotFound):
                lost.append(user("x"))

    def test_closed_is_closed(self, open_store: OpenStore) -> None:
        """Every call on a closed store raises Closed; closing it again does nothing."""
        store = open_store()
        session = store.sessions.create()
        store.close()
        store.close()
        for work in (
            lambda: session.append(user("x")),
            session.path,
            store.sessions.list,
            lambda: store.nodes.save(user("x")),
        ):
            with raises(Closed):
                work()

    def test_what_was_stored_is_there_again(self, open_store: OpenStore) -> None:
        """A reopened store has everything that was stored."""
        if not self.reopens:
            skip("this store is lost on close")
        with open_store() as store:
            session = store.sessions.create(title="t", cwd="/src", model="m", labels=["x"], extra={"k": 1})
            session.append([user("a"), assistant("b"), user("c")])
            session.rewind(session.path()[1].id)
            session.log.append(b"entry")
            blob = session.blobs.put(b"bytes")
        with open_store() as store:
            again = store.sessions.latest("/src")
            assert again == session
            assert again.data == session.data
            assert (again.version, again.counters.messages) == (session.version, 2)
            assert texts(again.path()) == ["a", "b"]
            assert len(again.branches()) == len(again.log) == 1
            assert again.blobs.get(blob.digest) == b"bytes"

    def test_append_goes_on_from_what_others_left(self, open_store: OpenStore) -> None:
        """An append takes into account every change of another opener since the last one, in any session."""
        if not self.reopens:
            skip("this store cannot be opened twice")
        with open_store() as here, open_store() as there:
            session = here.sessions.create(agent="scout")
            session.append(user("a"))
            there.sessions.get(session.id).append(user("b"))
            session.append(user("c"))
            assert texts(session.path()) == ["a", "b", "c"]

            fork = there.sessions.get(session.id).fork()
            fork.append(user("elsewhere"))
            session.append(user("d"))
            assert texts(session.path()) == ["a", "b", "c", "d"]
            assert texts(fork.path()) == ["a", "b", "c", "elsewhere"]

            fork = there.sessions.get(session.id).fork()
            fork.append(user("gone"))
            delete_session(fork)
            session.append(user("e"))
            assert texts(session.path()) == ["a", "b", "c", "d", "e"]
            assert here.verify().ok

    def test_two_stores_on_one_file(self, open_store: OpenStore) -> None:
        """Two openers see each other's writes at once."""
        if not self.reopens:
            skip("this store cannot be opened twice")
        with open_store() as one, open_store() as two:
            here = one.sessions.create()
            there = two.sessions.get(here.id)
            for number, session in enumerate((here, there, there, here)):
                session.append(user(str(number)))
            assert texts(here.path()) == texts(there.path()) == ["0", "1", "2", "3"]

    def test_workspaces_are_apart(self, open_store: OpenStore) -> None:
        """A session of one workspace cannot be found or listed in another."""
        if not self.reopens:
            skip("this store cannot be opened twice")
        with open_store(workspace="a") as one, open_store(workspace="b") as two:
            mine = one.sessions.create(title="mine")
            assert two.sessions.list(total=True).total == 0
            with raises(NotFound):
                two.sessions.get(mine.id)
            with raises(NotFound):
                two.sessions.latest()
