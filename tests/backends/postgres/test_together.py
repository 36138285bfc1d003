"""What holds where several parts of a store on a server meet: shards, holds, keys, tenants, watchers, copies."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import psycopg
import pytest

import clew
from clew.backends.sql.tx import SqlTx
from clew.base.buckets import Bucket
from clew.checkpoints import Checkpoints
from clew.engine.sealing import header
from clew.engine.watch import state_of
from clew.errors import Conflict, Invalid, Unavailable
from clew.store.parts import Parts
from clew.store.session import delete_session, row_of
from clew.upkeep import copy_store
from tests import made_up_migration
from tests.backends.postgres.proxy import Proxy
from tests.backends.postgres.server import Server
from tests.backends.postgres.test_tenants import NodeLocation, fill

KEY, OTHER = b"1" * 32, b"2" * 32


def sql(server: Server, url: str) -> psycopg.Connection[Any]:
    return server.connect(options=f"-csearch_path={url.partition('schema=')[2]}")


def begin_trees_after(server: Server, url: str, tree: int) -> None:
    """Makes a store whose next tree has the number after this one."""
    clew.open(url).close()
    with sql(server, url) as conn:
        conn.execute("SELECT setval('trees_tree_seq', %s)", (tree,))


def test_a_hold_covers_what_is_in_a_lower_shard(server: Server, url: str) -> None:
    """A subagent has a tree of its own, in any shard; whose it is is not told by which number is the higher one."""
    begin_trees_after(server, url, 254)
    with clew.open(url) as store:
        session = store.sessions.create()
        session.append(clew.user("ask"))
        trace = store.sessions.create(agent="explorer", owner=session)
        node = trace.append(clew.user("look"))
        assert row_of(trace).ref < row_of(session).ref
        session.hold("a case")
        with pytest.raises(Conflict):
            delete_session(trace)
        with pytest.raises(Conflict):
            store.nodes.delete([node.id])
        assert store.sessions.purge(trace.id).failures
        assert [one.text for one in trace.path()] == ["look"]


def test_watching_what_has_been_elsewhere(server: Server, url: str, tmp_path: Path) -> None:
    """A session that was in a file in between grows in a lower shard than before, and is watched like any other."""
    begin_trees_after(server, url, 254)
    with clew.open(url) as store:
        session = store.sessions.create()
        session.append([clew.user("one"), clew.user("two")])
    file, back = tmp_path / "file.db", server.url()
    copy_store.copy(url, file)
    with clew.open(file) as store:
        new = store.sessions.create()
        new.append([clew.user("one"), clew.user("two"), clew.user("three")])
    copy_store.copy(file, back)
    with clew.open(back) as store:
        session = store.sessions.get(new.id)
        session.rewind(to=session.path()[0].id)
        session.append(clew.user("aside"))
        session.compact(clew.user("in short"))
        session.append(clew.user("and on"))
        with session.watch(after=None, timeout=0) as messages:
            assert [node.text for node in messages] == ["one", "aside", "in short", "and on"]
        assert store.verify().ok


def test_checkpoints_that_have_been_elsewhere(server: Server, url: str, tmp_path: Path) -> None:
    """Which checkpoint came first does not depend on where the store was when it was taken."""
    begin_trees_after(server, url, 254)
    with clew.open(url) as store:
        store.sessions.create()
    file, back, root = tmp_path / "file.db", server.url(), tmp_path / "root"
    root.mkdir()
    (root / "a").write_text("first")
    copy_store.copy(url, file)
    with clew.open(file) as store:
        session = store.sessions.create()
        first = session.append(clew.user("one"))
        with Checkpoints(session, root).guard(first, ["a"]):
            (root / "a").write_text("second")
    copy_store.copy(file, back)
    with clew.open(back) as store:
        session = store.sessions.get(session.id)
        checkpoints = Checkpoints(session, root)
        second = session.append(clew.user("two"))
        with checkpoints.guard(second, ["a", "b"]):
            (root / "a").write_text("third")
            (root / "b").write_text("new")
        assert [one.message for one in checkpoints.list()] == [first.id, second.id]
        assert checkpoints.rewind(first).can_rewind
        assert (root / "a").read_text() == "first"
        assert not (root / "b").exists()


def test_new_keys_while_every_connection_is_waiting(url: str) -> None:
    """All who wait for their turn learn that the store is kept in another way, each beside the connection it has."""
    with clew.open(url, key=KEY, pool_size=2, timeout=30) as store, clew.open(url, key=KEY) as other:
        waiting = threading.Barrier(3)
        failed: list[BaseException] = []

        def create() -> None:
            waiting.wait()
            try:
                store.sessions.create(title="waited")
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=create) for _ in range(2)]
        for thread in threads:
            thread.start()
        began = time.monotonic()
        with other.transaction():
            waiting.wait()
            time.sleep(0.3)  # until both have a connection, and wait
            engine = Parts.of(other).engine
            engine.write(lambda tx: header.put(tx, engine.store_id, engine.secrets(tx)))
        for thread in threads:
            thread.join()
        assert not failed
        assert time.monotonic() - began < 25  # of 30
        assert len(store.sessions.list().items) == 2
        assert len(Parts.of(store).engine.backend._connections._idle) <= 2  # type: ignore[attr-defined]


def test_what_takes_long_may_and_nothing_else(url: str) -> None:
    """A check or a copy of a large store is not cut short; after a purge statements have their limit again."""
    with clew.open(url, pool_size=2) as store:
        backend: Any = Parts.of(store).engine.backend

        def limit() -> str:
            with backend._connections.take() as conn:
                return str(conn.execute("SHOW statement_timeout").fetchone()[0])

        usual = limit()
        assert usual == "1min"
        with backend.reader() as reader:
            assert reader.execute("SHOW statement_timeout").fetchone() == ("0",)
        assert limit() == usual
        assert backend.read(
            lambda tx: (tx.maintenance.sizes(), tx.conn.execute("SHOW statement_timeout").fetchone())[1]
        ) == ("0",)
        assert limit() == usual
        store.sessions.purge(store.sessions.create().id)
        assert limit() == usual


def test_a_purge_counts_nothing_but_its_own(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """How long it takes does not depend on how much else there is; and attachments are counted all the same."""
    with clew.open(url) as store:
        fill(store, "other")
        sessions = [fill(store, word) for word in ("one", "two")]
        monkeypatch.setattr(SqlTx, "sizes", lambda tx: pytest.fail("everything is counted"))
        assert store.key_status().state == "plain"
        for session in sessions:
            assert store.sessions.purge(session.id, dry_run=True).blobs == 0  # a fork shows it, too
            forks = [one.id for one in store.sessions.list().items if one.data.forked_from == session.id]
            store.sessions.purge(session.id)
            assert store.sessions.purge(*forks).blobs == 1


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    proxy = Proxy(server)
    yield proxy
    proxy.close()


@pytest.mark.parametrize("outside", [False, True])
def test_a_blob_whose_last_commit_was_lost(
    proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outside: bool
) -> None:
    """It was stored after all, and another may have found it there: it stays."""
    content = b"x" * 5000
    with clew.open(proxy.url(), blobs=Bucket(tmp_path.as_uri(), over=1000) if outside else None) as store:
        blobs = store.sessions.create().blobs
        finish = blobs._finish

        def cut(*args: Any) -> bool:
            proxy.cut_at(b"COMMIT", "after")
            return finish(*args)

        with monkeypatch.context() as patch, pytest.raises(Unavailable):
            patch.setattr(blobs, "_finish", cut)
            blobs.put(content)
        assert proxy.cuts == 1
        assert blobs.get(sha256(content).hexdigest()) == content
        assert blobs.put(content).size == 5000
        assert store.verify().ok


def test_a_store_with_tenants_is_brought_to_a_newer_format(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is new has its rules, and the tenants their rights: they go on, and see no more than before."""
    place = NodeLocation(server)
    with place.open(0) as store:
        mine = fill(store, "alpha")
    with server.connect() as conn:
        conn.execute(f"SET search_path = {place.schema}")
        conn.execute("INSERT INTO tenants VALUES ('gone_since', 'c')")
    made_up_migration.install(monkeypatch)
    clew.open(place.url).close()
    with place.open(0) as store:
        assert store.verify().ok
        assert store.sessions.purge(mine.id).failures == ()
    with server.connect() as conn:
        ruled = conn.execute(
            "SELECT relrowsecurity FROM pg_class WHERE oid = %s::regclass", (f"{place.schema}.objects",)
        ).fetchone()
    assert ruled == (True,)


