"""Transactions, close, and visibility to others."""

from __future__ import annotations

from clew.base.messages import assistant, user
from clew.errors import Closed, Conflict, NotFound
from clew.store.session import delete_session
from clew.testing.contract import Contract, OpenStore, an_id, raises, skip, texts


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
