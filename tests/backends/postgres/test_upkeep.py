"""Keys, purges, quarantine, retention and checks of a store on a server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

import clew
from clew import retention
from clew.base import ids
from clew.errors import Conflict, Invalid, Sealed, WrongKey
from clew.testing import FakeClock
from clew.upkeep import copy_store, rekey
from tests.backends.postgres.server import Server
from tests.reliability import sample

K1, K2 = b"1" * 32, b"2" * 32
CANARY = "Ariadne-f00d"


@pytest.fixture
def base(server: Server) -> Iterator[psycopg.Connection[Any]]:
    """A connection that goes behind the store's back, to the schema of `place`."""
    with server.connect() as conn:
        yield conn


@pytest.fixture
def place(server: Server, base: psycopg.Connection[Any]) -> str:
    """Where a store is made that `base` sees."""
    url = server.url()
    base.execute(f"SET search_path = {url.partition('schema=')[2]}")
    return url


def dump(conn: psycopg.Connection[Any]) -> bytes:
    """Every value of every table, one after the other."""
    names = conn.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY 1").fetchall()
    found = bytearray()
    for (name,) in names:
        for row in conn.execute(f'SELECT * FROM "{name}"').fetchall():
            for value in row:
                found += value if isinstance(value, bytes) else str(value).encode()
                found += b"\0"
    return bytes(found)


@pytest.mark.parametrize("key", [None, K1], ids=["plain", "sealed"])
def test_the_same_as_in_a_file(url: str, key: bytes | None) -> None:
    """Done to a file and to a server, the same steps leave stores that read the same."""

    def read(path: str) -> dict[str, Any]:
        # The clock stands: how often it is asked is each backend's own affair.
        with clew.open(path, key=key, clock=FakeClock(), ids=sample.id_source()) as store:
            sample.fill(store, words=4, blob=100_000)
            assert store.verify().ok
            return sample.readings(store)

    assert read(url) == read(":memory:")


@pytest.mark.parametrize(
    ("before", "after", "deep"),
    [(None, K1, False), (K1, None, False), (K1, K2, False), (K1, K2, True)],
    ids=["seal", "unseal", "rotate", "deep"],
)
def test_keys_are_exchanged(
    place: str, base: psycopg.Connection[Any], before: bytes | None, after: bytes | None, deep: bool
) -> None:
    """Sealed, unsealed or with another key, a store reads as before, opens with its new key alone, and is sound."""
    with clew.open(place, key=before, clock=sample.clock(), ids=sample.id_source()) as store:
        sample.fill(store, words=4, blob=100_000)
        store.sessions.create(title=CANARY).append(clew.user(CANARY))
        was = sample.readings(store)
        if before is None:
            store.seal(after or b"")
        elif after is None:
            store.unseal()
        else:
            store.rotate(after, deep=deep)
    with clew.open(place, key=after) as store:
        report = store.verify()
        assert report.ok, report.damage
        assert sample.readings(store) == was
    if before is not None and after is not None:
        with pytest.raises(WrongKey):
            clew.open(place, key=before)
    if after is not None:
        with pytest.raises(Sealed):
            clew.open(place)
    assert (CANARY.encode() in dump(base)) is (after is None)


def test_others_append_while_keys_are_exchanged(url: str) -> None:
    """While every body is encrypted anew, another goes on appending with the old key, and all of it is readable."""
    with clew.open(url, key=K1) as one, clew.open(url, key=K1) as two:
        sample.fill(one, words=2, blob=50_000)
        session = two.sessions.create()
        ready, done = threading.Event(), threading.Event()
        said: list[str] = []

        def talk() -> None:
            while not done.is_set():
                said.append(session.append(clew.user(str(len(said)))).text)
                if len(said) == 5:
                    ready.set()

        thread = threading.Thread(target=talk)
        thread.start()
        ready.wait(30)
        one.rotate(K2, deep=True)
        done.set()
        thread.join()
        assert len(said) > 5
        assert [node.text for node in one.sessions.get(session.id).path()] == said
        report = one.verify()
        assert report.ok, report.damage


