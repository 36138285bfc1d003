"""P12: whatever is written when the answer of its commit is lost, nobody is told what is not so."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import clew
from clew.agents import Memory
from clew.backends import Call
from clew.errors import Unavailable
from clew.records import RecordService
from clew.store.parts import Parts
from clew.upkeep import rekey
from tests.backends.postgres.proxy import Cut, Proxy
from tests.backends.postgres.server import Server
from tests.records.talk import frame, given, made, snapshot, texts


def cut_next(store: clew.Store, proxy: Proxy, when: Cut, *, meanwhile: Callable[[], object] | None = None) -> None:
    """Cuts the link at the commit of the next write; until `meanwhile` is over there is no other."""
    engine: Any = Parts.of(store).engine
    write = engine.write

    def other() -> None:
        assert meanwhile is not None
        while not proxy.cuts:
            time.sleep(0.01)
        time.sleep(0.1)  # until the server has done it
        meanwhile()
        proxy.refuses = False

    def once(work: Any, settle: Any = None) -> Any:
        engine.write = write
        proxy.cut_at(b"COMMIT", when)
        if meanwhile is None:
            return write(work, settle)
        proxy.refuses = True
        thread = threading.Thread(target=other)
        thread.start()
        try:
            return write(work, settle)
        finally:
            thread.join()

    engine.write = once


def together(store: clew.Store, call: Callable[[], object]) -> None:
    """Makes a call as a task does, with whatever else is waiting."""
    made = Call(call)
    Parts.of(store).engine.backend.batch([made])
    if made.error is not None:
        raise made.error


def beside(server: Server, url: str) -> clew.Store:
    """The same store, by a link that nobody cuts."""
    return clew.open(server.url(schema=url.partition("schema=")[2].partition("&")[0]))


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_snapshot_of_a_record_that_adds_no_message(proxy: Proxy, when: Cut) -> None:
    """Whoever is told that it is stored finds it, though the record itself is as it was."""
    with clew.open(proxy.url(), timeout=10) as store:
        service = RecordService(store)
        service.initialize()
        made(service, "talk")
        two = frame(2, content="two")
        service.commit_snapshot(snapshot("talk", two))
        cut_next(store, proxy, when)
        service.commit_snapshot(snapshot("talk", two, sessionId="session-2"))
        assert proxy.cuts == 1
        found = service.get_snapshot("talk")
        assert found is not None
        assert found.session_id == "session-2"
        service.dispose()


@pytest.mark.parametrize("operation", ["create", "update"])
def test_a_record_that_another_changes_before_anybody_looks(proxy: Proxy, server: Server, operation: str) -> None:
    """It is not done a second time, over what the other has said, nor called a conflict with itself: nobody can say."""
    url = proxy.url()
    with clew.open(url, timeout=10) as store, beside(server, url) as other:
        service, theirs = RecordService(store), RecordService(other)
        for one in (service, theirs):
            one.initialize()
        version = made(service, "talk").storage.blob_version if operation == "update" else None

        def change() -> None:
            theirs.update("talk", {"title": "theirs", "appendMessages": [frame(9, content="other")]})

        cut_next(store, proxy, "after", meanwhile=change)
        with pytest.raises(Unavailable):
            if operation == "create":
                service.create(given("talk"))
            else:
                service.update("talk", {"title": "mine"}, expected_version=version)
        assert proxy.cuts == 1
        found = service.get("talk")
        assert found is not None
        assert found.title == "theirs"
        assert texts(found)[-1] == "other"
        for one in (service, theirs):
            one.dispose()


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_purge(proxy: Proxy, when: Cut) -> None:
    """What is gone is in the receipt, and its traces are cleared: it is no failure that nobody can try again."""
    with clew.open(proxy.url(), timeout=10) as store:
        sessions = [store.sessions.create() for _ in range(2)]
        for session in sessions:
            session.append([clew.user("x"), clew.assistant("y")])
        cut_next(store, proxy, when)
        receipt = store.sessions.purge([session.id for session in sessions])
        assert proxy.cuts == 1
        assert set(receipt.sessions) == {session.id for session in sessions}
        assert (receipt.messages, receipt.failures, receipt.pending) == (4, (), ())
        assert store.sessions.receipts() == [receipt]
        assert not store.key_status().unclean
        assert not store.nodes.list().items


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", ["begin", "finish"])
def test_a_key_change(proxy: Proxy, step: str, when: Cut) -> None:
    """The first and the last transaction of a key change are looked for, and done again only if they were not kept."""
    with clew.open(proxy.url(), timeout=10) as store:
        session = store.sessions.create()
        session.append([clew.user("x"), clew.assistant("y")])
        if step == "begin":
            cut_next(store, proxy, when)
        rekey.begin(Parts.of(store).engine, "seal", b"k" * 32)
        rekey.run(Parts.of(store).engine)
        if step == "finish":
            cut_next(store, proxy, when)
        rekey.finish(Parts.of(store).engine)
        assert proxy.cuts == 1
        assert store.key_status().state == "sealed"
        assert [node.text for node in session.path()] == ["x", "y"]
        assert store.verify().ok


@pytest.mark.parametrize("when", ["before", "after"])
def test_what_has_an_id(proxy: Proxy, when: Cut) -> None:
    """A new session, a fork and a compaction are made once, and nobody hears of it."""
    with clew.open(proxy.url(), timeout=10) as store:
        cut_next(store, proxy, when)
        session = store.sessions.create(title="new", labels=["one"])
        session.append([clew.user("first"), clew.assistant("second")])
        cut_next(store, proxy, when)
        fork = session.fork(title="fork")
        cut_next(store, proxy, when)
        (summary,) = session.compact(clew.user("summary"))
        assert proxy.cuts == 3
        assert {one.id: one.title for one in store.sessions.list().items} == {session.id: "new", fork.id: "fork"}
        assert [node.text for node in session.history()] == ["first", "second", "summary"]
        assert [node.id for node in session.path()] == [summary.id]
        assert session.append(clew.assistant("third")).parent_id == summary.id
        assert [node.text for node in fork.path()] == ["first", "second"]
        assert store.verify().ok


def test_what_nobody_can_say(proxy: Proxy) -> None:
    """Who has to be told that the end is unknown is not told to make the same call again."""
    with clew.open(proxy.url(), timeout=1) as store:
        session = store.sessions.create()
        session.append(clew.user("first"))
        calls: list[Callable[[], object]] = [
            lambda: session.append(clew.user("COMMIT")),
            lambda: together(store, lambda: session.append(clew.user("COMMIT, too"))),
            lambda: together(store, lambda: store.nodes.save(clew.user("aside"))),
            lambda: session.rename("new"),
        ]
        for call in calls:
            session.refresh()  # over a link that is there
            proxy.cut_at(b"COMMIT", "after")
            proxy.refuses = True
            with pytest.raises(Unavailable) as told:
                call()
            proxy.refuses = False
            assert "may be stored" in told.value.hint
        assert proxy.cuts == 4
        with pytest.raises(Unavailable) as told, store.transaction():
            session.append(clew.user("second"))
            proxy.cut_at(b"COMMIT", "after")
        assert "may be stored" in told.value.hint
        assert [node.text for node in session.path()] == ["first", "COMMIT", "COMMIT, too", "second"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_memory_that_must_not_have_changed(proxy: Proxy, when: Cut) -> None:
    """It is written once, and what was written is no conflict with itself."""
    with clew.open(proxy.url(), timeout=10) as store:
        memory = Memory(store, "project")
        for version in range(2):
            cut_next(store, proxy, when)
            assert memory.write(f"text {version}", expect=version) == version + 1
        assert proxy.cuts == 2
        assert (memory.read(), memory.version()) == ("text 1", 2)
