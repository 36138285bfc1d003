"""Reading, listing, finding and watching; messages without a session, forks, rewinds and compactions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

from clew.base.messages import AnyMessage, Media, ToolCall, Usage, assistant, native, system, tool, user
from clew.engine.node import Counters, Node
from clew.engine.watch import Watch
from clew.errors import Ambiguous, Closed, Conflict, Invalid, NotFound
from clew.store.nodes import NewNode
from clew.store.session import Session, delete_session
from clew.testing.contract import Contract, FakeClock, OpenStore, an_id, raises, texts, titles


class Reading(Contract):
    """Reading, listing and finding."""

    # -- reading

    def test_path_last_and_until(self, open_store: OpenStore) -> None:
        """`path` returns all messages, the last ones, or those up to a message; NotFound if that is missing."""
        with open_store() as store:
            session = store.sessions.create()
            assert session.path() == session.path(last=3) == list(session.iter()) == []
            nodes = session.append([user(str(number)) for number in range(30)])
            assert [node.parent_id for node in session.path()] == [None, *[node.id for node in nodes[:-1]]]
            assert list(session.iter()) == list(session.history()) == session.path() == nodes
            assert session.path(last=7) == nodes[-7:]
            assert session.path(last=7)[0].parent_id == nodes[-8].id
            assert (session.path(last=0), session.path(last=99)) == ([], nodes)
            assert session.path(until=nodes[4].id) == nodes[:5]
            assert session.path(until=nodes[4].id, last=2) == nodes[3:5]
            aside = store.nodes.save(user("aside"), parent=nodes[3].id)[0]
            for missing in (an_id(1), aside.id):
                with raises(NotFound):
                    session.path(until=missing)

    def test_messages_of_forks_and_compactions(self, open_store: OpenStore) -> None:
        """`messages` returns the messages of `path`, also of a path of several runs, and after a compaction."""
        with open_store() as store:
            session = store.sessions.create()
            assert session.messages() == []
            nodes = session.append([user(str(number)) for number in range(9)])
            inner = session.fork(at=nodes[5].id)
            inner.append([user("a"), user("b")])
            inner = inner.fork(at=inner.path()[-2].id)
            inner.append(user("c"))
            assert [message.text for message in inner.messages()] == ["0", "1", "2", "3", "4", "5", "a", "c"]
            assert session.messages(until=nodes[2].id) == [user("0"), user("1"), user("2")]
            session.compact(system("sum"))
            assert session.messages() == [system("sum")]

    def test_content_comes_back(self, open_store: OpenStore) -> None:
        """Every kind of block, free data, and the bytes of native JSON are read as they were stored."""
        raw = b'{ "role":"user", "z":1, "a":123456789012345678901234567890, "content":"hi", "content":"ho" }'
        messages: list[AnyMessage] = [
            system("be kind", label="setup", extra={"n": [1, 2.5, None, True, {"k": "v"}]}),
            assistant(ToolCall(id="c", name="f", arguments={"x": 1}), usage=Usage(input=3, output=4, cost=5)),
            tool("ok", call_id="c", is_error=True),
            user(Media(mime_type="image/png", modality="image", url="https://x.test/a.png")),
            native("anthropic", raw, label="l", extra={"a": 1}),
        ]
        with open_store() as store:
            session = store.sessions.create()
            session.append(messages)
            assert [node.said for node in session.path()] == messages
            assert session.messages() == [node.message for node in session.path()]
            assert session.messages(last=2) == session.messages()[-2:]
            stored = session.path()[-1].native
            assert stored is not None
            assert stored.raw == raw

    def test_handles(self, open_store: OpenStore) -> None:
        """A handle is a unique prefix of an id; it is longer if six letters are ambiguous."""
        with open_store() as store:
            session = store.sessions.create()
            session.append([user("a"), user("b"), user("c")], id=[an_id(1), an_id(2), an_id(3)])
            twins = session.append([user("d"), user("e")], id=["00000000-0000-4000-8000-00ff00000005", an_id(5)])
            for node in session.path():
                assert store.nodes.resolve(node.handle.upper()) == node.id
                assert store.nodes.get([node.handle]) == [node]
            assert min(len(node.handle) for node in twins) > 6
            with raises(Ambiguous):
                store.nodes.resolve(twins[0].handle[:6])
            with raises(NotFound):
                store.nodes.resolve("zzzzzz")
            assert store.sessions.get(session.handle) == session

    def test_counters(self, open_store: OpenStore) -> None:
        """A session's counters are those of its head, also after a fork, a rewind, a compaction and a refresh."""
        spent = Usage(input=10, output=5, cost=7)
        with open_store() as store:
            session = store.sessions.create()
            assert session.counters == Counters()
            asked = session.append(user("a"))
            session.append([assistant("b", usage=spent), user("c"), assistant("d", usage=spent)])
            assert session.counters == Counters(4, 2, 20, 10, 14)
            assert session.fork(at=asked.id).counters == Counters(1, 1)
            session.compact(user("summary"))
            assert session.counters == Counters(5, 3, 20, 10, 14)
            session.append(assistant("silent"))
            assert session.counters == Counters(6, 3, 20, 10, 14, tokens_known=False, cost_known=False)
            assert store.sessions.get(session.id).counters == session.counters

    # -- finding

    def test_list_is_by_last_activity(self, open_store: OpenStore) -> None:
        """The session with the last message is listed first, whatever the clock says; a rename does not count."""
        clock = FakeClock()
        with open_store(clock=clock) as store:
            one, two, three = (store.sessions.create(title=title) for title in ("one", "two", "three"))
            assert titles(store.sessions.list().items) == ["three", "two", "one"]
            clock.advance(-timedelta(days=1))
            one.append(user("x"))
            two.rename("2").label("l")
            assert titles(store.sessions.list().items) == ["one", "three", "2"]
            assert store.sessions.latest() == one
            three.fork(title="four")
            assert store.sessions.latest().title == "four"

    def test_latest_is_of_the_exact_directory(self, open_store: OpenStore) -> None:
        """`latest` returns only sessions of the directory and no subagents; NotFound if there is none."""
        with open_store() as store:
            with raises(NotFound):
                store.sessions.latest()
            mine = store.sessions.create(cwd="/a/b")
            store.sessions.create(cwd="/a-b")
            store.sessions.create(cwd="/a")
            trace = store.sessions.create(cwd="/a/b", agent="explorer", owner=mine)
            trace.append(user("x"))
            assert store.sessions.latest("/a/b") == store.sessions.latest(cwd="/a/b/") == mine
            assert (mine.subagents(), trace.is_subagent) == ([trace], True)
            assert store.sessions.list(subagents=True).items == [trace]
            with raises(NotFound):
                store.sessions.latest("/a/b/c")

    def test_list_filters(self, open_store: OpenStore) -> None:
        """The list and its total are filtered by directory, label and title, alone and together."""
        with open_store() as store:
            for number in range(12):
                store.sessions.create(
                    title=f"Talk {number}",
                    cwd="/even" if number % 2 == 0 else "/odd",
                    labels=["third"] * (number % 3 == 0),
                )
            page = store.sessions.list(cwd="/even", label="third", total=True)
            assert (titles(page.items), page.total) == (["Talk 6", "Talk 0"], 2)
            assert titles(store.sessions.list(title="TALK 1").items) == ["Talk 11", "Talk 10", "Talk 1"]
            page = store.sessions.list(title="talk", label="third", limit=1, total=True)
            assert (titles(page.items), page.total) == (["Talk 9"], 4)
            page = store.sessions.list(title="talk", label="third", limit=9, cursor=page.next_cursor)
            assert titles(page.items) == ["Talk 6", "Talk 3", "Talk 0"]
            session = store.sessions.get(store.sessions.latest().id).label("new", remove=["third"])
            assert store.sessions.list(label="new").items == [session]

    def test_cursors_hold_while_things_change(self, open_store: OpenStore) -> None:
        """Pages contain every session once, even if others are created, moved or deleted in between."""
        with open_store() as store:
            made = [store.sessions.create(title=str(number)) for number in range(9)]
            page = store.sessions.list(limit=4)
            assert titles(page.items) == ["8", "7", "6", "5"]
            store.sessions.create(title="new")
            made[6].append(user("x"))
            delete_session(made[5])
            delete_session(made[3])
            rest = store.sessions.list(limit=4, cursor=page.next_cursor)
            assert titles(rest.items) == ["4", "2", "1", "0"]
            assert rest.next_cursor is None
            for bad in ("", "x", "ff.1.00000000", f"{page.next_cursor}0"):
                with raises(Invalid):
                    store.sessions.list(cursor=bad)


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


