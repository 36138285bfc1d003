"""Watching a session on a server: what other machines write, broken links, and what it costs who is not watched."""

from __future__ import annotations

import threading
import time
import uuid
from typing import Any

import anyio
import psycopg
import pytest

import clew
import clew.aio
from clew.backends.postgres import listener
from clew.engine.watch import Watch, state_of
from clew.errors import Unavailable
from clew.store import tenants
from clew.store.session import delete_session
from tests.backends.postgres.proxy import Proxy
from tests.backends.postgres.server import Server, started
from tests.engine.test_watch import COUNT, nobody_watches, writers

KEY = bytes(range(32))


def beside(conn: psycopg.Connection[Any], url: str) -> psycopg.Connection[Any]:
    """A connection of the driver's own, in the store's schema."""
    conn.execute(f"SET search_path = {url.partition('schema=')[2]}".encode())
    return conn


def asked(server: Server, url: str) -> set[int]:
    """The refs that somebody has asked to be notified of."""
    with server.connect() as conn:
        return {ref for (ref,) in beside(conn, url).execute("SELECT ref FROM watched").fetchall()}


def listening(server: Server, url: str, session: clew.Session, watch: Watch) -> None:
    """Waits until the server knows that a session is watched."""
    state_of(watch).subscribe(watch._changed.set)
    until = time.monotonic() + 10
    while session._row.ref not in asked(server, url):
        assert time.monotonic() < until
        time.sleep(0.01)


def test_other_processes(url: str) -> None:
    """What two other processes append is given whole, in the order of the session, each message once."""
    with clew.open(url) as store:
        session = store.sessions.create()
        with session.watch(timeout=30) as watch, writers(url, session.id, "a", "b"):
            heard = [next(watch) for _ in range(2 * COUNT)]
        assert heard == session.path()
    assert nobody_watches(0)


def test_a_notification_is_soon_and_says_nothing(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes within moments, without a look at the store in between, and has two numbers in it: no word, no id."""
    url = server.url()
    notes: list[str] = []
    with clew.open(url, key=KEY) as store, clew.open(url, key=KEY) as other, server.connect() as conn:
        session = store.sessions.create(title="CANARY")
        session.append(clew.user("CANARY"))
        theirs = other.sessions.get(session.id)
        with session.watch(timeout=20) as watch:
            listening(server, url, session, watch)
            (channel,) = beside(conn, url).execute("SELECT 'clew_' || 'refs'::regclass::oid").fetchone() or ("",)
            conn.execute(f"LISTEN {channel}".encode())
            for number in range(5):
                began = time.monotonic()
                theirs.append(clew.user(f"CANARY {number}"))
                assert next(watch).text == f"CANARY {number}"
                assert time.monotonic() - began < listener.RENEW / 2
            notes += [note.payload for note in conn.notifies(timeout=1, stop_after=5)]
    assert len(notes) == 5
    assert all(len(note.split()) == 2 and note.replace(" ", "").isdigit() for note in notes)


def test_who_is_not_watched_notifies_nobody(server: Server) -> None:
    """An append to a session that nobody watches sends nothing; nor does one whose watcher has gone for long."""
    url = server.url()
    with clew.open(url) as store, server.connect() as conn:
        watched, other = store.sessions.create(), store.sessions.create()
        (channel,) = beside(conn, url).execute("SELECT 'clew_' || 'refs'::regclass::oid").fetchone() or ("",)
        conn.execute(f"LISTEN {channel}".encode())
        with watched.watch(timeout=20) as watch:
            listening(server, url, watched, watch)
            for number in range(3):
                other.append(clew.user(str(number)))
                other.rename(str(number))
            delete_session(other)
            assert list(conn.notifies(timeout=0.2)) == []
            watched.append(clew.user("a"))
            watched.rewind(None)
            watched.rename("b")
            delete_session(watched)
            told = [note.payload.split() for note in conn.notifies(timeout=2, stop_after=4)]
            assert [ref for ref, _ in told] == [str(watched._row.ref)] * 4
            assert told[-1][1] == "0"
            assert asked(server, url) == {watched._row.ref}
        conn.execute("UPDATE watched SET until = now() - interval '1 second'")
        third = store.sessions.create()
        with third.watch(timeout=20) as watch:
            listening(server, url, third, watch)
        assert asked(server, url) == {third._row.ref}


def test_the_link_is_cut(proxy: Proxy, server: Server) -> None:
    """Cut off from the server, and let in again, who waits is given what came meanwhile, each message once."""
    url = proxy.url()
    said = [f"{number} {part}" for number in range(3) for part in range(3)]
    heard: list[str] = []
    with clew.open(url, timeout=20) as store, clew.open(server.url(schema=url.partition("schema=")[2])) as other:
        session = store.sessions.create()
        theirs = other.sessions.get(session.id)
        watch = session.watch(timeout=15)
        waiting = threading.Thread(target=lambda: heard.extend(next(watch).text for _ in said))
        waiting.start()
        for number in range(0, 9, 3):
            time.sleep(0.5)  # it waits, and has nothing to look for
            proxy.refuses = True
            proxy.drop()
            for text in said[number : number + 3]:
                theirs.append(clew.user(text))
            time.sleep(0.1)
            proxy.refuses = False
        waiting.join()
        watch.close()
        assert heard == said == [node.text for node in session.path()]


def test_the_server_is_killed() -> None:
    """When the server is killed and comes back, watching goes on; while it is away for long, that is told."""
    server = started()
    try:
        url = server.url()
        with clew.open(url, timeout=15) as store, clew.open(url, timeout=1) as hasty:
            session = store.sessions.create()
            with session.watch(timeout=60) as watch, hasty.sessions.get(session.id).watch(timeout=60) as other:
                listening(server, url, session, watch)
                listening(server, url, session, other)
                server.kill()
                with pytest.raises(Unavailable):
                    next(other)
                server.start()
                session.append(clew.user("a"))
                assert next(watch).text == next(other).text == "a"
                listening(server, url, session, watch)
                session.append(clew.user("b"))
                assert next(watch).text == next(other).text == "b"
    finally:
        server.stop()


def test_an_append_that_began_before(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that looked for watchers before there were any, and commits when they wait, is not missed."""
    monkeypatch.setattr(listener, "RENEW", 1000.0)
    url = server.url()
    appended = threading.Event()
    with clew.open(url) as store, clew.open(url) as other:
        session = store.sessions.create()
        theirs = other.sessions.get(session.id)

        def append() -> None:
            with other.transaction():
                theirs.append(clew.user("a"))
                appended.set()
                time.sleep(1)

        with session.watch(timeout=10) as watch:
            writer = threading.Thread(target=append)
            writer.start()
            appended.wait()
            assert next(watch).text == "a"
            writer.join()
            threading.Timer(0.5, lambda: theirs.append(clew.user("b"))).start()
            assert next(watch).text == "b"


def test_one_connection_for_all(server: Server) -> None:
    """Forty tasks that watch twenty sessions need one connection together, and none when they are done."""
    url = server.url(application_name="watched")

    def connections() -> int:
        with server.connect() as conn:
            (count,) = conn.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'watched'"
            ).fetchone() or (0,)
        return int(count)

    async def main() -> None:
        heard: dict[int, str] = {}
        async with clew.aio.open(url, pool_size=2) as store:
            sessions = [await store.sessions.create() for _ in range(20)]
            begun = anyio.Semaphore(0)

            async def listen(number: int) -> None:
                async with sessions[number % 20].watch(timeout=30) as watch:
                    begun.release()
                    heard[number] = (await anext(watch)).text

            async with anyio.create_task_group() as tasks:
                for number in range(40):
                    tasks.start_soon(listen, number)
                for _ in range(40):
                    await begun.acquire()
                await anyio.sleep(0.1)
                assert await anyio.to_thread.run_sync(connections) <= 3
                for session in sessions:
                    await session.append(clew.user(session.id))
            assert heard == {number: sessions[number % 20].id for number in range(40)}
            with anyio.move_on_after(0.1):
                await anext(sessions[0].watch())
            assert nobody_watches()
            assert await anyio.to_thread.run_sync(connections) <= 2

    anyio.run(main)


