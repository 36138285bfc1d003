"""Changing the tables of a store that others have open: nobody's call fails, and nobody waits for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

import clew
from clew.backends import FORMAT
from clew.backends.postgres.migrate import FUNCTIONS
from clew.errors import Sealed, Unavailable, WrongKey
from clew.store import tenants
from clew.store.parts import Parts
from tests import made_up_migration
from tests.backends.postgres.server import Server
from tests.backends.postgres.test_tenants import NodeLocation, fill


@pytest.fixture
def place(server: Server) -> NodeLocation:
    return NodeLocation(server)


def format_of(place: NodeLocation) -> int:
    with place.server.connect(options=f"-csearch_path={place.schema}") as owner:
        (format,) = owner.execute("SELECT format FROM epoch").fetchone() or (0,)
    return int(format)


def once_waiting(place: NodeLocation) -> None:
    """Returns when somebody waits for a lock on a table of the store."""
    with place.server.connect(options=f"-csearch_path={place.schema}") as look:
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'relation'"
        until = time.monotonic() + 20
        while look.execute(waiting).fetchone() == (0,):
            assert time.monotonic() < until
            time.sleep(0.01)


@pytest.mark.parametrize("change", ["migrate", "isolate"])
def test_a_reader_that_goes_on_reading(place: NodeLocation, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One in the middle of reading and one who changes the tables wait for each other, and neither fails."""
    with clew.open(place.url, workspace="a") as store, clew.open(place.url) as owner:
        fill(store, "alpha")
        if change == "migrate":
            made_up_migration.install(monkeypatch)
            work: Callable[[], Any] = lambda: clew.open(place.url).close()  # noqa: E731
        else:
            work = lambda: tenants.isolate(owner)  # noqa: E731

        def read(tx: Any) -> int:
            tx.conn.execute("SELECT count(*) FROM refs")
            changing = pool.submit(work)
            once_waiting(place)
            time.sleep(1.2)  # who waits looks for a deadlock after a second: now it would be this one's to find
            found = 0
            for table in ("trees", "nodes", "runs", "epoch", "header"):  # before and after `refs` in any order
                (count,) = tx.conn.execute(f"SELECT count(*) FROM {table}").fetchone() or (0,)
                found += count
                time.sleep(0.1)
            assert not changing.done()
            pending.append(changing)
            return found

        pending: list[Any] = []
        with ThreadPoolExecutor(1) as pool:
            assert Parts.of(store).engine.read(read) > 0
            pending[0].result(20)
    assert format_of(place) == (made_up_migration.NEXT if change == "migrate" else FORMAT)


def test_a_reader_that_does_not_end(place: NodeLocation, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the timeout the owner is told that others use the store; nothing has changed, and the others go on."""
    with place.open(0) as store:
        fill(store, "alpha")
        made_up_migration.install(monkeypatch)

        def read(tx: Any) -> None:
            tx.conn.execute("SELECT count(*) FROM refs")
            began = time.monotonic()
            with pytest.raises(Unavailable, match="in use"):
                clew.open(place.url, timeout=1)
            assert time.monotonic() - began < 10
            tx.conn.execute("SELECT count(*) FROM trees")

        Parts.of(store).engine.read(read)
        assert format_of(place) == FORMAT
        assert store.sessions.list().items
    clew.open(place.url).close()
    assert format_of(place) == made_up_migration.NEXT


def test_many_tenants_at_work(place: NodeLocation) -> None:
    """While tenants write, read and search, their rules are switched on again and again: no call fails."""
    failed: list[BaseException] = []
    over = threading.Event()

    def work(store: clew.Store, word: str) -> None:
        rounds = 0
        while not over.is_set() or not rounds:
            try:
                session = fill(store, f"{word}{rounds}")
                with store.transaction():
                    session.rename("new")
                    session.append(clew.user("more"))
                store.sessions.list(total=True)
                store.sessions.purge(session.id)
            except BaseException as error:
                failed.append(error)
                return
            rounds += 1

    with ExitStack() as stack:
        stores = [stack.enter_context(place.open(number % 2)) for number in range(4)]
        owner = stack.enter_context(clew.open(place.url))
        crew = [threading.Thread(target=work, args=(one, f"w{number}")) for number, one in enumerate(stores)]
        for thread in crew:
            thread.start()
        try:
            for _ in range(5):
                tenants.isolate(owner)
                time.sleep(0.1)
        finally:
            over.set()
            for thread in crew:
                thread.join(60)
        assert failed == []
        report = owner.verify()
        assert report.ok, report.damage


@pytest.mark.parametrize(("key", "refused"), [(None, Sealed), (bytes(32), WrongKey)], ids=["no key", "another key"])
def test_an_old_store_is_not_migrated_without_its_key(
    place: NodeLocation, monkeypatch: pytest.MonkeyPatch, key: bytes | None, refused: type[clew.ClewError]
) -> None:
    """An older store that the key does not open is refused, and keeps its format."""
    right = bytes(range(32))
    with clew.open(place.url, key=right) as store:
        store.sessions.create().append(clew.user("before"))
    made_up_migration.install(monkeypatch)
    with pytest.raises(refused):
        clew.open(place.url, key=key)
    assert format_of(place) == FORMAT
    with clew.open(place.url, key=right) as store:
        assert store.sessions.latest().path()[0].text == "before"
    assert format_of(place) == made_up_migration.NEXT


def test_functions_of_an_older_clew(place: NodeLocation) -> None:
    """Opening a store replaces its functions by newer ones, also while others have it open."""
    with clew.open(place.url, workspace="a") as store:
        session = fill(store, "alpha")
        with place.server.connect(options=f"-csearch_path={place.schema}") as owner:
            owner.execute("COMMENT ON FUNCTION extend IS NULL")
            owner.execute("DROP FUNCTION home_of")
        clew.open(place.url, workspace="a").close()
        session.append(clew.user("with the new ones"))
        with place.server.connect(options=f"-csearch_path={place.schema}") as owner:
            found = owner.execute(
                "SELECT count(*), max(obj_description(oid)) FROM pg_proc"
                " WHERE proname IN ('extend', 'home_of') AND pronamespace = current_schema()::regnamespace"
            )
            assert found.fetchone() == (2, str(FUNCTIONS))
