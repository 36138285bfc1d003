"""Forks, rewinds and compactions."""

from __future__ import annotations

from clew.base.messages import assistant, system, user
from clew.errors import Conflict, Invalid, NotFound
from clew.testing.contract import Contract, OpenStore, an_id, raises, texts


class Moving(Contract):
    """Forks, rewinds and compactions."""

    def test_fork_shares_the_past_only(self, open_store: OpenStore) -> None:
        """A fork shares earlier messages and not later ones, in both directions, as does a fork of a fork."""
        with open_store() as store:
            session = store.sessions.create(title="t", cwd="/src", labels=["x"])
            nodes = session.append([user("a"), user("b"), user("c")])
            fork = session.fork(at=nodes[1].id, title="u")
            again = fork.fork()
            for one, text in ((session, "s"), (fork, "f"), (again, "g")):
                one.append(user(text))
            assert texts(session.path()) == ["a", "b", "c", "s"]
            assert texts(fork.path()) == ["a", "b", "f"]
            assert texts(again.path()) == ["a", "b", "g"]
            assert (fork.title, fork.cwd, fork.labels) == ("u", "/src", ("x",))
            assert (fork.forked_from, fork.forked_at) == (session.id, nodes[1].id)
            assert {node.id for node in store.nodes.children(nodes[1].id)} == {
                nodes[2].id, fork.refresh().head_id, again.refresh().head_id,
            }  # fmt: skip

    def test_fork_refuses(self, open_store: OpenStore) -> None:
        """A fork needs a source, a message of its tree, and an id that is free."""
        with open_store() as store:
            session, other = store.sessions.create(), store.sessions.create()
            elsewhere = other.append(user("x"))
            with raises(NotFound):
                store.sessions.fork(an_id(1))
            for missing in (an_id(1), elsewhere.id):
                with raises(NotFound):
                    session.fork(at=missing)
            with raises(Conflict):
                session.fork(id=other.id)
            assert store.sessions.list(total=True).total == 2
            assert session.fork().path() == []

    def test_rewind_keeps_what_it_leaves(self, open_store: OpenStore) -> None:
        """A rewind moves the head back, even before the first message; the rest stays readable as a branch."""
        with open_store() as store:
            session = store.sessions.create()
            nodes = session.append([user("a"), user("b"), user("c")])
            left = session.rewind(nodes[0].id)
            assert left is not None
            assert store.nodes.path(left.head_id) == nodes
            assert session.rewind(nodes[0].id) is None
            session.append(user("d"))
            assert texts(session.path()) == ["a", "d"]
            session.rewind(None)
            assert session.path() == []
            session.append(user("e"))
            assert texts(session.path()) == ["e"]
            assert [texts(store.nodes.path(one.head_id)) for one in session.branches()] == [
                ["a", "b", "c"],
                ["a", "d"],
            ]
            with raises(NotFound):
                session.rewind(nodes[2].id)

    def test_compact(self, open_store: OpenStore) -> None:
        """`path` starts at the last summary; `history` starts at the first message."""
        with open_store() as store:
            session = store.sessions.create()
            with raises(Invalid):
                session.compact(user("nothing to sum up"))
            session.append([user("a"), assistant("b")])
            root = session.compact([system("first"), user("c")])[0]
            session.append(assistant("d"))
            session.compact(system("second"))
            assert root.parent_id is None
            assert texts(session.path()) == ["second"]
            assert texts(session.history()) == ["a", "b", "first", "c", "d", "second"]
            assert session.counters.messages == 6