def test_who_has_no_key_stops_at_once(url: str) -> None:
    """As soon as sealing has begun, another who has no key appends nothing any more, though no row has changed yet."""
    with clew.open(url) as one, clew.open(url) as two:
        session = two.sessions.create()
        session.append(clew.user("plain"))
        rekey.begin(one._engine, "seal", K1)
        with pytest.raises(Sealed):
            session.append(clew.user("too late"))
        rekey.run(one._engine, None)


@pytest.mark.parametrize("key", [None, K1], ids=["plain", "sealed"])
def test_a_purge(place: str, base: psycopg.Connection[Any], key: bytes | None) -> None:
    """No row has a word of what was purged, nor its data key; and the receipt says what the server may still have."""
    with clew.open(place, key=key) as store:
        kept = store.sessions.create(title="kept")
        kept.append(clew.user("stays"))
        gone = store.sessions.create(title=CANARY)
        gone.append([clew.user(CANARY), clew.assistant("yes")])
        gone.attach(CANARY.encode() * 100, mime_type="text/plain")
        assert [hit.node.text for hit in store.search("Ariadne")] == [CANARY]
        keys = base.execute("SELECT wrapped_key FROM runs WHERE run = (SELECT max(run) FROM runs)").fetchall()
        receipt = store.sessions.purge(gone.id, reason="user-requested")
        assert (receipt.messages, receipt.pending, receipt.beyond) == (2, (), ("pages", "wal", "replicas"))
        assert store.sessions.receipts() == [receipt]
        left = dump(base)
        assert b"ariadne" not in left.lower()
        assert not any(wrapped in left for (wrapped,) in keys if wrapped)
        assert store.search("Ariadne") == []
        assert store.verify().ok


def test_a_purge_with_a_reader_in_the_way(place: str, base: psycopg.Connection[Any]) -> None:
    """While someone still sees what is gone the receipt says so, and a later write finishes it."""
    with clew.open(place) as store:
        gone = store.sessions.create()
        gone.append(clew.user(CANARY))
        base.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        base.execute("SELECT count(*) FROM nodes")
        receipt = store.sessions.purge(gone.id, reason="user-requested")
        assert receipt.pending == ("wal",)
        base.execute("COMMIT")
    with clew.open(place) as store:
        store.close()
    with clew.open(place) as store:
        assert not store._engine.cleanup.marked


def test_quarantine(place: str, base: psycopg.Connection[Any]) -> None:
    """A body that does not open is taken out alone, kept, and brought back once it is whole."""
    with clew.open(place, key=K1) as store:
        session = store.sessions.create()
        nodes = session.append([clew.user(str(number)) for number in range(200)])
        ((body,),) = base.execute("SELECT body FROM nodes WHERE id = %s", (ids.parse(nodes[7].id),)).fetchall()
        broken = bytes(body[:-1]) + bytes([body[-1] ^ 1])
        base.execute("UPDATE nodes SET body = %s WHERE id = %s", (broken, ids.parse(nodes[7].id)))
        (damage,) = store.verify().damage
        assert (damage.session, damage.position) == (session.id, 7)
        with pytest.raises(clew.Corrupted):
            session.path()[7].text  # noqa: B018
        store.quarantine.sweep()
        assert [one.node for one in store.quarantine.list()] == [nodes[7].id]
        assert store.verify().ok


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        ("UPDATE nodes SET body = overlay(body placing '\\x00'::bytea from 9) WHERE ord = 5", "node"),
        ("DELETE FROM nodes WHERE ord = 4", "node"),
        ("UPDATE refs SET version = version + 1 WHERE kind = 'session'", "session"),
        ("DELETE FROM runs WHERE run = (SELECT min(run) FROM runs)", "run"),
        ("SELECT 1", None),
        ("ALTER TABLE log DROP COLUMN created_at", "schema"),
        ("SELECT setval('run_numbers', 1, false)", "header"),
        ("UPDATE epoch SET state = 'odd'", "epoch"),
        ("DELETE FROM header WHERE name = 'created_at'", "header"),
    ],
)
def test_verify_names_what_is_damaged(place: str, base: psycopg.Connection[Any], spoil: str, what: str | None) -> None:
    """Whatever is changed behind the store's back is found, and a store that was not touched is sound."""
    with clew.open(place) as store:
        session = store.sessions.create()
        session.append([clew.user(str(number)) for number in range(8)])
        base.execute(spoil)
        try:
            found = {damage.what for damage in store.verify().damage}
        except clew.ClewError:
            found = {"schema"}  # where a column is missing nothing can be read
        assert (what in found) if what else not found


