"""P6, the second half: rows swapped, put back, dropped, cut off or changed are named, and the others stay readable."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

import clew
from clew.backends.sql import migrations
from clew.backends.sqlite.tx import SQLiteTx
from clew.errors import ClewError, Corrupted, WrongKey
from clew.store.parts import Parts
from clew.store.session import row_of
from clew.upkeep.verify import Damage
from tests.reliability import sample
from tests.reliability.test_flips import Places, places
from tests.reliability.tools import DEAR

NOT_NOTICED = {
    "header.created_at": "nothing reads it",
    "trees.created_at": "nothing reads it",
    "epoch.number": "in a plain store it only has to differ from the one before",
    "epoch.ord_floor": "a gap in the order of commits means nothing",
}
"""Columns in which any value of the right kind is as good as another."""


@pytest.fixture(scope="module", params=sample.KEYS)
def original(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound store, plain or sealed, with one message in quarantine."""
    key = sample.KEYS[request.param]
    path = tmp_path_factory.mktemp("original") / f"{request.param}.db"
    sample.make(str(path), words=20, blob=300_000, key=key)
    with spoil(path) as conn:
        conn.execute("UPDATE nodes SET body = CAST(body || x'00' AS BLOB) WHERE pos = ?", (middle(conn, "Chat 0"),))
    with clew.open(path, key=key) as store:
        assert len(store.quarantine.sweep().moved) == 1
    return path


@pytest.fixture
def copy(original: Path, tmp_path: Path) -> Path:
    """A copy of it to be spoiled."""
    return Path(shutil.copy(original, tmp_path))


@pytest.fixture(scope="module")
def where(original: Path) -> Places:
    """The sessions that show each node, and its position."""
    with sample.opened(original) as store:
        return places(store)


