"""What every backend must do, as tests; and a clock and ids that a test controls.

`BackendConformance` is a class for pytest. A backend's tests subclass it and provide one fixture::

    class TestMine(BackendConformance):
        @pytest.fixture
        def open_store(self, tmp_path):
            return lambda **settings: clew.open(tmp_path / "chats.db", **settings)

Each test is one sentence of the contract, and uses nothing but a store's public names. pytest itself is only needed
to run them.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from clew import ids
from clew.errors import Ambiguous, ClewError, Closed, Conflict, Invalid, NotFound
from clew.model import Media, Said, ToolCall, Usage, assistant, native, system, tool, user
from clew.node import Counters, Node
from clew.nodes import Save
from clew.session import Session
from clew.store import Store

OpenStore = Callable[..., Store]
"""Opens the store under test, with the settings of `clew.open`; called again, it opens the same store again."""


class FakeClock:
    """A clock that moves when it is told to: microseconds since 1970, for `clew.open(clock=…)`."""

    def __init__(self, start: int = 1_700_000_000_000_000, *, tick: int = 0) -> None:
        self.now = start
        """What the next call answers."""
        self.tick = tick
        """Microseconds that pass with every call."""

    def __call__(self) -> int:
        now = self.now
        self.now += self.tick
        return now

    def advance(self, by: int | timedelta = 1) -> None:
        """Moves it by microseconds, or by a timedelta; backwards if that is negative."""
        self.now += by if isinstance(by, int) else by // timedelta(microseconds=1)


class SequentialIds:
    """Ids that count up from `first`, in stored form, for `clew.open(ids=…)`: the same in every run."""

    def __init__(self, first: int = 1) -> None:
        self._numbers = itertools.count(first)

    def __call__(self) -> bytes:
        return ids.parse(f"00000000-0000-7000-8000-{next(self._numbers):012x}")


class BackendConformance:
    """The contract of a backend. Subclass it, and provide the fixture `open_store`: an `OpenStore`."""

    reopens = True
    """False for a store that ends when it is closed, and that only its opener sees."""

    # -- appending

    def test_append_returns_what_was_stored(self, open_store: OpenStore) -> None:
        """An appended message comes back with an id, a parent, a time and its content."""
        with open_store(clock=FakeClock(1_000_000)) as store:
            session = store.sessions.create()
            first, second = session.append(user("hello")), session.append(assistant("hi", model="m"))
            assert (first.parent_id, second.parent_id) == (None, first.id)
            assert [node.message for node in session.path()] == [user("hello"), assistant("hi", model="m")]
            assert (first.role, first.depth, second.depth) == ("user", 0, 1)
            assert first.created_at == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
            assert session.head_id == second.id

    def test_append_goes_on_from_what_is_there_now(self, open_store: OpenStore) -> None:
        """Whatever happened since the last append, by whatever way, the next one sees: nothing is taken for granted."""
        with open_store() as store:
            session = store.sessions.create()
            first = session.append(user("a"))
            beside = store.nodes.save(user("beside"), parent=first.id)[0]
            session.append(user("b"))
            assert _texts(session.path()) == ["a", "b"]
            assert store.nodes.path(beside.id) == [first, beside]

            last = session.append(user("c"))
            gone = store.nodes.save(user("gone"), parent=last.id)[0]
            store.nodes.delete(gone.id)
            session.append(user("d"))
            assert _texts(session.path()) == ["a", "b", "c", "d"]

            other = store.sessions.create()
            assert store.sessions.latest() == other
            session.append(user("e"))
            assert store.sessions.latest() == session

            session.rewind(first.id)
            session.append(user("f"))
            assert _texts(session.path()) == ["a", "f"]

            with suppress(ZeroDivisionError), store.transaction():
                session.append(user("undone"))
                raise ZeroDivisionError
            session.append(user("g"))
            assert _texts(session.path()) == ["a", "f", "g"]

            session.delete()
            with _raises(NotFound):
                session.append(user("h"))

    def test_many_are_one(self, open_store: OpenStore) -> None:
        """Several messages are appended in order, or not at all."""
        with open_store() as store:
            session = store.sessions.create()
            session.append([user("a"), assistant("b"), user("c")])
            with _raises(Invalid):
                session.append([user("d"), user("\ud800")])
            assert session.append([]) == []
            assert _texts(session.path()) == ["a", "b", "c"]

    def test_same_id_is_stored_once(self, open_store: OpenStore) -> None:
        """Appending again under the same id answers as before and moves nothing; other content is a Conflict."""
        with open_store() as store:
            session = store.sessions.create()
            first = session.append(user("a"), id=_id(1))
            session.append(user("b"))
            version = session.version
            assert session.append(user("a"), id=_id(1)) == first
            with _raises(Conflict):
                session.append(user("other"), id=_id(1))
            with _raises(Conflict):
                store.sessions.create().append(user("a"), id=_id(1))
            assert _texts(session.path()) == ["a", "b"]
            assert session.refresh().version == version

    def test_half_known_is_a_conflict(self, open_store: OpenStore) -> None:
        """If some of several messages are stored and some are not, none is stored now, in whatever order they are."""
        with open_store() as store:
            session = store.sessions.create()
            session.append(user("a"), id=_id(1))
            for said, names in (("ba", [2, 1]), ("ab", [1, 2])):
                with _raises(Conflict):
                    session.append([user(text) for text in said], id=[_id(name) for name in names])
            assert len(store.nodes.list().items) == 1

    def test_repeat_after_rewind(self, open_store: OpenStore) -> None:
        """A repeated append does not come back into a session that has left it; it leaves nothing behind either."""
        with open_store() as store:
            session = store.sessions.create()
            root = session.append(user("a"))
            session.append(user("b"), id=_id(1))
            session.rewind(root.id)
            assert session.append(user("b"), id=_id(1)).id == _id(1)
            assert _texts(session.path()) == ["a"]
            assert session.delete() == 2
            assert store.nodes.list().items == []

    def test_any_uuid_is_an_id(self, open_store: OpenStore) -> None:
        """Ids of any version are taken as they are."""
        names = [f"00000000-0000-{version:x}000-8000-0000000000{version:02x}" for version in range(16)]
        with open_store() as store:
            session = store.sessions.create(id="ffffffff-ffff-ffff-ffff-ffffffffffff")
            session.append([user("x")] * 16, id=names)
            assert [node.id for node in session.path()] == names
            assert store.sessions.get(session.id).id == "ffffffff-ffff-ffff-ffff-ffffffffffff"

    def test_expect_head_raises(self, open_store: OpenStore) -> None:
        """With the wrong head expected nothing is stored; with the right one the message is."""
        with open_store() as store:
            session = store.sessions.create()
            first = session.append(user("a"), expect_head=None)
            session.append(user("b"), expect_head=first.id)
            for wrong in (first.id, None, _id(9)):
                with _raises(Conflict):
                    session.append(user("c"), expect_head=wrong)
            assert _texts(session.path()) == ["a", "b"]

    def test_expect_head_branches(self, open_store: OpenStore) -> None:
        """The loser of a race becomes a branch where it thought the head was; both are kept."""
        with open_store() as store:
            session = store.sessions.create()
            first = session.append(user("a"))
            session.append(user("b"))
            lost = session.append(user("c"), id=_id(1), expect_head=first.id, on_conflict="branch")
            assert session.append(user("c"), id=_id(1), expect_head=first.id, on_conflict="branch") == lost
            assert lost.parent_id == first.id
            assert [branch.head_id for branch in session.branches()] == [lost.id]
            assert _texts(session.path()) == ["a", "b"]
            assert _texts(store.nodes.path(lost.id)) == ["a", "c"]

    def test_stale_objects_append_at_the_end(self, open_store: OpenStore) -> None:
        """Without an expected head, a message goes after whatever is last now."""
        with open_store() as store:
            one = store.sessions.create()
            two = store.sessions.get(one.id)
            for number, session in enumerate((one, two, one, two)):
                session.append(user(str(number)))
            assert _texts(one.path()) == ["0", "1", "2", "3"]

    def test_threads_lose_nothing(self, open_store: OpenStore) -> None:
        """Threads that append to one session interleave; each keeps its own order, and nothing is lost."""
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
            said = _texts(session.path())
            for writer in range(4):
                own = [text for text in said if text.startswith(f"{writer} ")]
                assert own == [f"{writer} {number}" for number in range(20)]
            assert len(said) == 80

    # -- reading

    def test_path_last_and_until(self, open_store: OpenStore) -> None:
        """`path` reads all, the last ones, or up to and with a message; a message that is not there is NotFound."""
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
            for missing in (_id(1), aside.id):
                with _raises(NotFound):
                    session.path(until=missing)

    def test_content_comes_back(self, open_store: OpenStore) -> None:
        """Every kind of block, free data, and native JSON byte for byte come back as they were given."""
        raw = b'{ "role":"user", "z":1, "a":123456789012345678901234567890, "content":"hi", "content":"ho" }'
        said: list[Said] = [
            system("be kind", label="setup", extra={"n": [1, 2.5, None, True, {"k": "v"}]}),
            assistant(ToolCall(id="c", name="f", arguments={"x": 1}), usage=Usage(input=3, output=4, cost=5)),
            tool("ok", call_id="c", is_error=True),
            user(Media(mime_type="image/png", modality="image", url="https://x.test/a.png")),
            native("anthropic", raw, label="l", extra={"a": 1}),
        ]
        with open_store() as store:
            session = store.sessions.create()
            session.append(said)
            assert [node.said for node in session.path()] == said
            kept = session.path()[-1].native
            assert kept is not None
            assert kept.raw == raw

    def test_handles(self, open_store: OpenStore) -> None:
        """A handle means the one id it begins; it is longer where six letters do not tell."""
        with open_store() as store:
            session = store.sessions.create()
            session.append([user("a"), user("b"), user("c")], id=[_id(1), _id(2), _id(3)])
            twins = session.append([user("d"), user("e")], id=["00000000-0000-4000-8000-00ff00000005", _id(5)])
            for node in session.path():
                assert store.nodes.resolve(node.handle.upper()) == node.id
                assert store.nodes.get([node.handle]) == [node]
            assert min(len(node.handle) for node in twins) > 6
            with _raises(Ambiguous):
                store.nodes.resolve(twins[0].handle[:6])
            with _raises(NotFound):
                store.nodes.resolve("zzzzzz")
            assert store.sessions.get(session.handle) == session

    def test_counters(self, open_store: OpenStore) -> None:
        """A session's counters are those of its head: after a fork, a rewind, a compaction, a reading anew."""
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

    # -- going elsewhere

    def test_fork_shares_the_past_only(self, open_store: OpenStore) -> None:
        """A fork sees what came before and not what comes after; so does a fork of a fork, and so does its source."""
        with open_store() as store:
            session = store.sessions.create(title="t", cwd="/src", labels=["x"])
            nodes = session.append([user("a"), user("b"), user("c")])
            fork = session.fork(at=nodes[1].id, title="u")
            again = fork.fork()
            for one, text in ((session, "s"), (fork, "f"), (again, "g")):
                one.append(user(text))
            assert _texts(session.path()) == ["a", "b", "c", "s"]
            assert _texts(fork.path()) == ["a", "b", "f"]
            assert _texts(again.path()) == ["a", "b", "g"]
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
            with _raises(NotFound):
                store.sessions.fork(_id(1))
            for missing in (_id(1), elsewhere.id):
                with _raises(NotFound):
                    session.fork(at=missing)
            with _raises(Conflict):
                session.fork(id=other.id)
            assert store.sessions.list(total=True).total == 2
            assert session.fork().path() == []

    def test_rewind_keeps_what_it_leaves(self, open_store: OpenStore) -> None:
        """A rewind moves the head up, also to before the first; what it leaves stays readable as a branch."""
        with open_store() as store:
            session = store.sessions.create()
            nodes = session.append([user("a"), user("b"), user("c")])
            left = session.rewind(nodes[0].id)
            assert left is not None
            assert store.nodes.path(left.head_id) == nodes
            assert session.rewind(nodes[0].id) is None
            session.append(user("d"))
            assert _texts(session.path()) == ["a", "d"]
            session.rewind(None)
            assert session.path() == []
            session.append(user("e"))
            assert _texts(session.path()) == ["e"]
            assert [_texts(store.nodes.path(one.head_id)) for one in session.branches()] == [
                ["a", "b", "c"],
                ["a", "d"],
            ]
            with _raises(NotFound):
                session.rewind(nodes[2].id)

    def test_compact(self, open_store: OpenStore) -> None:
        """`path` begins at the last summary; `history` goes back to the first message."""
        with open_store() as store:
            session = store.sessions.create()
            with _raises(Invalid):
                session.compact(user("nothing to sum up"))
            session.append([user("a"), assistant("b")])
            root = session.compact([system("first"), user("c")])[0]
            session.append(assistant("d"))
            session.compact(system("second"))
            assert root.parent_id is None
            assert _texts(session.path()) == ["second"]
            assert _texts(session.history()) == ["a", "b", "first", "c", "d", "second"]
            assert session.counters.messages == 6

    # -- finding

    def test_list_is_by_last_activity(self, open_store: OpenStore) -> None:
        """The session last talked in is first, whatever the clock says; a new title is no activity."""
        clock = FakeClock()
        with open_store(clock=clock) as store:
            one, two, three = (store.sessions.create(title=title) for title in ("one", "two", "three"))
            assert _titles(store.sessions.list().items) == ["three", "two", "one"]
            clock.advance(-timedelta(days=1))
            one.append(user("x"))
            two.rename("2").label("l")
            assert _titles(store.sessions.list().items) == ["one", "three", "2"]
            assert store.sessions.latest() == one
            three.fork(title="four")
            assert store.sessions.latest().title == "four"

    def test_latest_is_of_the_exact_directory(self, open_store: OpenStore) -> None:
        """`latest` never crosses into another directory, and never picks a subagent; none is NotFound."""
        with open_store() as store:
            with _raises(NotFound):
                store.sessions.latest()
            mine = store.sessions.create(cwd="/a/b")
            store.sessions.create(cwd="/a-b")
            store.sessions.create(cwd="/a")
            trace = store.sessions.create(cwd="/a/b", agent="explorer", owner=mine)
            trace.append(user("x"))
            assert store.sessions.latest("/a/b") == store.sessions.latest(cwd="/a/b/") == mine
            assert (mine.subagents(), trace.is_subagent) == ([trace], True)
            assert store.sessions.list(subagents=True).items == [trace]
            with _raises(NotFound):
                store.sessions.latest("/a/b/c")

    def test_list_filters(self, open_store: OpenStore) -> None:
        """Directory, label and words of the title filter the list, alone and together; the total counts the same."""
        with open_store() as store:
            for number in range(12):
                store.sessions.create(
                    title=f"Talk {number}",
                    cwd="/even" if number % 2 == 0 else "/odd",
                    labels=["third"] * (number % 3 == 0),
                )
            page = store.sessions.list(cwd="/even", label="third", total=True)
            assert (_titles(page.items), page.total) == (["Talk 6", "Talk 0"], 2)
            assert _titles(store.sessions.list(title="TALK 1").items) == ["Talk 11", "Talk 10", "Talk 1"]
            page = store.sessions.list(title="talk", label="third", limit=1, total=True)
            assert (_titles(page.items), page.total) == (["Talk 9"], 4)
            page = store.sessions.list(title="talk", label="third", limit=9, cursor=page.next_cursor)
            assert _titles(page.items) == ["Talk 6", "Talk 3", "Talk 0"]
            session = store.sessions.label(store.sessions.latest().id, "new", remove=["third"])
            assert store.sessions.list(label="new").items == [session]

    def test_cursors_hold_while_things_change(self, open_store: OpenStore) -> None:
        """Pages cover every session once, also when others are created, moved or deleted in between."""
        with open_store() as store:
            made = [store.sessions.create(title=str(number)) for number in range(9)]
            page = store.sessions.list(limit=4)
            assert _titles(page.items) == ["8", "7", "6", "5"]
            store.sessions.create(title="new")
            made[6].append(user("x"))
            made[5].delete()
            made[3].delete()
            rest = store.sessions.list(limit=4, cursor=page.next_cursor)
            assert _titles(rest.items) == ["4", "2", "1", "0"]
            assert rest.next_cursor is None
            for bad in ("", "x", "ff.1.00000000", f"{page.next_cursor}0"):
                with _raises(Invalid):
                    store.sessions.list(cursor=bad)

    # -- the tree itself

    def test_nodes_save(self, open_store: OpenStore) -> None:
        """Messages are saved as a chain or under named parents, in the order given, all or none, once per id."""
        with open_store() as store:
            root, child = store.nodes.save([user("a"), user("b")])
            saves = [
                Save(user("d"), parent=_id(2), id=_id(3)),
                Save(user("c"), parent=root.id, id=_id(2)),
                Save(user("r"), parent=None, id=_id(4)),
            ]
            nodes = store.nodes.save(saves)
            assert [node.parent_id for node in nodes] == [_id(2), root.id, None]
            assert store.nodes.save(saves) == nodes
            with _raises(NotFound):
                store.nodes.save([user("new"), Save(user("x"), parent=_id(9))])
            for other in (Save(user("c"), parent=child.id, id=_id(2)), Save(user("x"), parent=root.id, id=_id(2))):
                with _raises(Conflict):
                    store.nodes.save([user("new"), other])
            assert len(store.nodes.list().items) == 5
            assert _texts(store.nodes.children(root.id)) == ["b", "c"]
            assert _texts(store.nodes.subtree(root.id)) == ["a", "b", "c", "d"]

    def test_save_dialog(self, open_store: OpenStore) -> None:
        """A dialog is a chain from its root: stored nodes are verified, what follows is saved."""
        with open_store() as store:
            known = store.nodes.save([user("a"), assistant("b")])
            nodes = store.nodes.save_dialog([*known, user("c"), assistant("d")])
            assert nodes[:2] == known
            assert _texts(store.nodes.path(nodes[-1].id)) == ["a", "b", "c", "d"]
            stranger = store.nodes.save(user("x"))[0]
            dialogs: list[list[Any]]
            dialogs = [[*known, stranger], [known[1]], [user("n"), known[0]], [Save(user("n")), known[0]]]
            for dialog in dialogs:
                with _raises(Conflict):
                    store.nodes.save_dialog(dialog)
            store.nodes.delete(stranger.id)
            with _raises(Conflict):
                store.nodes.save_dialog([stranger, user("n")])
            assert len(store.nodes.list().items) == 4

    def test_nodes_get_and_list(self, open_store: OpenStore) -> None:
        """`get` keeps the order asked for and misses nothing; `list` pages by key, newest first or oldest first."""
        with open_store(clock=FakeClock()) as store:
            nodes = store.nodes.save([user(str(number)) for number in range(7)])
            assert store.nodes.get([nodes[2].id, nodes[0].id, nodes[2].id]) == [nodes[2], nodes[0], nodes[2]]
            assert store.nodes.get([]) == []
            with _raises(NotFound):
                store.nodes.get([nodes[0].id, _id(1)])
            page = store.nodes.list(limit=3)
            assert page.items == nodes[:3:-1]
            store.nodes.save(user("later"))
            assert store.nodes.list(limit=9, cursor=page.next_cursor).items == nodes[3::-1]
            assert store.nodes.list(limit=2, offset=1, ascending=True).items == nodes[1:3]
            assert store.nodes.list(offset=99).items == []

    def test_nodes_delete(self, open_store: OpenStore) -> None:
        """Deleting is all or none; children hold their parent unless they go too; an unknown id is passed over."""
        with open_store() as store:
            a, b, c = store.nodes.save([user("a"), user("b"), user("c")])
            d = store.nodes.save(user("d"), parent=b.id)[0]
            with _raises(Conflict):
                store.nodes.delete([c.id, a.id])
            assert len(store.nodes.list().items) == 4
            assert store.nodes.delete([_id(1), "zzzzzz"]) == 0
            assert store.nodes.delete([c.id, d.id, b.id]) == 3
            assert store.nodes.path(a.id) == [a]
            store.nodes.save([user("e"), user("f")], parent=a.id)
            assert store.nodes.delete(a.id, recursive=True) == 3
            assert store.nodes.list().items == []

    def test_sessions_follow_deleted_heads(self, open_store: OpenStore) -> None:
        """A session whose last messages are deleted by id goes back to the nearest that stays."""
        with open_store() as store:
            session = store.sessions.create()
            a, b, _ = session.append([user("a"), user("b"), user("c")])
            fork = session.fork(at=b.id)
            store.nodes.delete(b.id, recursive=True)
            assert session.path() == fork.path() == [a]
            session.append(user("d"))
            assert _texts(session.path()) == ["a", "d"]
            store.nodes.delete(a.id, recursive=True)
            assert session.path() == fork.path() == []

    # -- deleting sessions

    def test_delete_keeps_what_others_need(self, open_store: OpenStore) -> None:
        """Deleting a session takes every message that no other session, branch or saved message needs."""
        with open_store() as store:
            session = store.sessions.create()
            nodes = session.append([user("a"), user("b"), user("c")])
            fork = session.fork(at=nodes[1].id)
            fork.append(user("f"))
            saved = store.nodes.save(user("s"), parent=nodes[0].id)[0]
            assert session.delete() == 1
            assert _texts(fork.path()) == ["a", "b", "f"]
            assert fork.delete() == 2
            assert _texts(store.nodes.path(saved.id)) == ["a", "s"]
            for gone in (session, fork):
                with _raises(NotFound):
                    store.sessions.get(gone.id)
                with _raises(NotFound):
                    gone.append(user("x"))

    def test_delete_takes_all_that_is_owned(self, open_store: OpenStore) -> None:
        """Branches, compacted history, log, attachments and subagents' traces go with their session."""
        with open_store() as store:
            session = store.sessions.create()
            shown = session.attach(b"bytes", mime_type="text/plain")
            first = session.append([user("a", shown), user("b")])[0]
            session.rewind(first.id)
            session.append(user("c"))
            session.compact(user("d"))
            session.log.append(b"entry")
            trace = store.sessions.create(agent="x", owner=session)
            trace.append(user("e"))
            assert store.sessions.delete(session.id) == 5
            assert store.nodes.list().items == []
            assert store.sessions.list(subagents=True).items == []
            for hang in (lambda: session.log.append(b"late"), lambda: session.blobs.put(b"late")):
                with _raises(NotFound):
                    hang()

    # -- the trash

    def test_what_is_in_the_trash_is_out_of_sight(self, open_store: OpenStore) -> None:
        """A session in the trash is not found, listed, picked, searched or talked in, and nothing can be done to it."""
        with open_store() as store:
            session, other = store.sessions.create(title="t", cwd="/a", labels=["l"]), store.sessions.create()
            said = session.append(user("lint"))
            stale, handle, id = store.sessions.get(session.id), session.handle, session.id
            assert session.trash() is session
            assert [one.trashed_at is None for one in (session, stale)] == [False, True]
            page = store.sessions.list(total=True)
            assert (page.items, page.total, store.sessions.latest()) == ([other], 1, other)
            assert store.sessions.list(label="l").items == store.sessions.list(title="t").items == []
            assert store.search("lint") == store.search("int", mode="substring") == []
            for hidden in (
                lambda: store.sessions.get(id),
                lambda: store.sessions.get(handle),
                lambda: store.sessions.latest("/a"),
                lambda: store.sessions.rename(id, "x"),
                lambda: store.sessions.hold(id),
                lambda: store.sessions.delete(id),
                lambda: store.search("lint", session=id),
                lambda: store.sessions.create(agent="a", owner=session),
                lambda: session.append(user("x")),
                lambda: session.append(user("x"), expect_head=said.id),
                lambda: session.rewind(None),
                lambda: session.compact(user("x")),
                session.fork,
                lambda: session.log.append(b"x"),
                lambda: session.blobs.put(b"x"),
                lambda: stale.append(user("x")),
                stale.path,
                stale.refresh,
            ):
                with _raises(NotFound):
                    hidden()
            with _raises(Conflict):
                store.sessions.create(id=id)
            with _raises(NotFound):
                store.sessions.trash(_id(1))
            assert store.verify().ok

    def test_the_trash_is_listed_last_first(self, open_store: OpenStore) -> None:
        """The trash lists what was put there last first, in pages that hold; its sessions can be read."""
        clock = FakeClock()
        with open_store(clock=clock) as store:
            made = [store.sessions.create(title=str(number)) for number in range(7)]
            for session in made:
                session.append(user(f"said in {session.title}"))
            assert store.sessions.trashed().items == []
            for number in (3, 0, 5, 1, 6):
                store.sessions.trash(made[number].id)
                clock.advance(timedelta(seconds=number % 2))  # some of them at the same moment
            page = store.sessions.trashed(limit=2)
            assert _titles(page.items) == ["6", "1"]
            store.sessions.restore(made[5].id)
            clock.advance()
            store.sessions.trash(made[2].id)
            rest = store.sessions.trashed(limit=2, cursor=page.next_cursor)
            assert _titles(rest.items) == ["0", "3"]
            assert (rest.next_cursor, store.sessions.trashed().items[0]) == (None, made[2])
            assert _texts(rest.items[0].path()) == _texts(rest.items[0].iter()) == ["said in 0"]
            assert rest.items[0].counters.messages == 1
            for cursor in (store.sessions.list(limit=1).next_cursor, "x"):
                with _raises(Invalid):
                    store.sessions.trashed(cursor=cursor)

    def test_restore_brings_all_of_it_back(self, open_store: OpenStore) -> None:
        """A restored session is as it was: messages, branches, labels, log, and its place in the list."""
        clock = FakeClock()
        with open_store(clock=clock) as store:
            session = store.sessions.create(title="t", cwd="/a", labels=["l"])
            nodes = session.append([user("a"), user("b")])
            session.rewind(nodes[0].id)
            session.log.append(b"entry")
            store.sessions.create(title="later").append(user("x"))
            handle, moved, branches = session.handle, session.updated_at, session.branches()
            clock.advance(timedelta(days=1))
            assert store.sessions.trash(handle) == store.sessions.trash(handle) == session
            first = store.sessions.trash(session.id).trashed_at
            assert first == moved + timedelta(days=1)
            back = store.sessions.restore(handle)
            assert back == session
            assert (back.trashed_at, back.updated_at, back.branches()) == (None, moved, branches)
            assert _titles(store.sessions.list().items) == ["later", "t"]
            assert store.sessions.list(label="l").items == [store.sessions.latest("/a")] == [session]
            assert [entry.data for entry in back.log.read()] == [b"entry"]
            assert [hit.node for hit in store.search("b")] == [nodes[1]]
            back.append(user("c"))
            assert _texts(session.refresh().path()) == ["a", "c"]
            assert store.sessions.latest() == session
            for missing in (session.id, handle, _id(1), "zzzzzz"):
                with _raises(NotFound):
                    store.sessions.restore(missing)
            assert store.verify().ok

    def test_restored_sessions_take_their_place(self, open_store: OpenStore) -> None:
        """What was active while a session was in the trash is listed before it, and so is what goes on afterwards."""
        clock = FakeClock()
        with open_store(clock=clock) as store:
            one, two = store.sessions.create(title="one"), store.sessions.create(title="two")
            two.trash()
            three = store.sessions.create(title="three")  # at the same moment: it may get the place of the second
            store.sessions.restore(two.id)
            assert store.sessions.latest() == three
            two.refresh().append(user("x"))
            assert store.sessions.latest() == two
            two.trash()
            three.trash()
            clock.advance(timedelta(hours=1))
            one.append(user("x"))
            store.sessions.restore(two.id)
            store.sessions.restore(three.id)
            assert _titles(store.sessions.list().items) == ["one", "two", "three"]

    def test_the_trash_takes_what_is_owned(self, open_store: OpenStore) -> None:
        """Subagents' traces go with their owner and come back with it; one that was there before stays there."""
        with open_store(clock=FakeClock()) as store:
            session = store.sessions.create()
            first, second = (store.sessions.create(agent=name, owner=session) for name in ("first", "second"))
            inner = store.sessions.create(agent="inner", owner=first)
            inner.append(user("lint"))
            second.trash()
            assert (session.subagents(), store.sessions.list(subagents=True).items) == ([first], [inner, first])
            session.trash()
            assert store.sessions.trashed().items == [session]
            assert (store.sessions.list(subagents=True).items, store.search("lint")) == ([], [])
            for trace in (first, second, inner):
                with _raises(NotFound):
                    store.sessions.get(trace.id)
                with _raises(Conflict):
                    store.sessions.restore(trace.id)
            store.sessions.restore(session.id)
            assert (session.refresh().subagents(), first.refresh().subagents()) == ([first], [inner])
            assert store.sessions.trashed().items == [second]
            assert [hit.session for hit in store.search("lint")] == [inner]
            store.sessions.restore(second.id)
            assert session.subagents() == [first, second]
            assert store.verify().ok

    def test_the_trash_spares_what_is_shared(self, open_store: OpenStore) -> None:
        """Messages that a fork, a compaction or a save still needs stay in sight; the others are out of it."""
        with open_store() as store:
            session = store.sessions.create()
            nodes = session.append([user("lint a"), user("lint b"), user("lint c")])
            fork = session.fork(at=nodes[1].id)
            session.rewind(nodes[1].id)
            session.append(user("lint d"))
            saved = store.nodes.save(user("lint s"), parent=nodes[0].id)[0]
            session.trash()
            assert _found(store, "lint") == ["lint a", "lint b", "lint s"]
            assert [hit.session for hit in store.search('"lint b"')] == [fork]
            fork.compact(user("lint sum"))
            assert _texts(fork.history()) == ["lint a", "lint b", "lint sum"]
            assert _found(store, "lint") == ["lint a", "lint b", "lint s", "lint sum"]
            fork.trash()
            assert _found(store, "lint") == ["lint a", "lint s"]
            assert _texts(store.nodes.path(saved.id)) == ["lint a", "lint s"]
            store.sessions.restore(session.id)
            assert _found(store, "lint") == ["lint a", "lint b", "lint c", "lint d", "lint s"]
            assert session.refresh().delete() == 2
            assert _texts(store.sessions.restore(fork.id).history()) == ["lint a", "lint b", "lint sum"]

    def test_sessions_in_the_trash_follow_deleted_heads(self, open_store: OpenStore) -> None:
        """A session whose last messages are deleted by id while it is in the trash comes back without them."""
        with open_store() as store:
            session = store.sessions.create()
            a, b, _ = session.append([user("a"), user("b"), user("c")])
            session.rewind(b.id)
            session.trash()
            assert store.nodes.delete(b.id, recursive=True) == 2
            assert store.sessions.restore(session.id).path() == [a]
            assert session.refresh().delete() == 1
            assert store.nodes.list().items == []

    # -- holds

    def test_what_is_held_is_not_deleted(self, open_store: OpenStore) -> None:
        """A held session is neither deleted nor put in the trash until it is released; it may be changed meanwhile."""
        with open_store() as store:
            session = store.sessions.create(title="t")
            first = session.append([user("a"), user("b")])[0]
            assert (session.held, session.hold_reason) == (False, None)
            assert session.hold("a lawsuit") is session
            assert (session.held, session.hold_reason) == (True, "a lawsuit")
            session.rename("u").label("l").hold()
            session.append(user("c"))
            session.rewind(first.id)
            again = store.sessions.get(session.id)
            assert (again.held, again.hold_reason, again.title, again.labels) == (True, "a lawsuit", "u", ("l",))
            for deed in (
                session.delete,
                session.trash,
                lambda: store.sessions.delete(session.id),
                lambda: store.sessions.trash(session.handle),
                lambda: store.nodes.delete(first.id, recursive=True),
            ):
                with _raises(Conflict, naming=session.id):
                    deed()
            assert (len(store.nodes.list().items), session.path()) == (3, [first])
            assert store.sessions.release(session.handle) == session
            assert (session.refresh().held, session.hold_reason) == (False, None)
            assert store.sessions.hold(session.id, "for a day").hold_reason == "for a day"
            session.release().trash()
            assert store.sessions.restore(session.id).delete() == 3

    def test_a_hold_covers_all_that_a_session_reaches(self, open_store: OpenStore) -> None:
        """Path, branches, compacted history, subagents: no message of them can be deleted by id, under any parent."""
        with open_store() as store:
            session = store.sessions.create()
            a, b, left = session.append([user("a"), user("b"), user("left")])
            session.rewind(b.id)
            old = session.append(user("c"))
            session.compact(user("sum"))
            session.append(user("d"))
            trace = store.sessions.create(agent="x", owner=session)
            traced = trace.append(user("e"))
            beside = store.nodes.save(user("beside"), parent=a.id)[0]
            fork = session.fork(at=b.id)
            other = fork.append(user("f"))
            session.hold()
            for held in (a, b, left, old, traced, *session.path()):
                with _raises(Conflict, naming=session.id):
                    store.nodes.delete(held.id, recursive=True)
            for deed in (trace.delete, trace.trash):
                with _raises(Conflict, naming=session.id):
                    deed()
            assert store.nodes.delete([beside.id, other.id]) == 2
            assert len(store.nodes.list().items) == 7
            session.release()
            assert store.nodes.delete(b.id, recursive=True) == 3
            assert store.verify().ok

    def test_a_hold_keeps_owners_and_frees_forks(self, open_store: OpenStore) -> None:
        """An owner does not go while a trace it owns is held; a fork goes, and leaves what the held one shares."""
        with open_store() as store:
            session = store.sessions.create()
            trace = store.sessions.create(agent="x", owner=session)
            trace.append(user("e"))
            trace.hold()
            for deed in (session.delete, session.trash):
                with _raises(Conflict, naming=trace.id):
                    deed()
            assert store.sessions.list(total=True).total == 1
            trace.release()
            assert session.delete() == 1

            held = store.sessions.create()
            nodes = held.append([user("a"), user("b")])
            held.hold()
            fork = held.fork()
            assert not fork.held
            fork.append(user("c"))
            fork.trash()
            assert store.sessions.restore(fork.id).delete() == 1
            assert held.path() == nodes

    # -- beside the tree

    def test_log(self, open_store: OpenStore) -> None:
        """Entries are numbered in the order they came, read by range, once per id, and never parents of messages."""
        with open_store() as store:
            session = store.sessions.create()
            session.log.append([b"a", b"b"])
            session.log.append(b"c", id=_id(1))
            assert session.log.append(b"c", id=_id(1))[0].number == 2
            for data, name in ((b"other", _id(1)), ([b"d", b"c"], [_id(2), _id(1)])):
                with _raises(Conflict):
                    session.log.append(data, id=name)
            assert [(entry.number, entry.data) for entry in session.log.read()] == [(0, b"a"), (1, b"b"), (2, b"c")]
            assert [entry.data for entry in session.log.read(1, 2)] == [b"b"]
            assert len(session.log) == 3
            assert list(store.sessions.create().log.read()) == session.path() == []

    def test_blobs(self, open_store: OpenStore) -> None:
        """A blob is addressed by its content, stored once in a tree, streamed, and unknown to other trees."""
        with open_store(durability="relaxed") as store:
            session = store.sessions.create()
            content = bytes(range(256)) * 3000
            blob = session.blobs.put(content[at : at + 1000] for at in range(0, len(content), 1000))
            assert session.blobs.put(content) == blob
            assert blob.size == len(content)
            assert b"".join(session.blobs.open(blob.digest)) == session.blobs.get(blob.digest) == content
            assert session.fork().blobs.get(blob.digest) == content
            with _raises(NotFound):
                store.sessions.create().blobs.get(blob.digest)
            with _raises(NotFound):
                store.sessions.create().append(user(Media(mime_type="a/b", modality="document", blob=blob.digest)))

    # -- transactions, ends

    def test_a_sound_store_has_an_empty_quarantine(self, open_store: OpenStore) -> None:
        """A sweep reads every body and takes out none that opens; nothing can be brought back or purged then."""
        with open_store() as store:
            session = store.sessions.create(title="t")
            session.append([user("a"), user("b", session.attach(b"bytes", mime_type="image/png", modality="image"))])
            session.log.append([b"one", b"two"])
            swept = store.quarantine.sweep(strict=True)
            assert (swept.bodies, swept.moved, swept.left, swept.receipt) == (6, (), (), None)
            assert store.quarantine.list() == []
            with _raises(NotFound):
                store.quarantine.restore(session.path()[0].id)
            with _raises(NotFound):
                store.quarantine.purge(session.path()[0].id)
            assert store.quarantine.purge(everything=True).messages == 0
            assert _texts(session.path())[0] == "a"

    def test_transaction_is_all_or_none(self, open_store: OpenStore) -> None:
        """Steps in a transaction are kept together, or not at all; an error that is caught undoes only its own step."""
        with open_store() as store:
            session = store.sessions.create(title="old")
            with store.transaction():
                session.append(user("a"), id=_id(1))
                session.rename("new")
                with _raises(Conflict):
                    session.append([user("b"), user("c")], id=[_id(2), _id(1)])
                with store.transaction():
                    session.append(user("d"))
            assert (session.refresh().title, _texts(session.path())) == ("new", ["a", "d"])
            with _raises(NotFound), store.transaction():
                session.append(user("e"))
                lost = store.sessions.create()
                session.rewind(_id(9))
            assert _texts(session.path()) == ["a", "d"]
            store.sessions.create()
            with _raises(NotFound):
                lost.append(user("x"))

    def test_closed_is_closed(self, open_store: OpenStore) -> None:
        """A closed store says so, whatever it is asked; closing it again does nothing."""
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
            with _raises(Closed):
                work()

    def test_what_was_stored_is_there_again(self, open_store: OpenStore) -> None:
        """A store opened again has everything as it was."""
        if not self.reopens:
            _skip("this store ends when it is closed")
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
            assert _texts(again.path()) == ["a", "b"]
            assert len(again.branches()) == len(again.log) == 1
            assert again.blobs.get(blob.digest) == b"bytes"

    def test_append_goes_on_from_what_others_left(self, open_store: OpenStore) -> None:
        """What another process did since the last append is seen by the next one, whichever session it was done to."""
        if not self.reopens:
            _skip("only its opener sees this store")
        with open_store() as here, open_store() as there:
            session = here.sessions.create(agent="scout")
            session.append(user("a"))
            there.sessions.get(session.id).append(user("b"))
            session.append(user("c"))
            assert _texts(session.path()) == ["a", "b", "c"]

            fork = there.sessions.get(session.id).fork()
            fork.append(user("elsewhere"))
            session.append(user("d"))
            assert _texts(session.path()) == ["a", "b", "c", "d"]
            assert _texts(fork.path()) == ["a", "b", "c", "elsewhere"]

            fork = there.sessions.get(session.id).fork()
            fork.append(user("gone"))
            fork.delete()
            session.append(user("e"))
            assert _texts(session.path()) == ["a", "b", "c", "d", "e"]
            assert here.verify().ok

    def test_two_stores_on_one_file(self, open_store: OpenStore) -> None:
        """What one opener has stored, another sees at once; both may write."""
        if not self.reopens:
            _skip("only its opener sees this store")
        with open_store() as one, open_store() as two:
            here = one.sessions.create()
            there = two.sessions.get(here.id)
            for number, session in enumerate((here, there, there, here)):
                session.append(user(str(number)))
            assert _texts(here.path()) == _texts(there.path()) == ["0", "1", "2", "3"]

    def test_workspaces_are_apart(self, open_store: OpenStore) -> None:
        """A session of one workspace is not found, listed or picked in another."""
        if not self.reopens:
            _skip("only its opener sees this store")
        with open_store(workspace="a") as one, open_store(workspace="b") as two:
            mine = one.sessions.create(title="mine")
            assert two.sessions.list(total=True).total == 0
            with _raises(NotFound):
                two.sessions.get(mine.id)
            with _raises(NotFound):
                two.sessions.latest()


def _id(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012x}"


def _texts(nodes: Iterable[Node]) -> list[str]:
    return [node.text for node in nodes]


def _found(store: Store, query: str) -> list[str]:
    return sorted(hit.node.text for hit in store.search(query))


def _titles(sessions: Iterable[Session]) -> list[str | None]:
    return [session.title for session in sessions]


@contextmanager
def _raises(kind: type[ClewError], *, naming: str = "") -> Iterator[None]:
    """Passes over exactly this kind of error, if it says `naming`; AssertionError if there is none."""
    try:
        yield
    except kind as error:
        if naming in error.message:
            return
        raise AssertionError(f"{error.message!r} does not name {naming}") from error
    raise AssertionError(f"{kind.__name__} was not raised")


def _skip(why: str) -> None:
    import pytest  # only there when the tests run

    pytest.skip(why)