def test_a_tenant_watches_what_is_gone(server: Server) -> None:
    """It does not make the server deaf to what else the tenant watches."""
    place = NodeLocation(server)
    with place.open(0) as store, place.open(0) as other:
        kept, gone = (fill(store, word) for word in ("kept", "gone"))
        stop = Parts.of(store).engine.backend.watch(row_of(gone).ref, lambda: None)
        other.sessions.purge(gone.id)
        with kept.watch(timeout=10) as watch:
            state_of(watch).subscribe(lambda: None)
            until = time.monotonic() + 30
            while not _asked(server, place, kept):
                assert time.monotonic() < until
                time.sleep(0.02)
        stop()


def _asked(server: Server, place: NodeLocation, session: clew.Session) -> bool:
    with server.connect() as conn:
        found = conn.execute(f"SELECT 1 FROM {place.schema}.watched WHERE ref = %s", (row_of(session).ref,)).fetchone()
    return found is not None


def test_who_may_only_read_searches(server: Server, url: str) -> None:
    """Whoever cannot fill the index on the server finds the same: what came since it was filled, too."""
    schema = url.partition("schema=")[2]
    role = f"r{schema}"
    with clew.open(url) as store:
        fill(store, "alpha")
        assert len(store.search("alpha")) == 2
        fill(store, "omega")
        with sql(server, url) as conn:
            conn.execute(f"CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {role}")
            conn.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}")
            conn.execute(f"GRANT SELECT ON ALL SEQUENCES IN SCHEMA {schema} TO {role}")
        with clew.open(url.replace("clew@", f"{role}@")) as reader:
            for word in ("alpha", "omega", "om*"):
                found = [{hit.node.id for hit in one.search(word)} for one in (reader, store)]
                assert found[0] == found[1] != set()
            assert {hit.node.text for hit in reader.search("mega", mode="substring")} == {"omega", "omega aside"}


def test_a_schema_of_the_servers_own(server: Server) -> None:
    """It is told, and is not to be tried again."""
    with pytest.raises(Invalid, match="pg_"):
        clew.open(server.url(schema="pg_mine"))
