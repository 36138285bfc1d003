"""A store whose large tables are partitioned: a session stays in one partition, ids stay unique, tenants stay apart."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
import psycopg.sql
import pytest

import clew
from benchmarks import simulation
from clew.backends import creation_counter
from clew.backends.postgres.tx import SQL
from clew.base import ids
from clew.checkpoints import Checkpoints
from clew.errors import Conflict, Invalid, ReadOnly
from clew.store import partitions, tenants
from clew.store.nodes import NewNode
from clew.upkeep import copy_store
from tests.backends.postgres.server import Server
from tests.backends.postgres.test_tenants import NodeLocation, fill
from tests.reliability import sample

PARTS = 16
LARGE = ("nodes", "log", "chunks", "search")


def sql(server: Server, url: str) -> psycopg.Connection[Any]:
    return server.connect(options=f"-csearch_path={url.partition('schema=')[2]}")


@pytest.fixture
def url(server: Server) -> str:
    """Where a divided store is whose next tree is in the last shard but one."""
    url = server.url()
    with clew.open(url) as store:
        partitions.divide(store, PARTS)
    with sql(server, url) as conn:
        conn.execute("SELECT setval('trees_tree_seq', 253)")
    return url


def parts_with_rows(conn: psycopg.Connection[Any], table: str) -> dict[str, int]:
    """How many rows each partition has that has any."""
    found = conn.execute(f"SELECT tableoid::regclass::text, count(*) FROM {table} GROUP BY 1").fetchall()
    return dict(found)


def scans(conn: psycopg.Connection[Any]) -> dict[str, int]:
    """How often each index on positions was used, by the name of its partition."""
    conn.execute("SELECT pg_stat_clear_snapshot()")
    return dict(
        conn.execute(
            "SELECT relname, idx_scan FROM pg_stat_user_indexes WHERE schemaname = current_schema()"
            " AND relname LIKE 'nodes\\_%' AND indexrelname LIKE '%pkey%'"
        ).fetchall()
    )


def test_a_session_is_in_one_partition(server: Server, url: str) -> None:
    """Messages, log, attachments, words: whatever a session and its forks store is in the partition of their tree."""
    with clew.open(url) as store, sql(server, url) as conn:
        for number in range(4):  # trees 254, 255, 256, 257: the last shards, then the first
            fill(store, f"word{number}")
            last, first = f"_{PARTS - 1}", "_0"
            wanted = {last} if number < 2 else {last, first}
            for table in LARGE:
                assert {name.removeprefix(table) for name in parts_with_rows(conn, table)} == wanted, table
        for table, key in (("runs", "run"), ("refs", "ref"), ("blobs", "blob")):
            for made, tree in conn.execute(f"SELECT {key}, coalesce(tree, 0) FROM {table}").fetchall():
                assert made == simulation.number(tree, creation_counter(made)), table
        assert store.verify().ok


def touched(conn: psycopg.Connection[Any], name: str, *values: int | str | bytes) -> set[str]:
    """The partitions of `nodes` that a statement looks into, by the plan that serves all values."""
    kinds = {int: "bigint", str: "text", bytes: "bytea"}
    statement = SQL[name].decode()
    for number in range(len(values)):
        statement = statement.replace("%s", f"${number + 1}", 1)
    with conn.transaction(force_rollback=True):
        conn.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        conn.execute(f"PREPARE {name} ({', '.join(kinds[type(value)] for value in values)}) AS {statement}".encode())
        given = psycopg.sql.SQL(", ").join(map(psycopg.sql.Literal, values))
        ask = psycopg.sql.SQL("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) EXECUTE {} ({})")
        plan = conn.execute(ask.format(psycopg.sql.Identifier(name), given)).fetchall()
    steps = [line for (line,) in plan if "never executed" not in line]
    return {f"nodes_{number}" for number in range(PARTS) if any(f" on nodes_{number} " in line for line in steps)}


def test_pruning(server: Server, url: str) -> None:
    """What is asked for by position is looked for in one partition: appending, the last messages, all of them."""
    with clew.open(url, pool_size=2) as store, sql(server, url) as conn:
        session = store.sessions.create()
        session.append([clew.user(str(number)) for number in range(50)])
        head, key = conn.execute("SELECT head, key FROM refs WHERE head IS NOT NULL").fetchone() or (0, b"")
        home = f"nodes_{(head >> 55) * PARTS // 256}"
        assert touched(conn, "nodes_between", head - 19, head) == {home}
        assert touched(conn, "node_at", head) == {home}
        assert touched(conn, "last_pos", head - 19, head) == {home}
        assert touched(conn, "tail", 19, "", "session", key) == {home}
        assert touched(conn, "delete_nodes", head - 19, head) == {home}
        assert len(touched(conn, "node", ids.parse(session.path()[0].id))) == PARTS  # an id alone tells no place
        # What clew's own calls did, as the server has counted it.
        before = scans(conn)
        for number in range(20):
            session.append(clew.user(f"more {number}"))
            assert len(session.path(last=20)) == 20
            assert len(session.path()) == 51 + number
        store.close()  # a server process tells its counts when it ends
        after = _settled(conn, before)
        assert {name for name, count in after.items() if count != before[name]} == {home}
        assert parts_with_rows(conn, "nodes") == {home: 70}


def _settled(conn: psycopg.Connection[Any], before: dict[str, int]) -> dict[str, int]:
    for _ in range(200):
        after = scans(conn)
        others = conn.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'clew'").fetchone()
        if after != before and others == (0,):
            return scans(conn)
        conn.execute("SELECT pg_sleep(0.05)")
    raise AssertionError("the server does not tell")


def test_an_id_is_nobodys_twice(url: str) -> None:
    """Not in another session either, whichever partition that is in; and the same again is the same message."""
    with clew.open(url) as store:
        sessions = [store.sessions.create() for _ in range(4)]
        node = sessions[0].append(clew.user("mine"))
        entry = sessions[0].log.append([b"mine"])[0]
        for other in sessions[1:]:
            other.append(clew.user("first"))  # from now on, without a look before
            with pytest.raises(Conflict):
                other.append(clew.user("theirs"), id=node.id)
            with pytest.raises(Conflict):
                store.nodes.save(
                    [NewNode(clew.user("theirs"), id=node.id), clew.user("too")],
                    parent=other.path()[0].id,
                )
            with pytest.raises(Conflict):
                other.log.append([b"theirs"], id=[entry.id])
            with store.transaction():
                with pytest.raises(Conflict):
                    other.append(clew.user("theirs"), id=node.id)
                other.append(clew.user("goes on"))
            assert [one.text for one in other.path()] == ["first", "goes on"]
        assert sessions[0].append(clew.user("mine"), id=node.id) == node
        assert [one.text for one in sessions[0].path()] == ["mine"]
        assert store.nodes.get([node.id])[0].text == "mine"
        assert store.nodes.resolve(node.handle) == node.id
        assert store.verify().ok


def test_tenants(server: Server) -> None:
    """The rules hold for partitions: each sees its own, and none gets at a partition by its name."""
    place = NodeLocation(server, parts=4)
    with place.open(0) as one, place.open(1) as two:
        mine = fill(one, "alpha")
        fill(two, "omega")
        node = mine.path()[0]
        assert one.verify().ok
        with pytest.raises(Conflict):
            two.sessions.create().append(clew.user("mine"), id=node.id)
        assert [hit.node.text for hit in two.search("alpha")] == []
        receipt = one.sessions.purge(mine.id)
        assert (receipt.failures, receipt.pending) == ((), ())
    with place.sql(1) as conn:
        (seen,) = conn.execute("SELECT count(*) FROM nodes").fetchone() or (0,)
        assert seen == 4
        for table in LARGE:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                conn.execute(f"SELECT * FROM {table}_0")
        # A table of one's own by the same name is not looked at in place of the store's.
        conn.execute("CREATE TEMPORARY TABLE nodes (id bytea, pos bigint)")
        with pytest.raises((psycopg.errors.UniqueViolation, psycopg.errors.InsufficientPrivilege)):
            conn.execute(
                f'INSERT INTO {place.schema}.nodes (pos, facts, id, body) SELECT max(pos) + 1, min(facts), %s, \'\''
                f' FROM {place.schema}.nodes', (ids.parse(two_id(place)),)
            )  # fmt: skip


def two_id(place: NodeLocation) -> str:
    with place.open(0) as store:
        return store.sessions.create().append(clew.user("another")).id


def test_dividing(server: Server, tmp_path: Path) -> None:
    """Only what is empty, on a server, by its owner, into parts that shards can be cut into, and once."""
    url = server.url()
    with clew.open(":memory:") as store, pytest.raises(Invalid):
        partitions.divide(store)
    with clew.open(url) as store:
        for parts in (0, 1, 3, 17, 128, 16.5, "16"):
            with pytest.raises(Invalid):
                partitions.divide(store, parts)  # type: ignore[arg-type]
        session = store.sessions.create()
        with pytest.raises(Conflict, match="not empty"):
            partitions.divide(store)
        store.sessions.purge(session.id)
    with clew.open(server.url()) as store:
        tenants.isolate(store)
        with pytest.raises(Conflict, match="tenants"):
            partitions.divide(store)
    url = server.url()
    with clew.open(url) as store:
        partitions.divide(store, 64)
        with pytest.raises(Conflict, match="already"):
            partitions.divide(store, 64)
        fill(store, "alpha")
    place = NodeLocation(server)
    with place.open(0) as store, pytest.raises((ReadOnly, Conflict)):
        partitions.divide(store)


def test_copied_there_and_back(server: Server, url: str, tmp_path: Path) -> None:
    """A store goes from one that is whole to one that is divided, to a file, and to a server again: each goes on with
    numbers of its own, and what grows there from what came from elsewhere is read, deleted and copied like anything.
    """
    whole = server.url()
    clew.open(whole).close()
    with sql(server, whole) as conn:  # its counters are far apart, and its trees in several shards
        conn.execute("SELECT setval('trees_tree_seq', 250), setval('run_numbers', 100000), setval('ref_numbers', 5)")
    with clew.open(whole, ids=sample.id_source(), clock=sample.clock()) as store:
        sample.fill(store, words=4, blob=50_000)
        was = sample.readings(store)
        talks = [session.id for session in store.sessions.list().items if len(session.path()) > 2][-3:]
    places = [whole, url, str(tmp_path / "file.db"), server.url()]
    grown: list[str] = []
    for source, target in pairwise(places):
        copy_store.copy(source, target)
        with clew.open(target, create=False) as store:
            assert sample.readings(store) == was
            # In each place something grows from what grew in the place before, and from each of the first.
            for id in (*talks, *grown[-1:]):
                short = store.sessions.get(id).fork()
                short.compact([clew.user("in short")])
                assert [one.text for one in short.history()][-1] == "in short"
                session = store.sessions.get(id).fork()
                session.rewind(session.path()[-2].id)
                session.append([clew.user("grown here"), clew.user("and on")])
                assert [one.text for one in session.path()][-2:] == ["grown here", "and on"]
                session.compact([clew.user("in short")])
                session.append(clew.user("further"))
                assert [one.text for one in session.history()][-3:] == ["and on", "in short", "further"]
                assert list(session.watch(after=None, timeout=0)) == list(session.history())
                assert session.path()[-1].id in {one.id for one in store.nodes.subtree(session.path()[0].id)}
                grown.append(session.id)
            assert store.verify().ok
            was = sample.readings(store)
    with clew.open(places[-1]) as store:
        store.sessions.purge(grown[-1])
        report = store.verify()
        assert report.ok, report.damage


def test_checkpoints_of_a_store_that_was_copied(server: Server, tmp_path: Path) -> None:
    """They stay in the order in which they were taken, whatever numbers each place gives."""
    (tmp_path / "work").mkdir()
    file = tmp_path / "work" / "a"
    file.write_text("original")
    places = [server.url(), str(tmp_path / "file.db"), server.url()]
    with clew.open(places[0]) as store, sql(server, places[0]) as conn:
        conn.execute("SELECT setval('trees_tree_seq', 199)")
        talk, other = store.sessions.create(), store.sessions.create()
        for session in (talk, other):
            session.append(clew.user("first"))
            session.fork()  # whose number begins with the shard of its tree; the file goes on in that of the other
    messages = []
    for number, place in enumerate(places):
        if number:
            copy_store.copy(places[number - 1], place)
        with clew.open(place) as store:
            session = store.sessions.get(talk.id)
            messages.append(session.append(clew.user(str(number))).id)
            Checkpoints(session, tmp_path / "work").capture(messages[-1], ["a"])
            file.write_text(f"after {number}")
    with clew.open(places[-1]) as store:
        checkpoints = Checkpoints(store.sessions.get(talk.id), tmp_path / "work")
        assert [one.message for one in checkpoints.list()] == messages
        for message, wanted in zip(reversed(messages), ("after 1", "after 0", "original"), strict=True):
            checkpoints.rewind(message)
            assert file.read_text() == wanted