def test_retention(url: str) -> None:
    """What a policy has expired is swept, and what is held stays."""
    clock = FakeClock()
    with clew.open(url, clock=clock) as store:
        held, old = store.sessions.create(title="held").hold(), store.sessions.create(title="old")
        for session in (held, old):
            session.append(clew.user("then"))
        clock.advance(timedelta(days=40))
        store.sessions.create(title="new").append(clew.user("now"))
        retention.set_policy(store, retention.Policy(days=30))
        swept = retention.sweep(store, force=True)
        assert swept.receipt is not None
        assert swept.receipt.sessions == (old.id,)
        assert {one.title for one in store.sessions.list().items} == {"held", "new"}


def test_a_backup_is_the_servers_own(url: str, tmp_path: Any) -> None:
    """A store on a server is not copied as a file; the error says what to use."""
    with clew.open(url) as store, pytest.raises(Invalid, match="pg_dump"):
        store.backup(tmp_path / "copy.db")
    with clew.open(url) as store, pytest.raises(Conflict):
        store.sessions.create(id=store.sessions.create().id)


def test_old_secrets_are_not_believed(place: str, base: psycopg.Connection[Any]) -> None:
    """Header and epoch rows of an earlier state, put back singly: the store is not opened, and not written."""
    clew.open(place).close()
    before: dict[str, Any] = {}

    def note(_: int, __: int) -> None:
        before["epoch"] = base.execute("SELECT * FROM epoch").fetchone()
        before["secrets"] = base.execute("SELECT value FROM header WHERE name = 'secrets'").fetchone()

    with clew.open(place) as store:
        store.sessions.create(title=CANARY).append(clew.user(CANARY))
        store.seal(K1, progress=note)
        session = store.sessions.latest().hold()
        now = base.execute("SELECT value FROM header WHERE name = 'secrets'").fetchone()
        base.execute("UPDATE header SET value = %s WHERE name = 'secrets'", before["secrets"])
        with pytest.raises(clew.Corrupted):
            clew.open(place, key=K1)
        base.execute("UPDATE header SET value = %s WHERE name = 'secrets'", now)
        epoch = base.execute("SELECT number, state FROM epoch").fetchone()
        base.execute("UPDATE epoch SET number = %s, state = %s", (before["epoch"][1], before["epoch"][3]))
        with pytest.raises(clew.Corrupted):
            session.append(clew.user("more"))
        base.execute("UPDATE epoch SET number = %s, state = %s", epoch)
        session.append(clew.user("more"))
        assert store.verify().ok


def test_a_head_of_a_store_on_a_server(place: str, base: psycopg.Connection[Any], tmp_path: Path) -> None:
    """A head shows that rows were rolled back; a purge, a hold, a new key and a copy to a file do not look like it."""

    def rollbacks(store: clew.Store, head: str) -> list[str]:
        return [one.why for one in store.verify(since=head).damage if one.what == "head"]

    with clew.open(place, key=K1) as store:
        sessions = [store.sessions.create() for _ in range(3)]
        for session in sessions:
            session.append([clew.user("one"), clew.assistant("two")])
        heads = [store.head()]
        sessions[0].hold()
        heads.append(store.head())
        store.sessions.purge(sessions[2].id)
        heads.append(store.head())
        store.rotate(K2)
        sessions[1].append(clew.user("three"))
        heads.append(store.head())
        assert [rollbacks(store, head) for head in heads] == [[], [], [], []]
        copy_store.copy(place, tmp_path / "copy.db")
        with clew.open(tmp_path / "copy.db", key=K2) as copy:
            assert [rollbacks(copy, head) for head in heads] == [[], [], [], []]
            assert copy.verify().ok
        base.execute("DELETE FROM nodes WHERE ord = (SELECT max(ord) FROM nodes)")
        assert rollbacks(store, heads[-1])