@contextmanager
def spoil(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that asks no questions; what it does ends up in the main file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        conn.execute("PRAGMA ignore_check_constraints = ON")
        yield conn
        conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def damage(path: Path) -> list[Damage]:
    """What verify reports; damage so deep that opening refuses counts as one finding."""
    before = path.read_bytes()
    try:
        with sample.opened(path) as store:
            report = store.verify()
    except ClewError as error:
        return [Damage("file", str(path), str(error))]
    assert path.read_bytes() == before
    assert report.ok == (not report.damage)
    return report.damage


def located(found: list[Damage], where: Places, pos: int) -> bool:
    """True if a finding names the node's session and its position."""
    sessions, position = where[pos]
    return any(one.session in sessions and one.position == position for one in found)


def middle(conn: sqlite3.Connection, title: str = "Chat 1") -> int:
    """The position of a message in the middle of a session that shares nothing."""
    key = sample.session_keys()[title]
    return int(conn.execute("SELECT head FROM refs WHERE key = ?", (key,)).fetchone()[0]) - 4


def test_a_sound_store_has_no_damage(original: Path) -> None:
    """What was written as it should be is reported as such, with its counts, and progress reaches the end."""
    steps: list[tuple[int, int]] = []
    with sample.opened(original) as store:
        report = store.verify(progress=lambda done, total: steps.append((done, total)))
    assert report.ok
    assert report.damage == []
    assert report.counts["sessions"] == 9
    assert report.counts["nodes"] > 90
    assert steps[0][0] == 0
    assert steps[-1][0] == steps[-1][1] > 100


def test_others_stay_readable_beside_a_damaged_message(copy: Path, where: Places) -> None:
    """One damaged body is one finding; every session that does not use it reads as before."""
    with sample.opened(copy) as store:
        before = sample.readings(store)
    with spoil(copy) as conn:
        pos = middle(conn)
        body = conn.execute("SELECT body FROM nodes WHERE pos = ?", (pos,)).fetchone()[0]
        conn.execute("UPDATE nodes SET body = ? WHERE pos = ?", (body[:-1] + b"!", pos))
    found = damage(copy)
    assert [one.what for one in found] == ["node"]
    assert located(found, where, pos)
    with sample.opened(copy) as store:
        after = sample.readings(store)
    (session,), _ = where[pos]
    changed = {name for name in before if before[name] != after[name]}
    assert {name.split()[0] for name in changed} == {"session", "node"}
    assert {name.split()[1] for name in changed if name.startswith("session")} == {session}
    assert sum(name.startswith("node") for name in changed) == 1
    assert sample.errors(after) == {"Corrupted"}


def test_a_body_that_became_text(copy: Path) -> None:
    """It is damage, not a store that cannot be reached; and no error shows what it says, as the driver's own does."""
    with spoil(copy) as conn:
        pos = middle(conn)
        conn.execute("UPDATE nodes SET body = CAST(x'01ff' || body AS TEXT) WHERE pos = ?", (pos,))
        id = clew.base.ids.text(conn.execute("SELECT id FROM nodes WHERE pos = ?", (pos,)).fetchone()[0])
    with sample.opened(copy) as store:
        with pytest.raises(Corrupted) as raised:
            store.nodes.get(id)
        assert "blocks" not in f"{raised.value} {raised.value.__cause__} {raised.value.__context__}"
        assert store.quarantine.sweep(force=True)
        assert len(store.quarantine.list()) == 2  # it, and the one that was there


def test_swapped_bodies(copy: Path, where: Places) -> None:
    """Two bodies that changed places are both named: each is bound to its own row."""
    with spoil(copy) as conn:
        one, other = middle(conn), middle(conn, "Chat 2")
        bodies = dict(conn.execute("SELECT pos, body FROM nodes WHERE pos IN (?, ?)", (one, other)).fetchall())
        conn.execute("UPDATE nodes SET body = ? WHERE pos = ?", (bodies[other], one))
        conn.execute("UPDATE nodes SET body = ? WHERE pos = ?", (bodies[one], other))
    found = damage(copy)
    assert len(found) == 2
    assert located(found, where, one)
    assert located(found, where, other)


def test_a_whole_row_in_another_place(copy: Path, where: Places) -> None:
    """A message that was moved into another session, row and all, is named there, and missing where it was."""
    with spoil(copy) as conn:
        one, other = middle(conn), middle(conn, "Chat 2")
        conn.execute("DELETE FROM nodes WHERE pos = ?", (other,))
        conn.execute("UPDATE nodes SET pos = ? WHERE pos = ?", (other, one))
    found = damage(copy)
    assert located(found, where, one)
    assert located(found, where, other)


def test_a_ref_put_back(copy: Path) -> None:
    """A session's row from before its last messages, signature and all, leaves messages that nothing ends at."""
    with sample.opened(copy) as store:
        session = store.sessions.get(
            next(one.id for one in store.sessions.list(limit=50).items if one.title == "Chat 3")
        )
        with closing(sqlite3.connect(copy)) as conn:
            old = conn.execute("SELECT * FROM refs WHERE ref = ?", (row_of(session).ref,)).fetchone()
        session.append([clew.user("one more"), clew.assistant("and another")])
        depth = session.path()[-1].depth
    with spoil(copy) as conn:
        conn.execute(f"REPLACE INTO refs VALUES ({', '.join('?' * len(old))})", old)
    found = [one for one in damage(copy) if one.what == "run"]
    assert [one.position for one in found] == [depth]
    assert "earlier state" in found[0].why


@pytest.mark.parametrize("keep", [0.05, 0.3, 0.6, 0.9, 0.99])
def test_a_truncated_file(copy: Path, keep: float) -> None:
    """A file that lost its end is refused or reported, and verify survives reading it."""
    size = copy.stat().st_size
    with copy.open("r+b") as file:
        file.truncate(int(size * keep) // 512 * 512)
    assert damage(copy)


def test_a_malformed_page_does_not_hide_the_rest(copy: Path, where: Places) -> None:
    """A page of messages turned to noise: each message on it is named, and damage far behind it is found as well."""
    with spoil(copy) as conn:
        later = middle(conn, "Chat 3")
        conn.execute(f"UPDATE nodes SET {DEAR} WHERE pos = ?", (later,))
        size = conn.execute("PRAGMA page_size").fetchone()[0]
        pos = conn.execute("SELECT min(pos) FROM nodes").fetchone()[0]
        body = conn.execute("SELECT body FROM nodes WHERE pos = ?", (pos,)).fetchone()[0]
    content = bytearray(copy.read_bytes())
    page = content.index(body[:64]) // size
    content[page * size : page * size + 64] = b"\xa5" * 64
    copy.write_bytes(content)
    found = damage(copy)
    assert any(one.what == "file" for one in found)
    assert located(found, where, pos)
    assert located(found, where, later)


def drop_middle(conn: sqlite3.Connection) -> int:
    pos = middle(conn)
    conn.execute("DELETE FROM nodes WHERE pos = ?", (pos,))
    return pos


def drop_first(conn: sqlite3.Connection) -> int:
    pos = middle(conn) >> 24 << 24
    conn.execute("DELETE FROM nodes WHERE pos = ?", (pos,))
    return pos


def drop_tip(conn: sqlite3.Connection) -> int:
    pos = middle(conn) + 4
    conn.execute("DELETE FROM nodes WHERE pos = ?", (pos,))
    return pos


def drop_saved_tip(conn: sqlite3.Connection) -> int:
    run, tip = conn.execute("SELECT run, tip FROM runs WHERE tip >= 0 ORDER BY run LIMIT 1").fetchone()
    conn.execute("DELETE FROM nodes WHERE pos = ?", (run << 24 | tip,))
    return int(run) << 24  # the run is named by its first message


def drop_all_of_a_run(conn: sqlite3.Connection) -> int:
    pos = middle(conn) >> 24 << 24
    conn.execute("DELETE FROM nodes WHERE pos BETWEEN ? AND ?", (pos, pos | 0xFFFFFF))
    return pos


def drop_run(conn: sqlite3.Connection) -> int:
    pos = middle(conn) >> 24 << 24
    conn.execute("DELETE FROM runs WHERE run = ?", (pos >> 24,))
    return pos


@pytest.mark.parametrize("drop", [drop_middle, drop_first, drop_tip, drop_saved_tip, drop_all_of_a_run])
def test_dropped_messages(copy: Path, where: Places, drop: Callable[[sqlite3.Connection], int]) -> None:
    """Messages deleted behind clew's back are missed, in the middle and at both ends, saved or appended."""
    with spoil(copy) as conn:
        pos = drop(conn)
    assert located(damage(copy), where, pos)


def test_a_dropped_run(copy: Path, where: Places) -> None:
    """Without its run a message has no place any more, and its session is still named."""
    with spoil(copy) as conn:
        pos = drop_run(conn)
    assert any(one.session in where[pos][0] and one.what == "run" for one in damage(copy))


@pytest.mark.parametrize(
    "table",
    ["trees", "runs", "nodes", "quarantine", "refs", "labels", "log", "blobs", "chunks", "uses", "header", "epoch"],
)
def test_any_dropped_row(original: Path, tmp_path: Path, table: str) -> None:
    """Any dropped row of any table is missed; but a log's last entry, and a session that ends where another does."""
    with closing(sqlite3.connect(original)) as conn:
        key = {"labels": "hex(look) || ref", "uses": "blob || '.' || user", "header": "name"}.get(table, "rowid")
        keys = [row[0] for row in conn.execute(f"SELECT {key} FROM {table}")]
        if table == "log":
            ends = {row[0] for row in conn.execute("SELECT max(pos) FROM log GROUP BY pos >> 24")}
            keys = [one for one in keys if one not in ends]
        shared = "SELECT r.ref FROM refs r JOIN refs s ON s.head = r.head AND s.ref != r.ref"
        spared = {row[0] for row in conn.execute(shared)} if table == "refs" else set()
    chosen = [one for one in keys if one not in spared]
    for number, one in enumerate(chosen[:: max(1, len(chosen) // 12)]):
        copy = Path(shutil.copy(original, tmp_path / f"{original.stem}{number}.db"))
        with spoil(copy) as conn:
            assert conn.execute(f"DELETE FROM {table} WHERE {key} = ?", (one,)).rowcount == 1
        assert damage(copy), f"{table} {one}"


def columns() -> list[str]:
    """Every column of every table."""
    with closing(sqlite3.connect(":memory:")) as conn:
        for _, script in migrations("sqlite"):
            conn.executescript(script)
        tables = [row[0] for row in conn.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return [
            f"{table}.{row[1]}"
            for table in tables
            if not table.startswith("sqlite_")
            for row in conn.execute(f"PRAGMA table_info({table})")
        ]


KEYS = ("tree", "run", "pos", "ref", "blob", "number", "user", "one")


def another(table: str, column: str, value: Any) -> Any:
    """Another value that the column might have."""
    match value:
        case _ if (table, column) == ("nodes", "ord"):
            return 0  # a later one cannot be told from the right one at a leaf
        case _ if (table, column) == ("nodes", "facts"):
            return bytes([value[0] ^ 1]) + value[1:]  # when it was said: nothing but its binding tells
        case _ if (table, column) == ("forgotten", "low"):
            return value - 1
        case None:
            return b"\x01" * 16 if column in ("key_id", "wrapped_key", "look", "head_id") else 1
        case int():
            return value + (1_000_000 if column in KEYS else 1)
        case str():
            return f"{value}x"
        case bytes():
            return value[:-1] + bytes([value[-1] ^ 1])


@pytest.mark.parametrize(
    "name", [name for name in columns() if not name.startswith("objects.")]
)  # see tests/engine/objects
def test_a_changed_column(copy: Path, where: Places, name: str) -> None:
    """A changed value in any column of any table is reported, for a message or a session with its place."""
    table, _, column = name.partition(".")
    with spoil(copy) as conn:
        if table == "nodes":
            row = middle(conn)
            clause = f"pos = {row}"
        elif table == "header":
            clause = "name = 'store_id'"
        elif table == "refs":
            clause = f"key = {literal(sample.session_keys()['Build fails'])}"
        elif table == "runs":
            clause = f"run = {middle(conn) >> 24}"
        else:
            clause = f"rowid = (SELECT rowid FROM {table} LIMIT 1)" if table not in ("labels", "uses") else "1"
        rowid = "look, ref" if table == "labels" else "blob, user" if table == "uses" else None
        (value,) = conn.execute(f"SELECT {column} FROM {table} WHERE {clause} LIMIT 1").fetchone()
        if rowid is not None:
            first = conn.execute(f"SELECT {rowid} FROM {table} LIMIT 1").fetchone()
            clause = " AND ".join(
                f"{key} = {part}" for key, part in zip(rowid.split(", "), map(literal, first), strict=True)
            )
        conn.execute("PRAGMA foreign_keys = OFF")
        done = conn.execute(f"UPDATE {table} SET {column} = ? WHERE {clause}", (another(table, column, value),))
        assert done.rowcount == 1
    found = damage(copy)
    if name in NOT_NOTICED and not (name == "epoch.number" and copy.name == "sealed.db"):
        assert not found
        return
    assert found
    if table == "nodes" and column != "pos":
        assert located(found, where, row)
    elif table in ("nodes", "quarantine", "runs", "refs", "labels", "log", "blobs", "chunks", "uses"):
        names = {session for sessions, _ in where.values() for session in sessions if session}
        known = name != "refs.key" and table != "log"  # then it goes by its new name; the first log is of no session
        assert any(one.session in names or one.where in names or not known for one in found), found


def literal(value: object) -> str:
    return f"x'{value.hex()}'" if isinstance(value, bytes) else repr(value)


def test_a_damaged_store_is_counted_and_not_listed_for_ever(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When every checksum fails the report stays short and says how many there are."""
    monkeypatch.setattr("clew.upkeep.verify.findings.LIMIT", 10)
    with spoil(copy) as conn:
        conn.execute(f"UPDATE nodes SET {DEAR}")
    with sample.opened(copy) as store:
        report = store.verify()
    assert len(report.damage) == 10
    assert report.counts["damage"] > 90


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    """A sealed store to be spoiled."""
    path = tmp_path / "sealed.db"
    sample.make(str(path), words=20, blob=3000, key=sample.KEYS["sealed"])
    return path


def wrapped(conn: sqlite3.Connection, table: str, key: str, one: int) -> bytes:
    """A row's data key, as it is stored."""
    return cast("bytes", conn.execute(f"SELECT wrapped_key FROM {table} WHERE {key} = ?", (one,)).fetchone()[0])


def test_a_data_key_in_another_run(sealed: Path) -> None:
    """Nodes and data key of one run, put in the place of another's, open nothing: the key is bound to its run."""
    with spoil(sealed) as conn:
        one, other = middle(conn) >> 24, middle(conn, "Chat 2") >> 24
        conn.execute("UPDATE runs SET wrapped_key = ? WHERE run = ?", (wrapped(conn, "runs", "run", one), other))
        bodies = conn.execute("SELECT body, pos - ? FROM nodes WHERE pos >> 24 = ?", ((one - other) << 24, one))
        conn.executemany("UPDATE nodes SET body = ? WHERE pos = ?", bodies.fetchall())
    with sample.opened(sealed) as store:
        assert {found.session for found in store.verify().damage} == {
            clew.base.ids.text(sample.session_keys()["Chat 2"])
        }
        moved = store.sessions.get(clew.base.ids.text(sample.session_keys()["Chat 2"]))
        with pytest.raises(Corrupted):
            moved.path()


def test_a_data_key_in_another_ref(sealed: Path) -> None:
    """A session's title and data key, put in the place of another's, do not open there; nor does its log."""
    with spoil(sealed) as conn:
        one, other = (sample.session_keys()[title] for title in ("Build fails", "Chat 2"))
        number, key, data = conn.execute("SELECT ref, wrapped_key, data FROM refs WHERE key = ?", (one,)).fetchone()
        conn.execute("UPDATE refs SET wrapped_key = ?, data = ? WHERE key = ?", (key, data, other))
        conn.execute(
            "UPDATE log SET pos = (SELECT ref << 24 FROM refs WHERE key = ?) | (pos & 16777215) WHERE pos >> 24 = ?",
            (other, number),
        )
    with sample.opened(sealed) as store:
        moved = store.sessions.get(clew.base.ids.text(other))
        for read in (lambda: moved.title, lambda: list(moved.log.read())):
            with pytest.raises(Corrupted):
                read()
        assert {found.session for found in store.verify().damage} == {moved.id}


@pytest.mark.parametrize("tables", [("nodes",), ("runs", "nodes"), ("refs",), ("log",), ("blobs", "chunks")])
def test_rows_of_another_store(sealed: Path, tmp_path: Path, tables: tuple[str, ...]) -> None:
    """Rows of another store with the same key, the same ids and the same numbers do not open."""
    sample.make(str(tmp_path / "sealed2.db"), words=20, blob=3000, key=sample.KEYS["sealed"])
    with spoil(sealed) as conn:
        conn.execute("ATTACH ? AS other", (str(tmp_path / "sealed2.db"),))
        for table in tables:
            conn.execute(f"REPLACE INTO main.{table} SELECT * FROM other.{table}")
        assert conn.execute("SELECT count(*) FROM refs").fetchone()[0] > 9
    with sample.opened(sealed) as store:
        report = store.verify()
        read = sample.readings(store)
    assert report.counts["damage"] >= report.counts[tables[-1]]
    assert sample.errors(read) <= {"Corrupted", "NotFound"}  # what is found by a keyed hash is not even found


def test_rows_from_before_an_exchange_of_keys(sealed: Path, tmp_path: Path) -> None:
    """A run, its key and its messages as they were under the retired key do not open, to those with either key."""
    before = shutil.copy(sealed, tmp_path / "sealed2.db")
    new = bytes(32)
    with sample.opened(sealed) as store:
        store.rotate(new)
    with spoil(sealed) as conn:
        run = middle(conn) >> 24
        conn.execute("ATTACH ? AS other", (str(before),))
        conn.execute("REPLACE INTO main.runs SELECT * FROM other.runs WHERE run = ?", (run,))
    with pytest.raises(WrongKey):
        sample.opened(sealed)
    with clew.open(sealed, key=new) as store:
        sessions = {found.session for found in store.verify().damage}
    assert sessions == {clew.base.ids.text(sample.session_keys()["Chat 1"])}


def test_reading_a_path_in_a_circle(copy: Path) -> None:
    """A run that says it grew from itself is damage; reading it ends in an error instead of never."""
    with spoil(copy) as conn:
        (run,) = conn.execute("SELECT run FROM runs WHERE parent IS NOT NULL ORDER BY run LIMIT 1").fetchone()
        conn.execute("UPDATE runs SET parent = ? WHERE run = ?", (run << 24, run))
        conn.execute("UPDATE runs SET derived = ? WHERE derived IS NOT NULL", ((run + 40) << 24,))
        heads = [row[0] for row in conn.execute("SELECT key FROM refs WHERE head >> 24 = ?", (run,))]
    assert heads
    assert any(one.what == "run" for one in damage(copy))
    with sample.opened(copy) as store:
        for key in heads:
            with pytest.raises(Corrupted):
                store.sessions.get(clew.base.ids.text(key)).path()
        read = sample.readings(store)
        for node in store.nodes.list(limit=1000).items:
            store.nodes.subtree(node.id)
    assert sample.errors(read) <= {"Corrupted"}


def test_verify_in_memory() -> None:
    """A store without a file is verified as well."""
    with clew.open(":memory:") as store:
        sample.fill(store, words=5)
        assert store.verify().ok
        spoil = f"UPDATE nodes SET {DEAR}"
        Parts.of(store).engine.write(lambda tx: cast("SQLiteTx", tx).conn.execute(spoil))
        assert not store.verify().ok


def test_verify_while_others_write(path: Path) -> None:
    """Verify sees one moment: what is appended meanwhile is neither missed nor taken for damage."""
    import threading

    stop = threading.Event()
    with clew.open(path, durability="relaxed") as store:
        session = store.sessions.create()
        session.append(clew.user("first"))

        def write() -> None:
            while not stop.wait(0.001):  # without a pause the store grows faster than it is verified
                session.append([clew.user("more"), clew.assistant("and more")])

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for _ in range(5):
                assert store.verify().damage == []
        finally:
            stop.set()
            writer.join()
