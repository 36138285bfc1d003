"""Appends that are made together on a server: one statement for all of them, and each as if it were alone."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import psycopg
import pytest

import clew
import clew.aio
from clew.backends import Call
from clew.backends.postgres.connection import Numbers, Strings
from clew.backends.postgres.transactions import Turns
from clew.base.ids import parse
from clew.errors import Conflict, Sealed
from clew.store import partitions
from clew.store.parts import Parts
from clew.store.session import row_of
from clew.upkeep import rekey
from tests.backends.postgres.server import Server
from tests.backends.postgres.test_tenants import NodeLocation
from tests.backends.postgres.trips import counted

KEY = bytes(range(32))
ID = "01890000-0000-7000-8000-000000000001"


@pytest.fixture(params=["plain", "sealed", "divided", "a tenant's"])
def store(request: pytest.FixtureRequest, server: Server) -> Iterator[clew.Store]:
    """A store of each kind whose appends go through other checks on the server."""
    if request.param == "a tenant's":
        store = NodeLocation(server).open(0)
    else:
        store = clew.open(server.url(), key=KEY if request.param == "sealed" else None)
        if request.param == "divided":
            partitions.divide(store, 4)
    with store:
        yield store


def sessions(store: clew.Store, count: int) -> list[clew.Session]:
    """New ones that have a message already, and are known to have it."""
    made = [store.sessions.create() for _ in range(count)]
    for session in made:
        session.append(clew.user("first"))
    return made


def say(session: clew.Session, *texts: str, **options: Any) -> Callable[[], Any]:
    messages = [clew.user(text) for text in texts]
    return lambda: session.append(messages if len(messages) > 1 else messages[0], **options)


def together(store: clew.Store, *functions: Callable[[], Any]) -> list[Call]:
    """Makes calls as tasks do that wait at the same time."""
    calls = [Call(function) for function in functions]
    Parts.of(store).engine.backend.batch(calls)
    return calls


def texts(session: clew.Session) -> list[str]:
    return [node.text for node in session.path()]


def sent(store: clew.Store, monkeypatch: pytest.MonkeyPatch) -> list[list[bool]]:
    """Which appends were done, of each batch from now on."""
    appends: Any = Parts.of(store).engine.backend._appends  # type: ignore[attr-defined]
    send_all = appends.send_all
    found: list[list[bool]] = []

    def send(them: Any) -> list[bool]:
        found.append(send_all(them))
        return found[-1]

    monkeypatch.setattr(appends, "send_all", send)
    return found


def nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on, for its turn."""
    monkeypatch.setattr(Turns, "take", lambda turns: pytest.fail("it waits for its turn"))


def test_one_round_trip(store: clew.Store) -> None:
    """Appends of several tasks, of one message or several, to one session or many, wait for the server once."""
    one, two, three = sessions(store, 3)
    together(store, say(one, "a"), say(two, "a"))  # this prepares the statement
    with Parts.of(store).engine.backend._connections.take() as conn:  # type: ignore[attr-defined]
        pass  # the next to ask gets the same
    with counted(conn) as trips:
        calls = together(
            store, say(one, "b"), say(two, "b", "c"), say(one, "c", "d"), say(three, "b"), say(one, "e"), say(two, "d")
        )
    assert trips == [1]
    assert [call.error for call in calls] == [None] * 6
    assert texts(one) == ["first", "a", "b", "c", "d", "e"]
    assert texts(two) == ["first", "a", "b", "c", "d"]
    assert texts(three) == ["first", "b"]
    results = [call.result if isinstance(call.result, list) else [call.result] for call in calls]
    assert [[node.text for node in result] for result in results] == [
        ["b"],
        ["b", "c"],
        ["c", "d"],
        ["b"],
        ["e"],
        ["d"],
    ]
    assert store.verify().ok


