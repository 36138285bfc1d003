"""Finding and removing the data in a SQLite file that no live row uses."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import random
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.backends.sqlite import scrub
from clew.backends.sqlite.cleaning import Scrubbed, clean
from clew.errors import ClewError, Corrupted, NotFound, ReadOnly, StorageFull, Unavailable
from clew.store.session import delete_session

CANARY = b"\xc5CANARY\xc5"
PAGE_SIZES = [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536]


def connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None)


def rows(path: Path) -> dict[str, list[Any]]:
    """All rows of all tables. Fails if the file is damaged."""
    with closing(connect(path)) as conn:
        conn.execute("PRAGMA query_only = ON")
        assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        names = [name for (name,) in conn.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return {name: sorted(conn.execute(f'SELECT * FROM "{name}"'), key=repr) for name in ("sqlite_schema", *names)}


def differing(before: bytes, after: bytes) -> list[int]:
    """The bytes that differ from before, by offset. Skips equal blocks, which most are."""
    assert len(before) == len(after)
    blocks = ((before[start : start + 256], after[start : start + 256]) for start in range(0, len(before), 256))
    return [new for was, now in blocks if was != now for old, new in zip(was, now, strict=True) if old != new]


def run(path: Path, *, write: bool, pages: scrub.Found | None = None) -> dict[str, Any]:
    """Runs the program in this process, which must have no connection to the file."""
    with ExitStack() as opened:
        return scrub.scrub(str(path), opened, write=write, pages=pages)


def scrubbed(path: Path) -> dict[str, Any]:
    """Clears the file. Fails if a live byte changes, or if clearing the found pages alone gives another file."""
    before, live = path.read_bytes(), rows(path)
    found = run(path, write=False)["found"]
    assert run(path, write=True, pages=found)["error"] is None
    parts = path.read_bytes()
    path.write_bytes(before)
    report = run(path, write=True)
    assert report["error"] is None
    after = path.read_bytes()
    assert parts == after
    changed = differing(before, after)
    assert len(changed) == report["stale"] == report["cleared"]
    assert not any(changed)
    assert rows(path) == live
    again = run(path, write=False)
    assert (again["error"], again["dirty"], again["stale"]) == (None, 0, 0)
    return report


# -- deleted rows leave traces, which scrubbing removes


def churn(path: Path, seed: int) -> tuple[sqlite3.Connection, list[bytes]]:
    """A database like that of a store after many inserts and deletes: its connection, and the deleted texts."""
    source = random.Random(seed)
    conn = connect(path)
    for pragma in ("page_size = 4096", "auto_vacuum = INCREMENTAL", "journal_mode = WAL", "secure_delete = ON"):
        conn.execute(f"PRAGMA {pragma}")
    conn.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, key BLOB UNIQUE, body BLOB)")
    live: list[int] = []
    gone = []
    conn.execute("BEGIN")
    for _ in range(3000):
        if live and source.random() < 0.45:
            id = live.pop(source.randrange(len(live)))
            conn.execute("DELETE FROM t WHERE id = ?", (id,))
            gone.append(b"[canary %d]" % id)
        else:
            id = source.randrange(1 << 40)
            body = b"[canary %d]" % id * source.choice((1, 3, 10, 30, 300))
            conn.execute("INSERT INTO t VALUES (?, ?, ?)", (id, source.randbytes(16), body))
            live.append(id)
    conn.execute("COMMIT")
    conn.execute("PRAGMA incremental_vacuum").fetchall()
    assert conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
    return conn, gone


def traces(path: Path, gone: list[bytes]) -> list[bytes]:
    data = path.read_bytes()
    return [text for text in gone if text in data]


def trace(tmp_path: Path) -> tuple[Path, sqlite3.Connection, list[bytes]]:
    """A database in which deleted texts can still be found, although `secure_delete` is on."""
    for seed in range(20):
        path = tmp_path / f"{seed}.db"
        conn, gone = churn(path, seed)
        if traces(path, gone):
            return path, conn, gone
        conn.close()
    raise AssertionError("SQLite has left no trace")


def test_secure_delete_leaves_traces_and_scrubbing_does_not(tmp_path: Path) -> None:
    """Texts that were deleted with secure_delete are in the main file after a checkpoint, but not after a scrub."""
    path, conn, gone = trace(tmp_path)
    conn.close()
    report = scrubbed(path)
    assert report["dirty"] > 0
    assert traces(path, gone) == []


def fill(path: Path) -> list[bytes]:
    """A store with bodies of many sizes, attachments and forks, partly deleted; returns the deleted texts."""
    source = random.Random(7)
    gone = []
    with clew.open(path, durability="relaxed") as store:
        for number in range(40):
            session = store.sessions.create(title=f"<title {number}>", cwd="/src")
            said = [f"<body {number}.{turn}>" for turn in range(20)]
            sizes = [source.choice((20, 500, 5_000, 200_000 if number < 8 else 900)) for _ in said]
            nodes = session.append([clew.user(text * (size // 16 + 1)) for text, size in zip(said, sizes, strict=True)])
            session.blobs.put(f"<blob {number}>".encode() * source.choice((1, 1_000, 20_000)))
            theirs = [f"<title {number}>", f"<blob {number}>", *said]
            if number % 3 == 0:
                session.fork(at=nodes[9].id, title=f"<fork {number}>")
                theirs = [f"<title {number}>", *said[10:]]
            if number % 4:
                delete_session(store.sessions.get(session.id))
                gone += [text.encode() for text in theirs]
    with closing(connect(path)) as conn:
        conn.execute("PRAGMA secure_delete = ON")
        conn.execute("PRAGMA incremental_vacuum(1)").fetchall()
        assert conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
    return gone


def test_a_store_keeps_its_live_rows_alone(path: Path, sound: Callable[[clew.Store], None]) -> None:
    """A store with forks, attachments and long bodies reads as before, and contains no deleted data."""
    gone = fill(path)
    report = scrubbed(path)
    assert report["dirty"] > 0 and report["freelist"] > 0
    assert traces(path, gone) == []
    with clew.open(path) as store:
        sound(store)


# -- shapes


def reserve(path: Path, count: int) -> None:
    """Reserves the end of every page for extensions, in an empty database."""
    data = bytearray(path.read_bytes())
    data[20] = count
    data[105:107] = (len(data) - count & 0xFFFF).to_bytes(2, "big")
    path.write_bytes(data)


def make(
    path: Path, seed: int, page_size: int, vacuum: str, *, count: int = 250, secure: str = "OFF", reserved: int = 0
) -> None:
    """A database with many kinds of tables. Deleted rows contain the canary, live ones do not."""
    source = random.Random(seed)
    with closing(connect(path)) as conn:
        for pragma in (f"page_size = {page_size}", f"auto_vacuum = {vacuum}", "user_version = 1"):
            conn.execute(f"PRAGMA {pragma}")
        conn.execute("CREATE TABLE first (a)")
        conn.execute("DROP TABLE first")
        conn.execute("VACUUM")
    if reserved:
        reserve(path, reserved)
    with closing(connect(path)) as conn:
        conn.execute(f"PRAGMA secure_delete = {secure}")
        conn.execute("BEGIN")
        conn.execute("CREATE TABLE plain (id INTEGER PRIMARY KEY, live, key BLOB, body BLOB)")
        conn.execute("CREATE INDEX plain_key ON plain (key, live)")
        conn.execute("CREATE TABLE keyed (key BLOB PRIMARY KEY, live, body) WITHOUT ROWID")
        conn.execute("CREATE TABLE tiny (live PRIMARY KEY) WITHOUT ROWID")
        conn.execute("CREATE TABLE tinier (a)")
        conn.execute("CREATE VIRTUAL TABLE words USING fts5 (text)")
        conn.execute("CREATE VIEW seen AS SELECT live FROM plain")
        conn.execute(f"CREATE TABLE {'long' * 300} (a PRIMARY KEY) /* {'words ' * 200} */")
        conn.execute("INSERT INTO tiny VALUES (0), (1), ('')")
        conn.execute("INSERT INTO tinier VALUES (NULL), (0), (1)")
        for _ in range(count):
            live = source.random() < 0.5
            mark = source.randbytes(8) if live else CANARY
            key = mark * source.choice((1, 2, 20, 150))
            body = mark * source.choice((0, 1, 2, 5, 12, 40, 64, 126, 600, 4100))
            id = source.choice((source.randrange(100_000), source.randrange(-(1 << 63), 1 << 63)))
            conn.execute("INSERT OR IGNORE INTO plain VALUES (?, ?, ?, ?)", (id, live, key, body))
            conn.execute("INSERT OR IGNORE INTO keyed VALUES (?, ?, ?)", (key + source.randbytes(2), live, body))
            conn.execute("INSERT INTO words VALUES (?)", (f"word{source.randrange(99)} " * source.randrange(30),))
            if source.random() < 0.05:
                delete(conn)
        conn.execute("CREATE TABLE dropped AS SELECT * FROM plain")
        delete(conn)
        conn.execute("DROP TABLE dropped")
        conn.execute("DELETE FROM words WHERE rowid % 3 = 0")
        conn.execute("COMMIT")
        conn.execute(f"PRAGMA incremental_vacuum({source.choice((1, 5))})").fetchall()


def delete(conn: sqlite3.Connection) -> None:
    conn.execute("DELETE FROM plain WHERE NOT live")
    conn.execute("DELETE FROM keyed WHERE NOT live")


@pytest.mark.parametrize("reserved", [0, 32])
@pytest.mark.parametrize("vacuum", ["NONE", "INCREMENTAL", "FULL"])
@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_any_shape(tmp_path: Path, page_size: int, vacuum: str, reserved: int) -> None:
    """For any layout of pages, scrubbing removes all deleted data and no live data."""
    left = 0
    for seed, count in enumerate((0, 20, 250, 250)):
        path = tmp_path / f"{seed}.db"
        secure = "ON" if seed == 3 else "OFF"
        make(path, seed, page_size, vacuum, count=count, secure=secure, reserved=reserved)
        left += CANARY in path.read_bytes()
        scrubbed(path)
        assert CANARY[:6] not in path.read_bytes()
    assert left


@pytest.mark.parametrize("page_size", [512, 1024, 65536])
def test_rows_that_just_fit_and_just_do_not(tmp_path: Path, page_size: int) -> None:
    """Rows and keys of all lengths around those that need overflow pages are handled."""
    path = tmp_path / "lengths.db"
    with closing(connect(path)) as conn:
        conn.execute(f"PRAGMA page_size = {page_size}")
        conn.execute("BEGIN")
        conn.execute("CREATE TABLE t (body)")
        conn.execute("CREATE TABLE k (body PRIMARY KEY) WITHOUT ROWID")
        quarter = (page_size - 12) * 64 // 255 - 23
        for border in (quarter, page_size - 35, 2 * page_size - 8, 2 * page_size + quarter):
            for length in range(border - 45, border + 8):
                conn.execute("INSERT INTO t VALUES (?)", (b"x" * length,))
                conn.execute("INSERT OR IGNORE INTO k VALUES (?)", (b"x" * length,))
        conn.execute("DELETE FROM t WHERE rowid % 7 = 0")
        conn.execute("COMMIT")
    scrubbed(path)


def test_the_last_loose_bytes_go(tmp_path: Path) -> None:
    """A row that replaces a slightly longer one leaves two bytes of it before the next row, and they are removed."""
    path = tmp_path / "loose.db"
    with closing(connect(path)) as conn:
        conn.execute("PRAGMA secure_delete = OFF")
        conn.execute("CREATE TABLE t (body)")
        conn.executemany("INSERT INTO t VALUES (?)", [(letter * 50,) for letter in (b"a", b"\xc5", b"c")])
        conn.execute("DELETE FROM t WHERE rowid = 2")
        conn.execute("INSERT INTO t VALUES (?)", (b"d" * 48,))
    assert path.read_bytes().count(b"\xc5") == 2
    scrubbed(path)
    assert path.read_bytes().count(b"\xc5") == 0


def test_a_cell_shorter_than_its_place(tmp_path: Path) -> None:
    """A cell has at least four bytes; the fourth byte of one that needs three is unused."""
    path = tmp_path / "tiny.db"
    with closing(connect(path)) as conn:
        conn.execute("CREATE TABLE tiny (one PRIMARY KEY) WITHOUT ROWID")
        conn.execute("INSERT INTO tiny VALUES (1)")
    data = path.read_bytes()
    assert data[-4:-1] == b"\x02\x02\x09"
    path.write_bytes(data[:-1] + b"\xc5")
    assert scrubbed(path)["stale"] == 1
    assert path.read_bytes() == data[:-1] + b"\0"


def test_the_end_of_the_pointer_map(tmp_path: Path, sample: bytes) -> None:
    """Entries of the pointer map for removed pages, and the bytes after it, are removed."""
    path = tmp_path / "map.db"
    path.write_bytes(sample)
    scrubbed(path)
    data = path.read_bytes()
    path.write_bytes(put(data, 2 * 1024 - 1, 0xC5, width=1))
    assert scrubbed(path)["stale"] == 1
    assert path.read_bytes() == data


def test_a_file_that_grew_again_keeps_its_pointer_map(tmp_path: Path) -> None:
    """What was unused in the pointer map while the file was shorter is in use once it has grown, in the same bytes."""
    path = tmp_path / "grown.db"
    row = "INSERT INTO b VALUES (zeroblob(200))"
    with closing(connect(path)) as conn:
        conn.executescript("PRAGMA page_size = 1024; PRAGMA auto_vacuum = INCREMENTAL; CREATE TABLE a (x)")
        conn.executescript("CREATE TABLE b (x); INSERT INTO a VALUES (zeroblob(1500))")
        for _ in range(30):
            conn.execute(row)
        conn.executescript("DELETE FROM a; PRAGMA incremental_vacuum")  # the last page of b takes the free one's place
        size = conn.execute("PRAGMA page_count").fetchone()[0]
    found = run(path, write=False)["found"]
    assert 2 in found
    with closing(connect(path)) as conn:
        while conn.execute("PRAGMA page_count").fetchone()[0] == size:
            conn.execute(row)
    assert run(path, write=True, pages=found)["error"] is None
    with closing(connect(path)) as conn:
        assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_a_database_without_tables(tmp_path: Path) -> None:
    """A database with one page can be scrubbed."""
    path = tmp_path / "one.db"
    with closing(connect(path)) as conn:
        conn.execute("PRAGMA user_version = 1")
    assert scrubbed(path)["pages"] == 1


def test_what_an_extension_keeps_in_each_page_is_left_alone(tmp_path: Path) -> None:
    """If the reserved end of a page is in use, perhaps as a checksum, nothing is written."""
    path = tmp_path / "reserved.db"
    make(path, 1, 1024, "NONE", reserved=8)
    data = bytearray(path.read_bytes())
    data[5 * 1024 - 3] = 1
    refused(path, bytes(data), "extension")


_OTHER_LOCK_BYTE = """
import ctypes, sys
lock_byte, vacuum, path, tests = sys.argv[1:]
import sqlite3
ctypes.CDLL("libsqlite3.so.0").sqlite3_test_control(11, ctypes.c_uint(int(lock_byte)))
sys.path.insert(0, tests)
from tests.backends.sqlite.test_scrub import connect, make, rows
from pathlib import Path
from clew.backends.sqlite import scrub
import mmap
path = Path(path)
make(path, 1, 1024, vacuum)
live = rows(path)
with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as data:
    assert len(data) > 3 * int(lock_byte)
    data[int(lock_byte):int(lock_byte) + 8] = b"\\xc5CANARY\\xc5"
    walk = scrub.Walk(data, lock_byte=int(lock_byte))
    walk.run()
    assert int(lock_byte) // 1024 + 1 in walk.stale
    for number, unused in walk.stale.items():
        for start, end in unused:
            at = (number - 1) * 1024
            data[at + start:at + end] = bytes(end - start)
    assert data.find(b"\\xc5CANARY\\xc5") < 0
