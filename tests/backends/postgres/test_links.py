"""P12: a link that breaks at the worst moment neither loses nor doubles anything; and what cannot be done is told."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import anyio
import pytest

import clew
import clew.aio
from clew.backends import Call
from clew.errors import Conflict, Invalid, NotFound, ReadOnly, Unavailable
from tests.backends.postgres.proxy import Cut, Proxy
from tests.backends.postgres.server import Server

ID = "01890000-0000-7000-8000-000000000001"
KEY = bytes(range(32))


def texts(session: clew.Session) -> list[str]:
    return [node.text for node in session.path()]


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_append_whose_answer_is_lost(proxy: Proxy, when: Cut) -> None:
    """Cut before or after the server has done it, an append is stored once, and the caller never hears of it."""
    with clew.open(proxy.url(), timeout=10) as store:
        session = store.sessions.create()
        session.append(clew.user("first"))
        for number in range(3):
            proxy.cut_at(b"CANARY", when)
            node = session.append(clew.user(f"CANARY {number}"))
            assert node.text == f"CANARY {number}"
            session.append(clew.user(f"then {number}"))
        assert proxy.cuts == 3
        wanted = ["first"] + [f"{word} {number}" for number in range(3) for word in ("CANARY", "then")]
        assert texts(session) == wanted
        assert store.verify().ok


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_commit_whose_answer_is_lost(proxy: Proxy, when: Cut) -> None:
    """Cut at COMMIT, nodes are stored once, and nobody hears of it; a change without an id has an unknown end."""
    with clew.open(proxy.url(), timeout=10) as store:
        session = store.sessions.create(title="old")
        root = session.append(clew.user("first"))
        proxy.cut_at(b"COMMIT", when)
        (saved,) = store.nodes.save(clew.user("beside"), parent=root.id)
        assert proxy.cuts == 1
        assert [node.text for node in store.nodes.list(ascending=True).items] == ["first", "beside"]
        assert store.nodes.path(saved.id)[-1].text == "beside"
        proxy.cut_at(b"COMMIT", when)
        with pytest.raises(Unavailable):
            session.rename("new")
        assert store.sessions.get(session.id).title == ("new" if when == "after" else "old")
        assert store.verify().ok


def test_the_same_id_after_an_outage(proxy: Proxy) -> None:
    """Cut at the commit and cut off from the server since, the caller is told; the same call again stores one."""
    with clew.open(proxy.url(), timeout=1) as store:
        session = store.sessions.create()
        session.append(clew.user("first"))
        proxy.cut_at(b"CANARY", "after")
        proxy.refuses = True
        with pytest.raises(Unavailable, match="postgresql://"):
            session.append(clew.user("CANARY"), id=ID)
        proxy.refuses = False
        assert session.append(clew.user("CANARY"), id=ID).id == ID
        assert session.append(clew.user("CANARY"), id=ID).id == ID
        assert texts(session) == ["first", "CANARY"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_tasks_whose_commit_is_lost(proxy: Proxy, when: Cut) -> None:
    """Of appends that were committed together and whose answer was lost, each is stored once."""

    async def main() -> None:
        async with clew.aio.open(proxy.url(), timeout=10) as store:
            sessions = [await store.sessions.create() for _ in range(5)]
            for session in sessions:
                await session.append(clew.user("first"))
            proxy.cut_at(b"CANARY", when)
            async with anyio.create_task_group() as tasks:
                for session in sessions:
                    tasks.start_soon(session.append, clew.user("CANARY"))
            assert proxy.cuts == 1
            for session in sessions:
                assert [node.text for node in await session.path()] == ["first", "CANARY"]

    anyio.run(main)


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_id_again_among_tasks_whose_commit_is_lost(proxy: Proxy, when: Cut) -> None:
    """Who repeats an id gets what was stored under it, where it was stored; or Conflict, if that is another session."""
    with clew.open(proxy.url(), timeout=10) as store:
        one, two = store.sessions.create(), store.sessions.create()
        for session in (one, two):
            session.append(clew.user("first"))
        stored = one.append(clew.user("CANARY"), id=ID)
        one.append(clew.user("after"))
        for session in (one, two):
            calls = [
                Call(lambda session=session: session.append(clew.user("CANARY"), id=ID)),  # type: ignore[misc]
                Call(lambda: two.append(clew.user("beside"))),
            ]
            proxy.cut_at(b"CANARY", when)
            store._engine.backend.batch(calls)
            if session is one:
                assert calls[0].result == stored
                assert calls[0].result.parent_id == stored.parent_id
            else:
                assert isinstance(calls[0].error, Conflict)
            assert calls[1].result.text == "beside"
        assert proxy.cuts >= 2
        assert texts(one) == ["first", "CANARY", "after"]
        assert texts(two) == ["first", "beside", "beside"]
        assert store.verify().ok


def test_tasks_whose_server_goes_away(proxy: Proxy) -> None:
    """All of them are told after the timeout, not one after the other; and what they say again is stored once."""
    with clew.open(proxy.url(), timeout=1) as store:
        sessions = [store.sessions.create() for _ in range(6)]
        for session in sessions:
            session.append(clew.user("first"))

        def say() -> list[Call]:
            calls = [Call(lambda session=session: session.append(clew.user("x"))) for session in sessions]  # type: ignore[misc]
            store._engine.backend.batch(calls)
            return calls

        say()
        proxy.drop()
        proxy.refuses = True
        began = time.monotonic()
        assert all(isinstance(call.error, Unavailable) for call in say())
        assert time.monotonic() - began < 3
        proxy.refuses = False
        assert {call.error for call in say()} == {None}
        assert [texts(session) for session in sessions] == [["first", "x", "x"]] * 6


@pytest.mark.parametrize("when", ["before", "after"])
def test_tasks_that_waited_for_their_turn(proxy: Proxy, when: Cut) -> None:
    """Of calls that share a transaction whose COMMIT was lost, each is done once."""

    async def main() -> None:
        async with clew.aio.open(proxy.url(), timeout=10) as store:
            (root,) = await store.nodes.save(clew.user("root"))
            found: dict[str, Sequence[clew.Node]] = {}

            async def save(text: str) -> None:
                found[text] = await store.nodes.save(clew.user(text), parent=root.id)

            proxy.cut_at(b"COMMIT", when)
            async with anyio.create_task_group() as tasks:
                for number in range(5):
                    tasks.start_soon(save, f"child {number}")
            assert proxy.cuts == 1
            assert sorted(found) == [f"child {number}" for number in range(5)]
            children = await store.nodes.children(root.id)
            assert {node.id for node in children} == {node.id for (node,) in found.values()}
            assert len(children) == 5
            assert (await store.verify()).ok

    anyio.run(main)


def test_a_commit_that_is_lost_twice(proxy: Proxy) -> None:
    """Cut at COMMIT, and again at the COMMIT of the look for what became of it, a node is stored once."""
    with clew.open(proxy.url(), timeout=10) as store:
        (root,) = store.nodes.save(clew.user("root"))
        proxy.cut_at(b"COMMIT", "after", times=2)
        (saved,) = store.nodes.save(clew.user("beside"), parent=root.id)
        assert proxy.cuts == 2
        assert [node.id for node in store.nodes.children(root.id)] == [saved.id]


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_error_whose_undoing_is_cut(proxy: Proxy, when: Cut) -> None:
    """Whoever has made an error hears of that, though the link breaks while what was begun is undone."""
    with clew.open(proxy.url(), timeout=10) as store:
        session = store.sessions.create()
        session.append(clew.user("first"))
        proxy.cut_at(b"ROLLBACK", when)
        with pytest.raises(Conflict):
            session.append(clew.user("x"), expect_head=ID)
        proxy.cut_at(b"ROLLBACK", when)
        with pytest.raises(ValueError, match="mine"), store.transaction():
            raise ValueError("mine")
        proxy.cut_at(b"ROLLBACK TO", when)
        calls = [
            Call(lambda: session.append(clew.user("x"), expect_head=ID)),
            Call(lambda: session.append(clew.user("y"))),
        ]
        store._engine.backend.batch(calls)
        assert proxy.cuts == 3
        assert isinstance(calls[0].error, Conflict)
        assert calls[1].error is None
        assert texts(session) == ["first", "y"]


def test_a_read_whose_link_has_broken(proxy: Proxy, server: Server) -> None:
    """Reading goes on over a new link."""
    with clew.open(proxy.url(), timeout=10) as store:
        session = store.sessions.create()
        session.append(clew.user("first"))
        with server.connect() as conn:
            conn.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'clew' AND pid <> pg_backend_pid()"
            )
        assert texts(session) == ["first"]


def test_every_connection_in_use(url: str) -> None:
    """When all connections are in use for longer than the timeout, the error says so and what to do."""
    with clew.open(url, timeout=0.3, pool_size=2) as store:
        session = store.sessions.create()
        session.append(clew.user("first"))
        enough, entered = threading.Event(), threading.Barrier(3)

        def hold() -> None:
            with store._engine.backend.reader():
                entered.wait()
                enough.wait()

        holders = [threading.Thread(target=hold) for _ in range(2)]
        for holder in holders:
            holder.start()
        entered.wait()
        try:
            with pytest.raises(Unavailable, match="all 2 connections") as told:
                session.path()
            assert "pool_size" in told.value.hint
        finally:
            enough.set()
            for holder in holders:
                holder.join()
        assert texts(session) == ["first"]


def test_another_who_keeps_the_store_busy(url: str) -> None:
    """Who waits for its turn for longer than the timeout is told that someone else has it; reading goes on."""
    with clew.open(url) as one, clew.open(url, timeout=0.3) as two:
        session = one.sessions.create()
        session.append(clew.user("first"))
        mine = two.sessions.get(session.id)
        with one.transaction():
            session.append(clew.user("second"))
            began = time.monotonic()
            with pytest.raises(Unavailable, match="locked by another"):
                mine.append(clew.user("third"))
            assert 0.2 < time.monotonic() - began < 10
            assert texts(mine) == ["first"]
        mine.append(clew.user("third"))
        assert texts(session) == ["first", "second", "third"]


def test_a_server_that_is_slow(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement that takes longer than it may is cut off, and the error says so."""
    monkeypatch.setattr("clew.backends.postgres.connection.SLOWEST", 0.2)
    with clew.open(url, timeout=0.2) as store:

        def slow(tx: object) -> None:
            tx.conn.execute("SELECT pg_sleep(30)")  # type: ignore[attr-defined]

        with pytest.raises(Unavailable, match="longer than the timeout"):
            store._engine.read(slow)
        store.sessions.create()