def test_large_messages_are_not_sent_together(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement has no more than some bytes, or a single append; one that fails does not undo those before it."""
    monkeypatch.setattr("clew.backends.postgres.batches.LARGEST", 1000)
    with clew.open(url) as store:
        made = sessions(store, 4)
        done = sent(store, monkeypatch)
        large = "x" * 600
        together(store, *(say(session, large) for session in made[:2]), say(made[0], "after"), say(made[2], 3 * large))
        assert done == [[True], [True, True], [True]]
        assert [len(texts(session)) for session in made] == [3, 2, 2, 1]
        monkeypatch.undo()
        monkeypatch.setattr("clew.backends.postgres.batches.LARGEST", 1000)
        calls = together(
            store, say(made[0], large, id=ID), say(made[1], large, id=ID), say(made[0], large), say(made[3], large)
        )
        assert [type(call.error) for call in calls] == [type(None), Conflict, type(None), type(None)]
        assert [len(texts(session)) for session in made] == [5, 2, 2, 2]
        assert store.verify().ok


def test_order_of_commit(store: clew.Store) -> None:
    """What follows in a session follows in the order of commit, however many are stored at once."""
    made = sessions(store, 20)
    together(store, *(say(session, *map(str, range(9))) for session in made for _ in range(2)))
    place = {node.id: number for number, node in enumerate(store.nodes.list(ascending=True, limit=500).items)}
    for session in made:
        assert texts(session) == ["first", *map(str, range(9)), *map(str, range(9))]
        assert all(place[one.id] < place[next.id] for one, next in pairwise(session.path()))


def test_the_last_to_be_appended_to_is_the_latest(store: clew.Store) -> None:
    """Sessions of one batch are listed in its order."""
    made = sessions(store, 4)
    together(store, *(say(made[number], "x") for number in (2, 0, 3, 1, 0)))
    listed = [session.id for session in store.sessions.list().items]
    assert listed == [made[number].id for number in (0, 1, 3, 2)]


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "sealed"])
def test_one_that_another_has_moved(url: str, key: bytes | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it is stored until it was looked at anew; the others of the batch are not held up by it."""
    with clew.open(url, key=key) as store, clew.open(url, key=key) as other:
        made = sessions(store, 4)
        other.sessions.get(made[1].id).append(clew.user("in between"))
        other.sessions.get(made[2].id).rename("new")
        done = sent(store, monkeypatch)
        nobody_waits(monkeypatch)
        together(store, *(say(session, word) for word in "ab" for session in made))
        assert done == [[True, False, False, True] * 2, [True] * 4]
        monkeypatch.undo()
        assert [texts(session)[1:] for session in made] == [
            ["a", "b"],
            ["in between", "a", "b"],
            ["a", "b"],
            ["a", "b"],
        ]
        assert other.sessions.get(made[2].id).title == "new"
        assert store.verify().ok


def test_two_sessions_at_the_same_message(store: clew.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session and its fork go on from there at the same moment: one continues the run, the other branches off, and
    waits for its turn alone.
    """
    (session,) = sessions(store, 1)
    fork = session.fork()
    beside = sessions(store, 1)[0]
    done = sent(store, monkeypatch)
    calls = together(store, say(session, "mine"), say(fork, "yours"), say(beside, "other"), say(fork, "again"))
    assert [call.error for call in calls] == [None] * 4
    assert texts(session) == ["first", "mine"]
    assert texts(fork) == ["first", "yours", "again"]
    assert done[0] == [True, False, True, False]
    assert texts(beside) == ["first", "other"]
    assert store.verify().ok


@pytest.mark.parametrize("expects_first", [False, True])
def test_heads_in_two_runs(url: str, expects_first: bool) -> None:
    """After a compaction one task goes on from what the process remembers, and another from what it was told: whoever
    is told that its message is stored finds it.
    """

    async def main() -> None:
        async with clew.aio.open(url) as store:
            session = await store.sessions.create()
            await session.append(clew.user("first"))
            (head,) = await session.compact(clew.user("summary"))
            tasks = [session.append(clew.user("plain")), session.append(clew.user("expects"), expect_head=head.id)]
            done = await asyncio.gather(*tasks[:: -1 if expects_first else 1], return_exceptions=True)
            stored = [node.text for node in done if not isinstance(node, BaseException)]
            assert [node.text for node in await session.path()] == ["summary", *stored]
            assert "plain" in stored
            assert all(isinstance(error, Conflict) for error in done if isinstance(error, BaseException))
            assert (await store.verify()).ok

    asyncio.run(main())


def test_an_id_that_is_taken(store: clew.Store) -> None:
    """Whoever comes second with it is refused; nobody else is."""
    one, two, three = sessions(store, 3)
    calls = together(store, say(one, "a", id=ID), say(two, "b", id=ID), say(three, "c"))
    assert calls[0].error is calls[2].error is None
    assert isinstance(calls[1].error, Conflict)
    assert [texts(session) for session in (one, two, three)] == [["first", "a"], ["first"], ["first", "c"]]


def test_who_is_overtaken_does_not_wait_for_its_turn(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process, whose clock is ahead, brings its own session to the top: a look is enough.

    Up to two seconds are not looked at: the clocks of machines may differ.
    """
    with clew.open(url) as store, clew.open(url) as other:
        one, two = sessions(store, 2)
        monkeypatch.setattr(Parts.of(other).engine, "clock", lambda: time.time_ns() // 1000 + 10_000_000)
        (third,) = sessions(other, 1)
        nobody_waits(monkeypatch)
        monkeypatch.setattr(Parts.of(store).engine, "clock", lambda: 1)  # behind all others
        together(store, say(one, "a"), say(two, "a"))
        listed = [session.id for session in other.sessions.list().items]
        assert listed == [two.id, one.id, third.id]


def test_many_sessions_at_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two processes with eight sessions each, all of which are active, nobody waits for the lock of the store."""
    with clew.open(url) as store, clew.open(url) as other:
        mine, theirs = sessions(store, 8), sessions(other, 8)
        nobody_waits(monkeypatch)

        def talk(session: clew.Session) -> None:
            for number in range(20):
                session.append(clew.user(str(number)))

        threads = [threading.Thread(target=talk, args=(session,)) for session in (*mine, *theirs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {len(session.path()) for session in (*mine, *theirs)} == {21}
        assert store.verify().ok


def test_two_who_are_both_at_the_top(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process takes its own session for the last active one; after a second of activity it looks again."""
    with clew.open(url) as store, clew.open(url) as other:
        now = time.time_ns() // 1000
        for one in (store, other):
            monkeypatch.setattr(Parts.of(one).engine, "clock", lambda: now)
        (mine,), (theirs,) = sessions(store, 1), sessions(other, 1)
        now += 1_000_000
        mine.append(clew.user("later"))
        assert [session.id for session in store.sessions.list()] == [mine.id, theirs.id]


def test_sealing_stops_a_batch(url: str) -> None:
    """As soon as sealing has begun, a batch of one who has no key stores nothing any more."""
    with clew.open(url) as one, clew.open(url) as two:
        made = sessions(two, 3)
        rekey.begin(Parts.of(one).engine, "seal", KEY)
        calls = together(two, *(say(session, "too late") for session in made))
        assert [type(call.error) for call in calls] == [Sealed] * 3
        rekey.run(Parts.of(one).engine, None)
        assert all(texts(one.sessions.get(session.id)) == ["first"] for session in made)


def test_those_who_watch_are_told(server: Server) -> None:
    """Of a batch, who watches a session hears once of it, with its last version; of others nothing is said."""
    url = server.url()
    with clew.open(url) as store, server.connect(options=f"-csearch_path={url.partition('schema=')[2]}") as conn:
        watched, late, other = sessions(store, 3)
        refs = [row_of(watched).ref, row_of(late).ref]
        conn.execute("INSERT INTO watched VALUES (%s, now() + '1 hour'), (%s, now() - '1 hour'::interval)", refs)
        (channel,) = conn.execute("SELECT 'clew_' || 'refs'::regclass::oid").fetchone() or ("",)
        conn.execute(f'LISTEN "{channel}"')
        conn.commit()
        together(store, say(watched, "a"), say(late, "a"), say(other, "a"), say(watched, "b"))
        watched.append(clew.user("alone"))
        other.append(clew.user("alone"))
        conn.execute("SELECT 1")
        heard = [notice.payload for notice in conn.notifies(timeout=1, stop_after=2)]
        (version,) = conn.execute("SELECT version FROM refs WHERE ref = %s", refs[:1]).fetchone() or (0,)
    assert heard == [f"{refs[0]} {version - 1}", f"{refs[0]} {version}"]


def read(conn: psycopg.Connection[Any]) -> int:
    """How many rows of refs, runs and nodes were read."""
    conn.execute("SELECT pg_stat_clear_snapshot()")
    (rows,) = conn.execute(
        "SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_user_tables"
        " WHERE schemaname = current_schema() AND relname IN ('refs', 'runs', 'nodes')"
    ).fetchone() or (0,)
    return int(rows)


@pytest.mark.parametrize("count", [1, 3])
def test_a_plan_that_was_made_when_there_was_little(server: Server, count: int) -> None:
    """A store that grows after an append was planned, and is not counted anew, reads no more for an append."""
    url = server.url()
    with clew.open(url) as store, server.connect(options=f"-csearch_path={url.partition('schema=')[2]}") as conn:
        conn.autocommit = True
        made = sessions(store, count)
        backend: Any = Parts.of(store).engine.backend

        def talk() -> int:
            before = read(conn)
            for _ in range(10):
                together(store, *(say(session, "x") for session in made))
            with backend._connections.take() as mine:
                mine.execute("SELECT pg_stat_force_next_flush()")
            return read(conn) - before

        talk()
        little = talk()
        conn.execute(
            "INSERT INTO refs (ref, workspace, kind, key, version, created_at, active_at, rank, hold, mac, data)"
            " SELECT 1000 + n, r.workspace, r.kind, int8send(n), 1, 0, 0, n, 0, '', ''"
            " FROM generate_series(1, 3000) AS n, (SELECT workspace, kind FROM refs LIMIT 1) AS r"
        )
        conn.execute("SELECT pg_stat_force_next_flush()")
        talk()
        assert talk() < 2 * little


def test_a_plan_that_was_made_when_there_was_much(server: Server) -> None:
    """In a large store that the server has counted, each append of a batch looks for its own run alone."""
    url = server.url()
    with clew.open(url) as store, server.connect(options=f"-csearch_path={url.partition('schema=')[2]}") as conn:
        conn.autocommit = True
        made = sessions(store, 40)
        conn.execute(
            "INSERT INTO refs (ref, workspace, kind, key, version, created_at, active_at, rank, hold, mac, data, head)"
            " SELECT 1000 + n, r.workspace, r.kind, int8send(n), 1, 0, 0, n, 0, '', '', n << 24"
            " FROM generate_series(1, 100000) AS n, (SELECT workspace, kind FROM refs LIMIT 1) AS r"
        )
        conn.execute(
            "INSERT INTO nodes (pos, facts, id, body)"
            " SELECT (1::bigint << 60) + n, '', int8send(n), '' FROM generate_series(1, 5000) AS n"
        )
        conn.execute("ANALYZE refs, runs, nodes, epoch")
        backend: Any = Parts.of(store).engine.backend

        def counted_now() -> int:
            with backend._connections.take() as mine:
                mine.execute("SELECT pg_stat_force_next_flush()")
            return read(conn)

        together(store, *(say(session, "x") for session in made))
        before = counted_now()
        together(store, *(say(session, "y") for session in made))
        assert counted_now() - before < 10 * len(made)


def test_two_processes_on_the_same_sessions(url: str) -> None:
    """They move them in the same order, so that neither waits for the other to let go; all is stored, once."""
    with clew.open(url, durability="relaxed") as store, clew.open(url, durability="relaxed") as other:
        made = sessions(store, 6)
        failed: list[BaseException | None] = []

        def talk(place: clew.Store, name: str, order: int) -> None:
            mine = [place.sessions.get(session.id) for session in made][::order]
            for step in range(10):
                failed.extend(call.error for call in together(place, *(say(one, f"{name}{step}") for one in mine)))

        threads = [threading.Thread(target=talk, args=arguments) for arguments in ((store, "a", 1), (other, "b", -1))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(failed) == {None}
        for session in made:
            said = texts(session)[1:]
            for name in "ab":
                assert [text for text in said if text[0] == name] == [f"{name}{step}" for step in range(10)]
        assert store.verify().ok


def test_two_who_store_the_same_ids(server: Server) -> None:
    """If each waits for what the other has, the append gives way, waits for its turn, and nobody hears of it."""
    url = server.url()
    taken = [ID, f"{ID[:-1]}2"]
    add = "INSERT INTO nodes (pos, facts, id, body) VALUES (%s, '', %s, '')"
    with clew.open(url) as store, server.connect(options=f"-csearch_path={url.partition('schema=')[2]}") as conn:
        (session,) = sessions(store, 1)
        conn.execute("SET deadlock_timeout = '30s'")
        conn.execute("BEGIN")
        conn.execute(add, (1 << 60, parse(taken[1])))
        thread = threading.Thread(target=say(session, "a", "b", id=taken))
        thread.start()
        while thread.is_alive() and not conn.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchone():
            time.sleep(0.01)
        conn.execute(add, (2 << 60, parse(taken[0])))  # goes on when the other has given way
        conn.execute("ROLLBACK")
        thread.join(30)
        assert texts(session) == ["first", "a", "b"]


def test_arrays(server: Server) -> None:
    """They arrive as they were given: numbers of any size, bytes, nothing, and none at all."""
    with clew.open(server.url()) as store, Parts.of(store).engine.backend._connections.take() as conn:  # type: ignore[attr-defined]
        for numbers in ([], [0], [-(2**63), 2**63 - 1, 7]):
            row = conn.execute("SELECT %s, pg_typeof(%s)::text", (Numbers(numbers),) * 2).fetchone()
            assert row == (numbers, "bigint[]")
        for strings in ([], [None], [b"", None, b"\0\xff" * 300], [b"x"]):
            row = conn.execute("SELECT %s, pg_typeof(%s)::text", (Strings(strings),) * 2).fetchone()
            assert row == (strings, "bytea[]")