def test_who_may_only_read(server: Server) -> None:
    """Where nothing can be written nobody can ask to be notified: then the store is looked at every second."""
    url = server.url()
    with clew.open(url) as store:
        session = store.sessions.create()
        with clew.open(f"{url}&options=-cdefault_transaction_read_only%3Don") as reader:
            with reader.sessions.get(session.id).watch(timeout=20) as watch:
                talk = threading.Timer(0.3, lambda: session.append(clew.user("a")))
                talk.start()
                assert next(watch).text == "a"
                talk.join()
        assert asked(server, url) == set()


def test_tenants(server: Server) -> None:
    """A tenant watches sessions of its own workspace, and cannot say that another's is watched, or is not."""
    url = server.url()
    roles = [f"r{uuid.uuid4().hex}" for _ in "ab"]
    with server.connect() as conn:
        for role in roles:
            conn.execute(f"CREATE ROLE {role} LOGIN")
    with clew.open(url) as owner:
        tenants.isolate(owner)
        for role, workspace in zip(roles, "ab", strict=True):
            tenants.admit(owner, role, workspace)
    with clew.open(url.replace("clew@", f"{roles[0]}@"), workspace="a") as store:
        session = store.sessions.create()
        with session.watch(timeout=20) as watch:
            listening(server, url, session, watch)
            session.append(clew.user("a"))
            assert next(watch).text == "a"
            with server.connect() as conn:
                beside(conn, url).execute(f"SET ROLE {roles[1]}")
                assert conn.execute("SELECT ref FROM watched").fetchall() == []
                assert conn.execute("DELETE FROM watched").rowcount == 0
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    conn.execute("INSERT INTO watched VALUES (%s, now())", (session._row.ref + 1000,))
            purge = threading.Timer(0.2, session.purge)
            purge.start()
            began = time.monotonic()
            with pytest.raises(clew.NotFound):
                next(watch)
            assert time.monotonic() - began < listener.RENEW / 2
            purge.join()
