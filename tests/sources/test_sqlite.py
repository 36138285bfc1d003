"""Databases of other programs, read without a trace."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from clew.errors import ClewError, Invalid
from clew.sources.items import Item, items
from clew.sources.sqlite import PAGE, look_up, open_database, record_row, row_record, scan, tables

Trace = dict[str, tuple[bytes, int]]


def trace(folder: Path) -> Trace:
    """All files of a folder: bytes and times."""
    return {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in sorted(folder.iterdir())}


def make(path: Path, mode: str, rows: int = 3) -> sqlite3.Connection:
    """A database with a table `t`, still open."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(f"PRAGMA journal_mode = {mode}")
    connection.execute("CREATE TABLE t (key TEXT, data BLOB)")
    connection.executemany("INSERT INTO t VALUES (?, ?)", [(f"k{n}", bytes([n % 256])) for n in range(rows)])
    return connection


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "source"
    place.mkdir()
    yield place
    os.chmod(place, 0o700)


def keys(item: Item) -> list[str]:
    with open_database(item) as connection:
        return [row["key"] for row in scan(connection, "t")]


def read(path: Path) -> list[str]:
    return keys(next(items(str(path))))


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_a_closed_database(folder: Path, mode: str) -> None:
    """All rows are read, and nothing at the source has changed."""
    make(folder / "a.db", mode).close()
    before = trace(folder)
    assert read(folder / "a.db") == ["k0", "k1", "k2"]
    assert trace(folder) == before


WRITER = """
import sqlite3, sys
live = sqlite3.connect(sys.argv[1], isolation_level=None)
live.execute("PRAGMA journal_mode = wal")
live.execute("CREATE TABLE t (key TEXT)")
for line in sys.stdin:
    live.execute("INSERT INTO t VALUES (?)", (line.strip(),))
    print("written", flush=True)
"""


def test_beside_a_program_that_writes(folder: Path) -> None:
    """Rows that are only in the WAL are read, beside the program that has the database open."""
    command = [sys.executable, "-c", WRITER, str(folder / "a.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        states: set[Item] = set()
        for expected in (["k0"], ["k0", "k1"]):
            print(expected[-1], file=writer.stdin, flush=True)
            assert writer.stdout.readline() == "written\n"
            before = trace(folder)
            assert read(folder / "a.db") == expected
            assert trace(folder) == before
            states.add(next(items(str(folder / "a.db"))))
        assert len(states) == 2, "a file whose WAL has grown has changed"
        writer.stdin.close()


@pytest.mark.parametrize("left", [["-wal"], ["-wal", "-shm"]], ids=["wal", "wal and shm"])
def test_after_a_crash(folder: Path, tmp_path: Path, left: list[str]) -> None:
    """A WAL that nobody has open is read, with and without its index."""
    with closing(make(tmp_path / "live.db", "wal")):
        for ending in ["", *left]:
            shutil.copyfile(tmp_path / f"live.db{ending}", folder / f"a.db{ending}")
    before = trace(folder)
    assert read(folder / "a.db") == ["k0", "k1", "k2"]
    assert trace(folder) == before


def test_a_journal_that_must_be_rolled_back(folder: Path, tmp_path: Path) -> None:
    """A transaction that was cut off is not seen, and its journal stays."""
    make(tmp_path / "live.db", "delete", 2000).close()
    with closing(sqlite3.connect(tmp_path / "live.db", isolation_level=None)) as live:
        live.execute("PRAGMA cache_size = 1")
        live.execute("BEGIN")
        live.execute("UPDATE t SET key = 'changed'")
        for ending in ("", "-journal"):
            shutil.copyfile(tmp_path / f"live.db{ending}", folder / f"a.db{ending}")
    before = trace(folder)
    assert read(folder / "a.db") == [f"k{n}" for n in range(2000)]
    assert trace(folder) == before


def test_a_member_of_an_archive(folder: Path, tmp_path: Path) -> None:
    """A database in a zip archive is read from a private copy."""
    make(tmp_path / "a.db", "wal").close()
    with zipfile.ZipFile(folder / "a.zip", "w") as archive:
        archive.write(tmp_path / "a.db", "logs/a.db")
    assert keys(next(items(str(folder / "a.zip")))) == ["k0", "k1", "k2"]


def test_a_folder_that_is_read_only(folder: Path) -> None:
    """A database in a folder without the right to write is read."""
    make(folder / "a.db", "wal").close()
    os.chmod(folder, 0o500)
    assert read(folder / "a.db") == ["k0", "k1", "k2"]


def test_more_rows_than_a_page(folder: Path) -> None:
    """All pages are read, in their order."""
    make(folder / "a.db", "delete", 2 * PAGE + 1).close()
    assert read(folder / "a.db") == [f"k{n}" for n in range(2 * PAGE + 1)]


def test_rows_by_key_and_as_records(folder: Path) -> None:
    """A row is found by a column, and its record gives its values back, bytes included."""
    make(folder / "a.db", "delete").close()
    with open_database(next(items(str(folder / "a.db")))) as connection:
        assert tables(connection) == {"t": ("key", "data")}
        (row,) = look_up(connection, "t", "key", "k2")
    assert record_row(row_record("t", row)) == ("t", {"key": "k2", "data": b"\x02"})


def test_it_can_only_read(folder: Path) -> None:
    """Neither the database nor any other can be written through the connection."""
    make(folder / "a.db", "delete").close()
    before = trace(folder)
    for query in ("DELETE FROM t", f"ATTACH '{folder}/b.db' AS b", "PRAGMA journal_mode = wal"):
        with pytest.raises(ClewError), open_database(next(items(str(folder / "a.db")))) as connection:
            connection.execute(query).fetchall()
            connection.execute("DELETE FROM t")
    assert trace(folder) == before


@pytest.mark.parametrize("data", [b"", b"SQLite", b"SQLite format 3\0" + b"\xff" * 200, b"x" * 5000])
def test_what_is_no_database(folder: Path, data: bytes) -> None:
    """It is refused by name."""
    (folder / "a.db").write_bytes(data)
    with pytest.raises(ClewError, match=r"a\.db"):
        read(folder / "a.db")


def test_views_and_virtual_tables_are_left_out(folder: Path) -> None:
    """A view under the name of a table is not run."""
    with closing(make(folder / "a.db", "delete")) as live:
        live.execute("CREATE VIEW v AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n")
        live.execute("CREATE VIRTUAL TABLE words USING fts5(text)")
    with open_database(next(items(str(folder / "a.db")))) as connection:
        assert not {"v", "words"} & set(tables(connection))


def test_damage_is_an_outcome(folder: Path) -> None:
    """A damaged page ends the reading with an error of clew's own."""
    make(folder / "a.db", "delete", 5000).close()
    data = bytearray((folder / "a.db").read_bytes())
    data[4096:8192] = b"\xa5" * 4096
    (folder / "a.db").write_bytes(data)
    with pytest.raises(Invalid):
        read(folder / "a.db")
