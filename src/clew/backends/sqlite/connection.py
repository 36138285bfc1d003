"""Connections to a store's file: opens and checks them, translates driver errors, closes inherited ones.

A forked child closes the connections that it inherits from its parent. SQLite in the child assumes that it holds their
locks, but only the parent does. So a store that the child opens on the same file would have no locks either, and
closing the last inherited connection would delete the write-ahead log while others use it. The child closes them before
it opens a store or exits, in an order in which SQLite keeps the log.
"""

from __future__ import annotations

import atexit
import errno
import os
import sqlite3
import sys
from _weakref import ref  # `weakref` takes longer to import than the rest of this
from contextlib import suppress
from typing import Literal, Protocol

from clew.backends import Durability
from clew.backends.problems import ODD
from clew.backends.rows import FORMAT
from clew.base.loading import CLOSE_SOME, NO_DESCRIPTOR
from clew.errors import (
    ClewError,
    Closed,
    Corrupted,
    Forbidden,
    NotAStore,
    ReadOnly,
    SchemaTooNew,
    StorageFull,
    Unavailable,
)

APPLICATION_ID = 0x636C6577  # "clew"
OLDEST_SQLITE = (3, 37, 0)

DRIVER = (sqlite3.Error, UnicodeDecodeError, OverflowError)
"""Errors of the driver."""
ANY = (sqlite3.Error, *ODD)
NAMELESS = ""
NO_FILE = (":memory:", NAMELESS)
"""Names of a store in memory, or in a temporary file without a name. Only one connection can access such a store."""
_PAGE = 65536
"""The largest page size of SQLite."""
_RAISE = "Raise the limit (ulimit -f), then make the same call again; the store stays usable."


def connect(
    path: str, mode: Literal["ro", "rw"], *, durability: Durability, timeout: float, immutable: bool = False
) -> sqlite3.Connection:
    """Opens a connection in autocommit mode and configures it. Writes nothing. `path` may be one of `NO_FILE`."""
    memory = path in NO_FILE
    conn = sqlite3.connect(
        path if memory else uri(path, mode) + "&immutable=1" * immutable,
        timeout=timeout,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
        uri=not memory,
    )
    run = conn.execute
    run("PRAGMA foreign_keys = ON")
    run("PRAGMA temp_store = MEMORY")
    run("PRAGMA trusted_schema = OFF")
    if mode == "rw":
        conn.text_factory = as_found
        run("PRAGMA secure_delete = ON")
        run(f"PRAGMA synchronous = {'FULL' if durability == 'full' else 'NORMAL'}")
        if sys.platform == "darwin":  # fsync there only reaches the drive's cache
            run("PRAGMA fullfsync = ON")
            run("PRAGMA checkpoint_fullfsync = ON")
    return conn


def as_found(text: bytes) -> str:
    """Decodes text; invalid bytes, which mean damage, are preserved by `surrogateescape`.

    For connections that handle damage. The others use the driver's own decoder, which is faster, and raises.
    """
    return text.decode(errors="surrogateescape")


def uri(path: str, mode: str) -> str:
    """`path` as a SQLite URI, with special characters quoted."""
    safe = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-~")
    quoted = "".join(chr(byte) if byte in safe else f"%{byte:02X}" for byte in os.fsencode(os.path.abspath(path)))
    start = "file://" if quoted.startswith("//") else "file:"  # after two slashes, SQLite expects a host
    return f"{start}{quoted}?mode={mode}"


def check(conn: sqlite3.Connection, path: str) -> int:
    """The format of the store; 0 if the file is empty. NotAStore, SchemaTooNew. Changes nothing."""

    def ask(sql: str) -> int:
        return int(conn.execute(sql).fetchone()[0])

    if ask("PRAGMA application_id") != APPLICATION_ID:
        used = ask("PRAGMA user_version") or ask("SELECT count(*) FROM sqlite_master")
        # Read again at the end: another process may have created the store in between.
        application = ask("PRAGMA application_id")
        if application != APPLICATION_ID:
            if application or used:
                raise NotAStore(path, "it is a database of another program")
            return 0
    found = ask("PRAGMA user_version")
    if found > FORMAT:
        raise SchemaTooNew(path, found, FORMAT)
    return found


def is_full(error: BaseException) -> bool:
    """True if the disk is full, also if there is no space for the index of the write-ahead log (SHMSIZE)."""
    code = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF == sqlite3.SQLITE_FULL or code == sqlite3.SQLITE_IOERR_SHMSIZE


