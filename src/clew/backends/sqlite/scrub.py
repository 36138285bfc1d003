"""Proof that a SQLite file holds nothing but live rows, and the removal of what else it holds.

Even with `secure_delete`, moving rows between pages leaves old copies in the parts of pages that nothing uses. This
accounts for every byte of every page, and looks at those that no row and no structure uses: stale if they are not zero.

It is run as a program, `python -I -S scrub.py PATH [--write]`, and prints one line of JSON. It must not run inside a
process that has the database open: closing any descriptor of the file drops SQLite's locks. So it imports nothing of
clew. If the file is not exactly as the format says, nothing is written at all.

With `--write` the stale bytes become zero, in place, under SQLite's own write lock: an orphan of a killed caller is
harmless, because the lock is its own and ends with it. No byte that a reader looks at changes, so readers may go on.
"""

from __future__ import annotations

import errno
import json
import mmap
import os
import sqlite3
import stat
import sys
from contextlib import ExitStack
from urllib.parse import quote

if __package__:
    from clew.backends.sqlite.walk import ZEROS, Refused, Walk
else:  # as a program: nothing of clew can be imported
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    from walk import ZEROS, Refused, Walk  # type: ignore[import-not-found,no-redef]

PATIENCE = 5.0
"""Seconds that it waits for SQLite's write lock."""

Report = dict[str, int | str | None]


def scrub(path: str, opened: ExitStack, *, write: bool) -> Report:
    """Looks at the file, and with `write` clears what is stale in it. Never raises: the report has the error.

    The lock lasts until `opened` is closed. That drops the locks of every other connection of the process, too.
    """
    report: Report = dict.fromkeys(("pages", "dirty", "stale", "cleared", "freelist", "wal", "errno"), 0)
    report["error"] = None
    path = os.path.realpath(path)
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise Refused("it is not a file")
        fd = os.open(path, (os.O_RDWR if write else os.O_RDONLY) | os.O_CLOEXEC)
        opened.callback(os.close, fd)
        if not os.fstat(fd).st_size:
            raise Refused("it is empty")
        if write:
            _lock(path, fd, opened)
        _scan(fd, path, opened, write, report)
    except Refused as refused:
        report["error"] = str(refused)
    except OSError as failed:
        report.update(error=failed.strerror or str(failed), errno=failed.errno or errno.EIO)
    return report


def _lock(path: str, fd: int, opened: ExitStack) -> None:
    """Takes SQLite's write lock on this very file."""
    uri = f"file:{quote(os.fsencode(path))}?mode=rw"
    try:
        conn = sqlite3.connect(uri, uri=True, timeout=PATIENCE, isolation_level=None)
        opened.callback(conn.close)
        conn.execute("BEGIN IMMEDIATE")
    except sqlite3.Error as error:
        raise _translate_lock_error(error) from error
    if not os.path.samestat(os.fstat(fd), os.stat(path)):
        raise OSError(errno.EBUSY, "another file has taken its place")


def _translate_lock_error(error: sqlite3.Error) -> Exception:
    """What it means that SQLite does not give the lock."""
    code = error.sqlite_errorcode & 0xFF
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return Refused(str(error))
    numbers = {
        sqlite3.SQLITE_BUSY: errno.EBUSY,
        sqlite3.SQLITE_FULL: errno.ENOSPC,
        sqlite3.SQLITE_READONLY: errno.EROFS,
        sqlite3.SQLITE_PERM: errno.EACCES,
    }
    return OSError(numbers.get(code, errno.EIO), str(error))


def _scan(fd: int, path: str, opened: ExitStack, write: bool, report: Report) -> None:
    report["wal"] = _log_size(path, write)
    data = opened.enter_context(mmap.mmap(fd, 0, access=mmap.ACCESS_READ))
    walk = Walk(data)
    walk.run()
    report.update(pages=walk.pages, freelist=walk.freelist, dirty=len(walk.stale))
    ranges = [
        ((number - 1) * walk.size + start, end - start)
        for number, unused in sorted(walk.stale.items())
        for start, end in unused
    ]
    stale = sum(length - data[at : at + length].count(0) for at, length in ranges)
    report["stale"] = stale
    if write and ranges:
        for at, length in ranges:
            if os.pwrite(fd, ZEROS[:length], at) != length:
                raise OSError(errno.EIO, "a write was cut short")
        _sync(fd)
        report["cleared"] = stale


def _log_size(path: str, write: bool) -> int:
    """The size of the write-ahead log. While it is not empty the file is not to be written."""
    try:
        size = os.stat(f"{path}-wal").st_size
    except FileNotFoundError:
        return 0
    if write and size:
        raise OSError(errno.EBUSY, "not everything that was written is in the file yet")
    return size


def _sync(fd: int) -> None:
    if sys.platform == "darwin":  # fsync there only reaches the drive's cache
        import fcntl

        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fsync(fd)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--write"]):
        sys.exit("usage: scrub.py PATH [--write]")
    code = 1
    try:
        report = scrub(sys.argv[1], ExitStack(), write=len(sys.argv) == 3)
        sys.stdout.write(json.dumps(report) + "\n")
        sys.stdout.flush()
        code = 1 if report["error"] else 0
    finally:
        # Nothing is closed before: a connection that takes itself for the last one would remove the write-ahead log,
        # also that of a process whose locks were dropped because it has copied the file.
        os._exit(code)
