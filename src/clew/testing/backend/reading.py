"""Reading, listing and finding."""

from __future__ import annotations

from datetime import timedelta

from clew.base.messages import AnyMessage, Media, ToolCall, Usage, assistant, native, system, tool, user
from clew.engine.node import Counters
from clew.errors import Ambiguous, Invalid, NotFound
from clew.store.session import delete_session
from clew.testing.contract import Contract, FakeClock, OpenStore, an_id, raises, titles


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