assert rows(path) == live
print("fine")
"""


@pytest.mark.parametrize("vacuum", ["NONE", "INCREMENTAL"])
@pytest.mark.parametrize("lock_page", [65, 2 + 2 * 205])
def test_the_page_for_locks(tmp_path: Path, vacuum: str, lock_page: int) -> None:
    """The lock page, usually at 1 GiB and moved here, is handled, also at the position of a pointer map."""
    try:
        known = ctypes.CDLL("libsqlite3.so.0").sqlite3_libversion
    except OSError:
        pytest.skip("there is no library of SQLite to move the page with")
    known.restype = ctypes.c_char_p
    if known().decode() != sqlite3.sqlite_version:
        pytest.skip("Python has a SQLite of its own")
    place = str((lock_page - 1) * 1024)
    path = tmp_path / "locks.db"
    command = [sys.executable, "-c", _OTHER_LOCK_BYTE, place, vacuum, str(path), str(Path(__file__).parents[3])]
    assert subprocess.run(command, capture_output=True, check=True, text=True).stdout == "fine\n"


# -- malformed files are not changed


def refused(path: Path, data: bytes, why: str) -> None:
    """Scrubs a file with this content: fails unless there is an error, and no byte changes."""
    path.write_bytes(data)
    assert why in str(run(path, write=False)["error"])
    report = run(path, write=True)
    assert report["error"] and report["cleared"] == 0
    assert path.read_bytes() == data


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A database with all kinds of pages, and stale bytes."""
    path = tmp_path_factory.mktemp("sample") / "sample.db"
    make(path, 1, 1024, "INCREMENTAL", count=80, secure="ON")
    found = run(path, write=False)
    assert found["dirty"] and found["freelist"]
    return path.read_bytes()


