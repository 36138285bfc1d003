"""Appends: results, repeated calls, and conflicts."""

from __future__ import annotations

import threading
from contextlib import suppress
from datetime import UTC, datetime

from clew.base.messages import assistant, user
from clew.errors import Conflict, Invalid, NotFound
from clew.store.session import delete_session
from clew.testing.contract import Contract, OpenStore, an_id, raises, texts
from clew.testing.control import FakeClock


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
