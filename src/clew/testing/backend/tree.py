"""Messages without a session; forks, rewinds and compactions."""

from __future__ import annotations

from typing import Any

from clew.base.messages import assistant, system, user
from clew.errors import Conflict, Invalid, NotFound
from clew.store.nodes import NewNode
from clew.testing.contract import Contract, FakeClock, OpenStore, an_id, raises, texts


class Tree(Contract):
    """Messages without a session."""

    def test_nodes_save(self, open_store: OpenStore) -> None:
        """`save` stores a chain, or messages with given parents, in any order, all or none, once per id."""
        with open_store() as store:
            root, child = store.nodes.save([user("a"), user("b")])
            saves = [
                NewNode(user("d"), parent=an_id(2), id=an_id(3)),
                NewNode(user("c"), parent=root.id, id=an_id(2)),
                NewNode(user("r"), parent=None, id=an_id(4)),
            ]
            nodes = store.nodes.save(saves)
            assert [node.parent_id for node in nodes] == [an_id(2), root.id, None]
            assert store.nodes.save(saves) == nodes
            with raises(NotFound):
                store.nodes.save([user("new"), NewNode(user("x"), parent=an_id(9))])
            for other in (
                NewNode(user("c"), parent=child.id, id=an_id(2)),
                NewNode(user("x"), parent=root.id, id=an_id(2)),
            ):
                with raises(Conflict):
                    store.nodes.save([user("new"), other])
            assert len(store.nodes.list().items) == 5
            assert texts(store.nodes.children(root.id)) == ["b", "c"]
            assert texts(store.nodes.subtree(root.id)) == ["a", "b", "c", "d"]

    def test_save_dialog(self, open_store: OpenStore) -> None:
        """`save_dialog` verifies the stored nodes of a dialog and saves the rest."""
        with open_store() as store:
            known = store.nodes.save([user("a"), assistant("b")])
            nodes = store.nodes.save_dialog([*known, user("c"), assistant("d")])
            assert nodes[:2] == known
            assert texts(store.nodes.path(nodes[-1].id)) == ["a", "b", "c", "d"]
            stranger = store.nodes.save(user("x"))[0]
            dialogs: list[list[Any]]
            dialogs = [[*known, stranger], [known[1]], [user("n"), known[0]], [NewNode(user("n")), known[0]]]
            for dialog in dialogs:
                with raises(Conflict):
                    store.nodes.save_dialog(dialog)
            store.nodes.delete(stranger.id)
            with raises(Conflict):
                store.nodes.save_dialog([stranger, user("n")])
            assert len(store.nodes.list().items) == 4

    def test_nodes_get_and_list(self, open_store: OpenStore) -> None:
        """`get` keeps the requested order, and raises if one is missing; `list` pages newest or oldest first."""
        with open_store(clock=FakeClock()) as store:
            nodes = store.nodes.save([user(str(number)) for number in range(7)])
            assert store.nodes.get([nodes[2].id, nodes[0].id, nodes[2].id]) == [nodes[2], nodes[0], nodes[2]]
            assert store.nodes.get([]) == []
            with raises(NotFound):
                store.nodes.get([nodes[0].id, an_id(1)])
            page = store.nodes.list(limit=3)
            assert page.items == nodes[:3:-1]
            store.nodes.save(user("later"))
            assert store.nodes.list(limit=9, cursor=page.next_cursor).items == nodes[3::-1]
            assert store.nodes.list(limit=2, offset=1, ascending=True).items == nodes[1:3]
            assert store.nodes.list(offset=99).items == []

    def test_nodes_out_of_sight(self, open_store: OpenStore) -> None:
        """`list` includes nodes in the trash, or with ``trashed=False`` omits those that only the trash has."""
        with open_store() as store:
            session = store.sessions.create()
            nodes = session.append([user("a"), user("b"), user("c")])
            fork = session.fork(at=nodes[0].id)
            forked = fork.append([user(f"f{number}") for number in range(5)])
            saved = store.nodes.save(user("s"), parent=nodes[1].id)
            fork.trash()
            everything = [*nodes, *forked, *saved]
            assert store.nodes.list(ascending=True).items == everything
            seen = [*nodes, *saved]
            assert store.nodes.list(ascending=True, trashed=False).items == seen
            assert store.nodes.list(trashed=False).items == seen[::-1]
            assert store.nodes.list(trashed=False, ascending=True, offset=3).items == saved
            page = store.nodes.list(trashed=False, limit=3)
            assert page.items == seen[:0:-1]
            rest = store.nodes.list(trashed=False, cursor=page.next_cursor)
            assert (rest.items, rest.next_cursor) == (nodes[:1], None)
            session.trash()
            assert store.nodes.list(trashed=False).items == [saved[0], nodes[1], nodes[0]]
            store.sessions.restore(fork.id)
            assert store.nodes.list(trashed=False, limit=100).items[-2:] == [nodes[1], nodes[0]]
            assert len(store.nodes.list(trashed=False).items) == 8

    def test_nodes_delete(self, open_store: OpenStore) -> None:
        """`delete` is atomic, refuses a parent without its children, and ignores unknown ids."""
        with open_store() as store:
            a, b, c = store.nodes.save([user("a"), user("b"), user("c")])
            d = store.nodes.save(user("d"), parent=b.id)[0]
            with raises(Conflict):
                store.nodes.delete([c.id, a.id])
            assert len(store.nodes.list().items) == 4
            assert store.nodes.delete([an_id(1), "zzzzzz"]).messages == 0
            assert store.nodes.delete([c.id, d.id, b.id]).messages == 3
            assert store.nodes.path(a.id) == [a]
            store.nodes.save([user("e"), user("f")], parent=a.id)
            assert store.nodes.delete(a.id, recursive=True).messages == 3
            assert store.nodes.list().items == []

    def test_sessions_follow_deleted_heads(self, open_store: OpenStore) -> None:
        """A session whose last messages are deleted by id moves its head to the nearest remaining one."""
        with open_store() as store:
            session = store.sessions.create()
            a, b, _ = session.append([user("a"), user("b"), user("c")])
            fork = session.fork(at=b.id)
            store.nodes.delete(b.id, recursive=True)
            assert session.path() == fork.path() == [a]
            session.append(user("d"))
            assert texts(session.path()) == ["a", "d"]
            store.nodes.delete(a.id, recursive=True)
            assert session.path() == fork.path() == []


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
