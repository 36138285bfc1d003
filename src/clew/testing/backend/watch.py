"""Watching a session."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

from clew.base.messages import user
from clew.engine.node import Node
from clew.engine.watch import Watch
from clew.errors import Closed, Invalid, NotFound
from clew.store.session import Session, delete_session
from clew.testing.contract import Contract, OpenStore, an_id, raises, texts

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