def test_what_cannot_be_opened(server: Server) -> None:
    """Each reason for which there is no store has its own error, and no password is in it."""
    with pytest.raises(NotFound):
        clew.open(server.url(), create=False)
    with pytest.raises(NotFound, match="database"):
        clew.open(server.url().replace("/postgres?", "/nothere?"))
    with pytest.raises(Unavailable) as told:
        clew.open("postgresql://me:secret@127.0.0.1:1/x", timeout=1)
    assert "secret" not in str(told.value)
    for wrong in ("postgresql://[", "postgresql://x/y?schema=", "postgresql://x/y?nonsense=1", "mysql://x/y"):
        with pytest.raises(Invalid):
            clew.open(wrong)


def test_a_server_that_cannot_be_written(server: Server) -> None:
    """On a replica reading works and writing is refused."""
    url = server.url()
    with clew.open(url) as store:
        store.sessions.create().append(clew.user("first"))
    with clew.open(f"{url}&options=-cdefault_transaction_read_only%3Don") as store:
        session = store.sessions.latest()
        assert texts(session) == ["first"]
        with pytest.raises(ReadOnly):
            session.append(clew.user("second"))
        with pytest.raises(ReadOnly):
            session.rename("new")


def test_a_server_that_isolates_transactions_further(server: Server) -> None:
    """Who waited for its turn sees what was done meanwhile, whatever the server's transactions see by themselves."""
    url = f"{server.url()}&options=-cdefault_transaction_isolation%3Dserializable"
    with clew.open(url) as store, clew.open(url) as other, ThreadPoolExecutor(2) as pool, server.connect() as look:
        session = store.sessions.create()
        session.append(clew.user("first"))
        beside = other.sessions.get(session.id)
        beside.append(clew.user("second"))
        with store.transaction():
            session.append(clew.user("third"))
            late = pool.submit(beside.append, clew.user("fourth"))
            made = pool.submit(other.sessions.create)
            until = time.monotonic() + 10
            while look.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone() != (2,):
                assert time.monotonic() < until
                time.sleep(0.01)
        late.result(20)
        made.result(20)
        assert texts(session) == ["first", "second", "third", "fourth"]