LONG = 20.0
"""Seconds after which an expected message must have arrived."""


class Watching(Contract):
    """Watching a session."""

    def test_watch_gives_each_message_once(self, open_store: OpenStore) -> None:
        """A watch yields new messages of any writer in order, each once, and no earlier ones."""
        with open_store() as store, open_store() if self.reopens else store as other:
            session = store.sessions.create()
            session.append(user("before"))
            theirs = other.sessions.get(session.id)
            with session.watch(timeout=LONG) as watch:
                writer = _meanwhile(lambda: _say(theirs, 30))
                received = [next(watch) for _ in range(30)]
                writer.join()
                assert texts(received) == [str(number) for number in range(30)]
                assert received == session.path(last=30)
                session.append([user("a"), user("b")])
                assert texts([next(watch), next(watch)]) == ["a", "b"]

    def test_watch_wakes_who_waits(self, open_store: OpenStore) -> None:
        """A waiting watch yields a new message at once, not at its timeout."""
        with open_store() as store, store.sessions.create().watch(timeout=LONG) as watch:
            began = time.monotonic()
            writer = _meanwhile(lambda: _say(store.sessions.latest(), 1), after=0.5)
            assert next(watch).text == "0"
            writer.join()
            assert time.monotonic() - began < LONG / 2

    def test_watch_begins_where_it_is_told(self, open_store: OpenStore) -> None:
        """`after` starts after that message, or with None at the first; NotFound for another session's message."""
        with open_store() as store:
            session, other = store.sessions.create(), store.sessions.create()
            assert _new(session, None) == []
            nodes = session.append([user("a"), user("b"), user("c")])
            stranger = other.append(user("x"))
            assert _new(session, None) == ["a", "b", "c"]
            assert _new(session, nodes[0].id) == _new(session, nodes[0].handle) == ["b", "c"]
            assert _new(session, nodes[2].id) == texts(session.watch(timeout=0)) == []
            for wrong in (stranger.id, an_id(1)):
                with raises(NotFound):
                    next(session.watch(after=wrong))

    def test_watch_catches_up_with_much(self, open_store: OpenStore) -> None:
        """A watch yields all messages of a long session, with their parents, across forks and compactions."""
        with open_store() as store:
            origin = store.sessions.create()
            first = origin.append([user(f"{number}") for number in range(700)])
            session = origin.fork(at=first[600].id)
            session.append([user("after the fork"), user("and on")])
            session.compact([user("summary")])
            session.append(user("later"))
            wanted = list(session.history())
            given = list(session.watch(after=None, timeout=0))
            assert given == wanted
            assert [node.parent_id for node in given] == [node.parent_id for node in wanted]
            assert _new(session, first[600].id) == ["after the fork", "and on", "summary", "later"]

    def test_watch_follows_the_head(self, open_store: OpenStore) -> None:
        """After a rewind, a watch continues with new messages of the new path and repeats none."""
        with open_store() as store:
            session = store.sessions.create()
            nodes = session.append([user("a"), user("b"), user("c")])
            watch = session.watch(timeout=LONG)
            with watch:
                session.append(user("d"))
                assert next(watch).text == "d"
                session.rewind(nodes[1].id)
                session.append(user("e"))
                given = next(watch)
                assert (given.text, given.parent_id) == ("e", nodes[1].id)
                session.append(user("taken back"))
                session.rewind(None)
                session.append(user("f"))
                assert (next(watch).text, session.path()[0].parent_id) == ("f", None)
                session.compact([user("g")])
                session.append(user("h"))
                assert texts([next(watch), next(watch)]) == ["g", "h"]
            assert _new(session, nodes[2].id) == ["f", "g", "h"]

    def test_watch_of_what_is_gone(self, open_store: OpenStore) -> None:
        """A watch raises NotFound for a trashed or deleted session; after a restore it continues."""
        with open_store() as store:
            session = store.sessions.create()
            with session.watch(timeout=LONG) as watch:
                session.append(user("a"))
                assert next(watch).text == "a"
                gone = _meanwhile(session.trash, after=0.2)
                with raises(NotFound):
                    next(watch)
                gone.join()
                store.sessions.restore(session.id).append(user("b"))
                assert next(watch).text == "b"
                gone = _meanwhile(lambda: delete_session(store.sessions.get(session.id)), after=0.2)
                with raises(NotFound):
                    next(watch)
                gone.join()

    def test_watch_ends(self, open_store: OpenStore) -> None:
        """A watch ends at its timeout, or when another thread closes it; Closed if the store is closed."""
        store = open_store()
        session = store.sessions.create()
        watch = session.watch(timeout=0.1)
        session.append(user("before it begins"))
        assert list(watch) == []
        session.append(user("too late"))
        assert list(watch) == []
        watch = session.watch()
        ending = _meanwhile(watch.close, after=0.2)
        assert list(watch) == []
        ending.join()
        watch = session.watch()
        ending = _meanwhile(store.close, after=0.2)
        with raises(Closed):
            next(watch)
        ending.join()
        with raises(Closed):
            next(watch)

    def test_watch_refuses(self, open_store: OpenStore) -> None:
        """`watch` refuses to run inside a transaction, and invalid arguments."""
        with open_store() as store:
            session = store.sessions.create()
            with store.transaction(), raises(Invalid):
                next(session.watch())
            for wrong in ({"after": 1}, {"timeout": -1}, {"timeout": "long"}):
                with raises(Invalid):
                    session.watch(**wrong)

    def test_many_watch_at_once(self, open_store: OpenStore) -> None:
        """Each of many watches yields all messages of its own session."""
        with open_store() as store:
            sessions = [store.sessions.create() for _ in range(6)]
            watches = [(session, session.watch(timeout=LONG)) for session in sessions for _ in range(3)]
            received: dict[Watch, list[Node]] = {}

            def listen(watch: Watch) -> None:
                with watch:
                    begun.wait()
                    received[watch] = [next(watch) for _ in range(5)]

            begun = threading.Barrier(len(watches) + 1)
            listeners = [_meanwhile(partial(listen, watch)) for _, watch in watches]
            begun.wait()
            for number in range(5):
                for session in sessions:
                    session.append(user(f"{session.id} {number}"))
            for listener in listeners:
                listener.join()
            for session, watch in watches:
                assert texts(received[watch]) == [f"{session.id} {number}" for number in range(5)]


def _new(session: Session, after: str | None) -> list[str]:
    """The messages that a watch yields without waiting."""
    return texts(session.watch(after=after, timeout=0))


def _say(session: Session, count: int) -> None:
    for number in range(count):
        session.append(user(str(number)))


def _meanwhile(work: Callable[[], object], *, after: float = 0.0) -> threading.Thread:
    """Runs a function a moment later on another thread."""

    def run() -> None:
        time.sleep(after)
        work()

    thread = threading.Thread(target=run)
    thread.start()
    return thread