def translate(error: Exception, path: str) -> ClewError:
    """Translates an error inside a transaction, one of `ANY`, to an error of clew."""
    if isinstance(error, UnicodeDecodeError):  # the driver cannot decode its own message about a damaged schema
        return Corrupted(path, "the database file is malformed")
    if isinstance(error, ODD):
        return Corrupted(path, "a value in it has a wrong type or is out of range")
    if "UTF-8" in str(error):  # damage has changed the type of a body to text
        error.args = ("a text is not valid UTF-8",)  # the driver's message contains the stored text
        return Corrupted(path, "a value in it is not valid UTF-8")
    if is_full(error):
        return StorageFull(f"no space is left for {path}")
    code = getattr(error, "sqlite_errorcode", 0)
    match code & 0xFF:
        case sqlite3.SQLITE_READONLY:
            if code == sqlite3.SQLITE_READONLY_DIRECTORY:
                return _read_only_folder(path)
            return ReadOnly(f"{path} cannot be written")
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return Unavailable(f"{path} is locked by another program", hint="Make the same call again.")
        case sqlite3.SQLITE_NOTADB:
            return NotAStore(path, "it is not a database")
        case sqlite3.SQLITE_CORRUPT:
            return Corrupted(path, "the database file is malformed")
        case sqlite3.SQLITE_CANTOPEN:
            if os.path.exists(path) and not os.access(path, os.R_OK):
                return Forbidden(f"{path} cannot be opened (permission denied)")
            if os.path.exists(path) and not os.access(os.path.dirname(os.path.abspath(path)), os.W_OK):
                return _read_only_folder(path)
            return Unavailable(f"{path} cannot be opened", hint=f"Check its folder. {CLOSE_SOME}")
        case sqlite3.SQLITE_IOERR:
            if code == sqlite3.SQLITE_IOERR_WRITE and (limit := _size_limit(path)):
                return StorageFull(f"{path} has reached the limit on file sizes, {limit:,} bytes", hint=_RAISE)
            hint = "Check the disk, then make the same call again."
            return Unavailable(f"reading or writing {path} failed ({error})", hint=hint)
    if isinstance(error, sqlite3.ProgrammingError) and "closed database" in str(error):
        return Closed("the store is closed")
    return Unavailable(f"{path}: {error}", hint="Make the same call again; if it fails again, verify the store.")


def translate_os(error: OSError, path: str) -> ClewError:
    """Translates an error from opening or creating a file of the store."""
    if isinstance(error, PermissionError):
        return ReadOnly(f"{path} cannot be written")
    if error.errno == errno.EROFS:
        return ReadOnly(f"{path} is on a read-only file system")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageFull(f"no space is left for {path}")
    few = error.errno in NO_DESCRIPTOR
    hint = CLOSE_SOME if few else "Check the folder and the disk, then make the same call again."
    return Unavailable(f"{path} cannot be opened: {error.strerror}", hint=hint)


def _size_limit(path: str) -> int:
    """The limit on file sizes if a file of the store has reached it, else 0. SQLite does not say why a write failed."""
    try:
        import resource
    except (ImportError, OSError):  # Windows has none; or no file can be opened
        return 0
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if limit == resource.RLIM_INFINITY:
        return 0
    sizes = [os.stat(name).st_size for name in (path, f"{path}-wal") if os.path.exists(name)]
    return limit if max(sizes, default=0) > limit - _PAGE else 0


def _read_only_folder(path: str) -> ReadOnly:
    """The error for a read-only folder: even a reader needs a file next to the store, the index of the WAL."""
    hint = (
        "Copy the store to a folder that you can write to; or, if no program ever writes to it here, open it with"
        " read_only=True and immutable=True."
    )
    return ReadOnly(f"{path} cannot be read because its folder is read-only", hint=hint)


class Holder(Protocol):
    """An open store."""

    def connections(self) -> tuple[sqlite3.Connection | None, bool, list[sqlite3.Connection]]:
        """The write connection, if any; whether it may be in use; and the idle read-only connections."""


_open: set[ref[Holder]] = set()
_inherited: list[sqlite3.Connection] = []


def register(store: Holder) -> None:
    """Must be called for each opened store."""
    _open.add(ref(store, _open.discard))


def close_inherited() -> None:
    """Closes inherited connections, except those that were in use during the fork.

    Write connections come first: while there are others on the same file, SQLite does not delete the log.
    """
    while _inherited:
        with suppress(sqlite3.Error):
            _inherited.pop(0).close()


def _after_fork() -> None:
    writing: list[sqlite3.Connection] = []
    reading: list[sqlite3.Connection] = []
    for store in filter(None, [known() for known in _open]):
        writer, at_work, readers = store.connections()
        reading += readers
        if writer is not None and at_work:
            _never_close(writer)
        elif writer is not None:
            writing.append(writer)
    _inherited[:] = [*writing, *reading]


def _never_close(conn: sqlite3.Connection) -> None:
    """Prevents the connection from being closed, even at exit: that would roll back a transaction of the parent."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(conn))


atexit.register(close_inherited)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
