"""Databases of other programs, read without leaving a trace at the source.

SQLite itself writes when it reads: a database in WAL mode gets a ``-shm`` file, and one that was not closed is rolled
back. Four cases keep the source as it is:

* a rollback database without a journal is opened with ``mode=ro``;
* a WAL database whose ``-wal`` is missing or empty is one file: ``immutable=1``, and the file is checked at the end;
* a WAL database with ``-wal`` and ``-shm`` is opened with ``mode=ro`` and ``readonly_shm=1``, beside its writer;
* everything else is read from a private copy: a journal to roll back, a ``-wal`` without ``-shm``, an archive member.

Queries are short, so that a program that writes meanwhile does not wait: `scan` reads page by page.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import Any
from urllib.parse import quote

import msgspec

from clew.base.outside import open_regular, refuse_store
from clew.errors import ClewError, Invalid, Unavailable
from clew.providers.json_values import Json
from clew.providers.view import parse
from clew.sources.items import SQLITE, Item

PAGE = 200
"""Rows of one query of `scan`."""
LONGEST_VALUE = 256 * 1024 * 1024
"""Bytes of one value at most."""
_WAIT = 5.0
"""Seconds to wait for a program that is writing."""
_SPARE = 256 * 1024 * 1024
"""Bytes of the disk that a private copy leaves free."""
PAGE_BYTES = 64 * 1024 * 1024
"""Bytes of one query of `scan`, before its last row."""
STEPS = 1_000_000
"""Instructions of SQLite between two looks at their number."""
MOST_STEPS = 2_000
"""How many times `STEPS` a file may take, and once more for each `STEP_BYTES` of it. Reading all rows once takes less
than one instruction for each byte; a forged file can ask for any number."""
STEP_BYTES = 64 * 1024
_ROWID = "clew_rowid"
_SIDES = ("-wal", "-shm", "-journal")
_ATTEMPTS = 3
_BLOB = "$base64"
_OBJECT = 64
"""Bytes of memory for each value of a row at least: many small rows must not count as few bytes."""
_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
"""The last bytes of a journal that names another file: SQLite opens that file, and deletes it."""
_READS = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_PRAGMA)

Row = Mapping[str, Any]


@contextmanager
def open_database(item: Item) -> Iterator[sqlite3.Connection]:
    """A connection that can only read, with the rows as `sqlite3.Row`.

    Errors of SQLite inside become Invalid or Unavailable. Unavailable also if the file changed in a way that makes the
    rows doubtful: import it again.
    """
    try:
        with _source(item) as uri, closing(_connect(uri)) as connection:
            yield connection
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT:
            raise Invalid(f"{item.name} takes too long to read") from None
        raise Unavailable(
            f"{item.name} cannot be read now ({error})", hint="Close the program and try again."
        ) from None
    except sqlite3.Error as error:
        raise Invalid(f"{item.name} is not a sound database ({error})") from None


def tables_of(path: str, head: bytes) -> dict[str, tuple[str, ...]]:
    """The tables of a file, to recognise it by; none if it is no database, or a member of an archive.

    The first bytes of a database do not say what is in it: its schema can be on any page.
    """
    if not head.startswith(SQLITE) or not os.path.isabs(path):
        return {}
    with suppress(ClewError), open_database(Item(path, 0, 0)) as connection:
        return tables(connection)
    return {}


def tables(connection: sqlite3.Connection) -> dict[str, tuple[str, ...]]:
    """The real tables and their columns. Views, virtual tables and generated columns can run code or never end.

    SQLite itself writes ``CREATE TABLE`` before each table; another spelling is forged.
    """
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE TABLE %'")
    return {name: _stored_columns(_columns(connection, name)) for (name,) in rows.fetchall()}


def _columns(connection: sqlite3.Connection, table: str) -> dict[str, bool]:
    """The columns; True for one whose values are not in the file: SQLite computes them when they are read."""
    return {row[1]: row[6] != 0 for row in connection.execute(f"PRAGMA table_xinfo({quote_name(table)})")}


def _stored_columns(columns: dict[str, bool]) -> tuple[str, ...]:
    return tuple(name for name, computed in columns.items() if not computed)


def _refuse_computed(table: str, columns: dict[str, bool], query: str) -> None:
    """Invalid if a part of a query names a column whose values are computed."""
    words = {word.lower() for word in re.findall(r"\w+", query)}
    if any(computed and name.lower() in words for name, computed in columns.items()):
        raise Invalid(f"the table {table} computes values that should be in the file")


def scan(connection: sqlite3.Connection, table: str, columns: str = "*") -> Iterator[sqlite3.Row]:
    """The rows of a table in the order of their rowids. No query is open between two pages."""
    known = _columns(connection, table)
    names = {name.lower() for name in known}
    rowid = next((name for name in ("rowid", "_rowid_", "oid") if name not in names), None)
    if rowid is None:
        raise Invalid(f"the table {table} hides the numbers of its rows")
    _refuse_computed(table, known, columns)
    chosen = _list(_stored_columns(known), columns)
    after: int | None = None
    while True:
        where = "" if after is None else f"WHERE {rowid} > ?"
        query = f"SELECT {rowid} AS {_ROWID}, {chosen} FROM {quote_name(table)} {where} ORDER BY {rowid}"
        rows = _page(connection.execute(f"{query} LIMIT {PAGE}", () if after is None else (after,)))
        for row in rows:
            if after is not None and row[0] <= after:
                raise Invalid(f"the rows of the table {table} are not in order")
            after = row[0]
            yield row
        if not rows:
            return


def _list(known: Iterable[str], columns: str = "*") -> str:
    """Columns for a query; for ``*`` all that are in the file."""
    return ", ".join(quote_name(name) for name in known if name != _ROWID) if columns == "*" else columns


def _page(cursor: sqlite3.Cursor) -> list[sqlite3.Row]:
    """The next rows, until they have many bytes."""
    rows, size = [], 0
    for row in cursor:
        rows.append(row)
        size += _weight(row)
        if size > PAGE_BYTES:
            break
    cursor.close()
    return rows


def _weight(row: sqlite3.Row) -> int:
    """About as many bytes as a row takes in memory."""
    return sum(_OBJECT + (len(value) if isinstance(value, str | bytes) else 0) for value in row)


def look_up(
    connection: sqlite3.Connection, table: str, key: str, value: object, *, order: str = "rowid"
) -> list[sqlite3.Row]:
    """The rows of a table that have a value in a column."""
    known = _columns(connection, table)
    _refuse_computed(table, known, f"{key} {order}")
    query = (
        f"SELECT {_list(_stored_columns(known))} FROM {quote_name(table)} WHERE {quote_name(key)} = ? ORDER BY {order}"
    )
    rows, size = [], 0
    for row in connection.execute(query, (value,)):
        rows.append(row)
        size += _weight(row)
        if size > LONGEST_VALUE:
            raise Invalid(f"the rows of one {key} have more than {LONGEST_VALUE:,} bytes")
    return rows


def quote_name(name: str) -> str:
    """A name for use in SQL."""
    return '"' + name.replace('"', '""') + '"'


def row_record(table: str, row: sqlite3.Row | Row) -> bytes:
    """A row as a record: a JSON object with its table and its values. `record_row` reads it back."""
    values = {name: _writable(row[name]) for name in row.keys() if name != _ROWID}  # noqa: SIM118 (a sqlite3.Row)
    return msgspec.json.encode({"table": table, "row": values})


def record_row(record: bytes) -> tuple[str, dict[str, Any]]:
    """The table and the values of a row that `row_record` wrote."""
    data = msgspec.json.decode(record)
    return data["table"], {name: _readable(value) for name, value in data["row"].items()}


def _writable(value: object) -> object:
    return {_BLOB: base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def _readable(value: object) -> object:
    return base64.b64decode(value[_BLOB]) if isinstance(value, dict) else value


# -- opening


def _connect(uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, timeout=_WAIT, isolation_level=None, check_same_thread=False)
    try:
        connection.row_factory = sqlite3.Row
        connection.text_factory = _decode
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        connection.set_authorizer(_authorize)
        for pragma in (
            "query_only = 1",
            "trusted_schema = 0",
            "cell_size_check = 1",
            "mmap_size = 0",
            "cache_size = -8192",
        ):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        pages, size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
        left = iter(range(MOST_STEPS + pages * size // STEP_BYTES))
        connection.set_progress_handler(lambda: next(left, None) is None, STEPS)
    except BaseException:
        connection.close()
        raise
    return connection


def _authorize(action: int, one: str | None, other: str | None, base: str | None, inner: str | None) -> int:
    """Allows reading of tables; nothing that a view or trigger of the file asks for (`inner`)."""
    return sqlite3.SQLITE_OK if action in _READS and inner is None else sqlite3.SQLITE_DENY


def _decode(data: bytes) -> str:
    return data.decode(errors="replace")


@contextmanager
def _source(item: Item) -> Iterator[str]:
    """The URI of a database that can be read without a trace."""
    if item.member is not None:
        with tempfile.TemporaryDirectory(prefix="clew-") as folder, item.open() as file:
            copy = os.path.join(folder, "copy.db")
            with open(copy, "wb") as target:
                shutil.copyfileobj(file, target, 1 << 20)
            yield _uri(copy, "mode=rwc")
        return
    path = os.path.realpath(item.path)
    with item.open() as file:
        head = file.read(100)
        if not os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
            raise Unavailable(f"{item.name} was replaced while it was read", hint="Import it again.")
    for side in _SIDES:
        _check_side(f"{path}{side}")
    if not head.startswith(SQLITE):
        raise Invalid(f"{item.name} is not a database")
    is_wal = head[18:20] == b"\x02\x02"
    wal, journal = _size(f"{path}-wal"), _size(f"{path}-journal")
    if is_wal and wal == 0:
        before = _state(path)
        yield _uri(path, "mode=ro&immutable=1")
        if _state(path) != before:
            raise Unavailable(f"{item.name} was written while it was read", hint="Import it again.")
    elif is_wal and os.path.exists(f"{path}-shm"):
        yield _uri(path, "mode=ro&readonly_shm=1")
    elif not is_wal and journal == 0:
        yield _uri(path, "mode=ro")
    else:
        with tempfile.TemporaryDirectory(prefix="clew-") as folder:
            copy = os.path.join(folder, "copy.db")
            _copy(path, copy)
            yield _uri(copy, "mode=rw")


def _copy(path: str, copy: str) -> None:
    """Copies a database with its journals. Unavailable if it does not stand still, or the disk is too small."""
    needed = sum(_size(f"{path}{ending}") for ending in ("", "-wal", "-journal"))
    if shutil.disk_usage(os.path.dirname(copy)).free < needed + _SPARE:
        raise Unavailable(
            f"{path} must be copied, and {needed:,} bytes do not fit", hint="Set TMPDIR to a larger disk."
        )
    for _ in range(_ATTEMPTS):
        before = _state(path)
        for ending in ("", "-wal", "-journal"):
            with suppress(FileNotFoundError):
                os.remove(f"{copy}{ending}")
            if os.path.lexists(f"{path}{ending}"):
                with (
                    open_regular(f"{path}{ending}", os.path.dirname(path)) as file,
                    open(copy + ending, "wb") as target,
                ):
                    shutil.copyfileobj(file, target, 1 << 20)
        if _state(path) == before:
            _check_journal(f"{copy}-journal", path)
            return
    raise Unavailable(f"{path} is being written", hint="Close the program and try again.")


def _check_journal(journal: str, path: str) -> None:
    """Invalid if SQLite would open and delete another file, which a journal names, when it rolls the journal back."""
    with suppress(FileNotFoundError), open(journal, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - len(_JOURNAL_MAGIC)))
        if file.read() == _JOURNAL_MAGIC:
            raise Invalid(f"{path}-journal names another file", hint="Open the database with its own program first.")


def _check_side(path: str) -> None:
    """Invalid if a file that SQLite would open beside a database is a link, a pipe, a device or a store's own file."""
    if os.path.lexists(path):
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise Invalid(f"{path} is not a file")
        refuse_store(path)


def _uri(path: str, options: str) -> str:
    return f"file:{quote(path)}?{options}"


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _state(path: str) -> list[tuple[int, int]]:
    found = []
    for ending in ("", "-wal", "-journal"):
        try:
            status = os.stat(f"{path}{ending}")
            found.append((status.st_size, status.st_mtime_ns if not ending or status.st_size else 0))
        except OSError:
            found.append((0, 0))
    return found


def row_fields(row: sqlite3.Row) -> Json:
    """The values of a row by their columns; bytes are left out."""
    return {name: value for name, value in record_row(row_record("", row))[1].items() if not isinstance(value, bytes)}


def row_bytes(row: sqlite3.Row, *columns: str) -> bytes:
    """A row as a JSON object. The text of the `columns` is put into it byte for byte, where it is JSON."""
    found = msgspec.json.decode(row_record("", row))["row"]
    for column in columns:
        text = found.get(column)
        if isinstance(text, str) and _is_json(text):
            found[column] = msgspec.Raw(text.encode())
    return msgspec.json.encode(found)


def _is_json(text: str) -> bool:
    try:
        parse(b'{"":' + text.encode() + b"}")
    except (msgspec.MsgspecError, UnicodeError, RecursionError, Invalid):
        return False
    return True