def put(data: bytes, at: int, *values: int, width: int = 4) -> bytes:
    """`data` with these numbers written at `at`."""
    new = b"".join(value.to_bytes(width, "big") for value in values)
    return data[:at] + new + data[at + len(new) :]


def of_kind(data: bytes, kind: int, most: Callable[[bytes], int]) -> int:
    """The offset of the b-tree page of this kind that has the highest value of a measure."""
    maps = range(1024, len(data), 1024 * (1024 // 5 + 1))
    found = [at for at in range(1024, len(data), 1024) if data[at] == kind and at not in maps]
    return max(found, key=lambda at: most(data[at : at + 1024]))


def cells(page: bytes) -> int:
    return page[4]


def freeblock(page: bytes) -> int:
    """The length of the first free block, if there is one."""
    at = int.from_bytes(page[1:3], "big")
    return int.from_bytes(page[at + 2 : at + 4], "big") if at else 0


HEADERS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda data: b"", "empty"),
    "no database": (lambda data: b"What is this?" * 100, "not a SQLite database"),
    "half a header": (lambda data: data[:60], "not a SQLite database"),
    "half a page": (lambda data: data[:-512], "size of the file"),
    "a page too few": (lambda data: data[:-1024], "size of the file"),
    "a page too many": (lambda data: data + bytes(1024), "size of the file"),
    "a page that nobody owns": (lambda data: put(data + bytes(1024), 28, len(data) // 1024 + 1), "pointer map"),
    "page size 1000": (lambda data: put(data, 16, 1000, width=2), "page size"),
    "page size 0": (lambda data: put(data, 16, 0, width=2), "page size"),
    "page size 256": (lambda data: put(data, 16, 256, width=2), "page size"),
    "page size 512": (lambda data: put(data, 16, 512, width=2), "size of the file"),
    "no bytes to use": (lambda data: put(put(data, 16, 512, width=2), 20, 255, width=1), "header"),
    "other payload fractions": (lambda data: put(data, 21, 65, width=1), "header"),
    "bytes for the future": (lambda data: put(data, 80, 1, width=1), "header"),
    "huge": (lambda data: put(data, 28, 0xFFFFFFFF), "size of the file"),
    "a size that is not valid": (lambda data: put(data, 92, 0), "size of the file"),
    "a free page that is not": (lambda data: put(data, 32, 1), "another owner"),
    "a free page beyond the end": (lambda data: put(data, 32, 0x7FFFFFFF), "does not exist"),
    "other free pages": (lambda data: put(data, 36, 10_000), "free pages"),
    "another largest root": (lambda data: put(data, 52, 3), "largest root"),
    "no pointer map": (lambda data: put(data, 52, 0), "not in use and not free"),
    "a wrong pointer map": (lambda data: put(data, 1024 + 6, 0xFF, width=1), "pointer map"),
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_malformed_file_is_refused(tmp_path: Path, sample: bytes, name: str) -> None:
    """A truncated file, or one with a wrong header, raises an error and stays unchanged."""
    spoil, why = HEADERS[name]
    refused(tmp_path / "bad.db", spoil(sample), why)


def test_malformed_pages_are_refused(tmp_path: Path, sample: bytes) -> None:
    """Cyclic or invalid pointers, overlapping cells and wrong counts raise an error, and change nothing."""
    path = tmp_path / "bad.db"
    leaf, inner = of_kind(sample, 13, cells), of_kind(sample, 5, cells)
    number, inner_number = leaf // 1024 + 1, inner // 1024 + 1
    cell = int.from_bytes(sample[leaf + 8 : leaf + 10], "big")
    free = of_kind(sample, 10, freeblock)
    block = int.from_bytes(sample[free + 1 : free + 3], "big")
    assert block
    trunk = (int.from_bytes(sample[32:36], "big") - 1) * 1024

    refused(path, put(sample, leaf, 7, width=1), "not a b-tree page")
    refused(path, put(sample, leaf, 10, width=1), "")
    refused(path, put(sample, leaf + 3, 0xFFFF, width=2), "outside")
    refused(path, put(sample, leaf + 5, 1025, width=2), "outside")
    refused(path, put(sample, leaf + 5, 0, width=2), "outside")
    refused(path, put(sample, leaf + 7, sample[leaf + 7] ^ 1, width=1), "loose")
    refused(path, put(sample, leaf + 8, 0xFFFF, width=2), "extends beyond")
    refused(path, put(sample, leaf + 8, 1023, width=2), "")
    refused(path, put(sample, leaf + 8, 0, width=2), "")
    refused(path, put(sample, leaf + 8, *[cell] * 2, width=2), "overlap")
    refused(path, put(sample, leaf + cell, *[0xFF] * 9, width=1), "")
    refused(path, put(sample, inner + 8, inner_number), "another owner")
    refused(path, put(sample, inner + 8, 1), "another owner")
    refused(path, put(sample, inner + 8, 0), "does not exist")
    refused(path, put(sample, inner + 8, 0xFFFFFFFF), "does not exist")
    refused(path, put(sample, inner + 8, number), "")
    refused(path, put(sample, free + 1, 3, width=2), "free block")
    refused(path, put(sample, free + 1, 1023, width=2), "free block")
    refused(path, put(sample, free + block, block, width=2), "free block")
    refused(path, put(sample, free + block + 2, 3, width=2), "free block")
    refused(path, put(sample, free + block + 2, 0xFFFF, width=2), "overlap")
    refused(path, put(sample, trunk, trunk // 1024 + 1), "another owner")
    refused(path, put(sample, trunk + 4, 0xFFFFFFFF), "more free pages")
    refused(path, put(sample, trunk + 8, trunk // 1024 + 1), "another owner")


def test_trees_that_share_branches_are_refused(tmp_path: Path) -> None:
    """A page of an index below a page of a table is refused."""
    path = tmp_path / "mixed.db"
    make(path, 1, 1024, "NONE", count=80, secure="ON")
    data = path.read_bytes()
    places = [max(at for at in range(1024, len(data), 1024) if data[at] == kind) + 8 for kind in (5, 2)]
    table, index = (int.from_bytes(data[at : at + 4], "big") for at in places)
    refused(path, put(put(data, places[0], index), places[1], table), "different types")


def test_long_rows_that_go_in_circles_are_refused(tmp_path: Path) -> None:
    """An overflow chain that is cyclic, too short or too long raises an error, and changes nothing."""
    path = tmp_path / "long.db"
    with closing(connect(path)) as conn:
        for pragma in ("page_size = 1024", "auto_vacuum = NONE"):
            conn.execute(f"PRAGMA {pragma}")
        conn.execute("CREATE TABLE t (body)")
        conn.execute("INSERT INTO t VALUES (?)", (b"x" * 10_000,))
    data = path.read_bytes()
    assert int.from_bytes(data[2 * 1024 : 2 * 1024 + 4], "big") == 4
    refused(path, put(data, 2 * 1024, 3), "another owner")
    refused(path, put(data, 2 * 1024, 0), "does not exist")
    refused(path, put(data, len(data) - 1024, 5), "next page")


def test_a_malformed_schema_is_refused(tmp_path: Path) -> None:
    """Malformed rows of the schema are refused."""
    path = tmp_path / "schema.db"
    with closing(connect(path)) as conn:
        conn.execute("CREATE TABLE t (body)")
    data = path.read_bytes()
    row = data.index(b"tablett") - 6
    assert data[row : row + 6] == bytes([6, 23, 15, 15, 1, data[row + 5]])
    refused(path, put(data, row + 1, 22, width=1), "schema")
    refused(path, put(data, row + 4, 7, width=1), "schema")
    refused(path, put(data, row + 4, 10, width=1), "schema")
    refused(path, put(data, row + 4, 9, width=1), "another owner")
    refused(path, put(data, row + 4, 0, width=1), "not in use and not free")
    refused(path, put(data, data.index(b"tablett") + 7, 200, width=1), "does not exist")


def test_no_flip_makes_it_change_what_is_read(tmp_path: Path, sample: bytes) -> None:
    """If any byte of the structure is wrong, SQLite reads the same before and after scrubbing."""
    source = random.Random(3)
    path = tmp_path / "flipped.db"
    refusals = 0
    trees = [page for page in range(0, len(sample), 1024) if sample[page] in (2, 5, 10, 13)]
    for _ in range(400):
        page = source.choice((0, source.choice(trees), source.choice(trees), source.randrange(0, len(sample), 1024)))
        at = page + source.choice((source.randrange(24), source.randrange(100), source.randrange(1024)))
        data = put(sample, at, sample[at] ^ 1 << source.randrange(8), width=1)
        path.write_bytes(data)
        report = run(path, write=True)
        if report["error"] is not None:
            refusals += 1
            assert path.read_bytes() == data
        else:
            after = dump(path)
            path.write_bytes(data)
            assert dump(path) == after
    assert 50 < refusals < 350


def dump(path: Path) -> list[Any]:
    """The rows that SQLite reads from a file that may be damaged."""
    with closing(connect(path)) as conn:
        conn.execute("PRAGMA query_only = ON")
        conn.text_factory = bytes
        found: list[Any] = []
        for name in ("plain", "keyed", "tiny", "tinier", "words", "pragma_integrity_check"):
            try:
                found += conn.execute(f"SELECT * FROM {name}").fetchall()
            except (sqlite3.Error, UnicodeDecodeError) as error:
                found.append(str(error))
        return found


# -- called by the library


def test_the_program_prints_one_line(tmp_path: Path) -> None:
    """The program runs without site packages, prints a JSON report, and exits with 1 on an error."""
    path = tmp_path / "a.db"
    make(path, 1, 4096, "INCREMENTAL")

    def ask(*arguments: str) -> tuple[int, bytes]:
        command = [sys.executable, "-I", "-S", scrub.__file__, *arguments]
        done = subprocess.run(command, capture_output=True, check=False, cwd="/")
        return done.returncode, done.stdout

    code, line = ask(str(path))
    found = json.loads(line)
    assert code == 0 and found["stale"] > 0 and found["cleared"] == 0 and line.count(b"\n") == 1
    code, line = ask(str(path), "--write")
    assert json.loads(line) == {**found, "cleared": found["stale"], "found": {}}
    code, line = ask(str(tmp_path))
    assert code == 1 and json.loads(line)["error"] == "it is not a file"
    assert ask(str(path), "--wipe") == (1, b"")
    assert ask() == (1, b"")


def test_it_is_on_disk_before_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is synced once after the last write; not at all if nothing was written."""
    path = tmp_path / "a.db"
    make(path, 1, 4096, "NONE", count=20)
    calls: list[str] = []

    def noted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            calls.append(name)
            return real(*given)

        return call

    for name in ("pwrite", "fsync"):
        monkeypatch.setattr(os, name, noted(name, getattr(os, name)))
    run(path, write=True)
    assert calls == ["pwrite"] * (len(calls) - 1) + ["fsync"] and len(calls) > 1
    calls.clear()
    run(path, write=True)
    assert calls == []


def test_errors_are_clews(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error report of the program, or a missing report, becomes an error with a hint."""
    path = tmp_path / "a.db"
    with pytest.raises(NotFound):
        clean(str(path), write=True)
    path.write_bytes(b"no database")
    with pytest.raises(Corrupted, match="file is not a database"):
        clean(str(path), write=True)
    assert path.read_bytes() == b"no database"
    monkeypatch.setattr(sys, "executable", "/bin/true")
    with pytest.raises(Unavailable, match="exited with 0"):
        clean(str(path), write=True)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(Unavailable, match="cannot be run"):
        clean(str(path), write=True)
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(Unavailable, match="needs a Python"):
        clean(str(path), write=True)


def test_a_write_that_fails(tmp_path: Path) -> None:
    """A failed write is reported, and the file can be cleared later."""
    path = tmp_path / "a.db"
    make(path, 1, 4096, "NONE", count=20)
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        with pytest.raises(StorageFull):
            clean(str(path), write=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before
    assert clean(str(path), write=True).cleared > 0


@pytest.mark.parametrize(
    ("number", "kind"),
    [(errno.EROFS, ReadOnly), (errno.EACCES, ReadOnly), (errno.ENOSPC, StorageFull), (errno.EIO, Unavailable)],
)
def test_what_the_system_says_is_told(number: int, kind: type[ClewError], monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the operating system is never reported as damage."""
    counts = dict.fromkeys(("pages", "dirty", "stale", "cleared", "freelist", "wal"), 0)
    answer = json.dumps({**counts, "errno": number, "error": "it failed"}).encode()
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 1, answer))
    with pytest.raises(kind) as raised:
        clean("/a.db", write=True)
    assert type(raised.value) is kind and raised.value.hint


def test_nothing_is_written_while_the_log_is_not_empty(tmp_path: Path) -> None:
    """While the write-ahead log is not empty, the file can be scanned but not written."""
    path = tmp_path / "a.db"
    link = tmp_path / "link.db"
    link.symlink_to(path)
    conn, _ = churn(path, 1)
    conn.execute("INSERT INTO t VALUES (1, 'k', 'b')")
    before = path.read_bytes()
    for name in (path, link):
        assert clean(str(name), write=False).wal > 0
        assert not clean(str(name), write=False).clean
        with pytest.raises(Unavailable, match="busy"):
            clean(str(name), write=True)
    assert path.read_bytes() == before
    conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert clean(str(link), write=True).clean
    conn.close()


_TRY_TO_WRITE = """
import sqlite3, sys
conn = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=0)
try:
    conn.execute("BEGIN IMMEDIATE")
    print("written")
except sqlite3.OperationalError as error:
    print(error)
"""


def test_readers_go_on_and_locks_stay(tmp_path: Path) -> None:
    """A reader can continue during a scrub, and the locks of this process remain effective afterwards."""
    path, conn, gone = trace(tmp_path)
    expected = conn.execute("SELECT * FROM t").fetchall()
    with closing(connect(path)) as reader:
        reader.execute("BEGIN")
        cursor = reader.execute("SELECT * FROM t")
        first = cursor.fetchmany(100)
        found = clean(str(path), write=True)
        assert found.clean and found.cleared == found.stale > 0
        conn.execute("BEGIN IMMEDIATE")
        assert first + cursor.fetchall() == expected
        said = subprocess.run([sys.executable, "-c", _TRY_TO_WRITE, str(path)], capture_output=True, check=True)
        assert said.stdout == b"database is locked\n"
        conn.execute("COMMIT")
    conn.close()
    assert traces(path, gone) == []
    assert clean(str(path), write=False) == Scrubbed(found.pages, 0, 0, 0, found.freelist, 0, {})


def test_pages_in_memory_do_not_bring_it_back(tmp_path: Path) -> None:
    """Connections with cached pages do not write deleted data back, if the caller truncates the log."""
    path, conn, gone = trace(tmp_path)
    live = [id for (id,) in conn.execute("SELECT id FROM t WHERE length(body) > -1 AND key > ''")]
    with closing(connect(path)) as other:
        other.execute("SELECT sum(length(body)) FROM t WHERE key > ''").fetchall()
        assert clean(str(path), write=True).clean
        conn.execute("PRAGMA shrink_memory")
        conn.execute("PRAGMA user_version = 2")
        for number, id in enumerate(live):
            (conn if number % 2 else other).execute("UPDATE t SET key = ?, body = 'x' WHERE id = ?", (b"%d" % id, id))
        assert traces(path, gone) == traces(Path(f"{path}-wal"), gone) == []
    conn.close()
