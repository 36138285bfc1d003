"""Checks that a SQLite file contains nothing but live rows, and removes everything else.

Even with `secure_delete`, SQLite leaves old copies in the unused parts of pages when it moves rows. This checks every
byte of every page: unused bytes that are not zero are stale.

It runs as a program, `python -I -S scrub.py PATH [--write|--clear|--sync]`, and prints one line of JSON. It must not
run inside a process that has the database open, because closing any descriptor of the file drops SQLite's locks. So it
imports nothing of clew. If the file does not have exactly the documented format, it writes nothing.

With `--write` it zeroes the stale bytes in place, under SQLite's write lock. If the caller is killed, this process
keeps running safely, because it holds the lock itself. Readers can continue, because no byte that they read changes.

With `--clear` it does so only in the pages that it reads from standard input, as JSON, and leaves the sync to a later
run with `--sync`, for which no writer need wait.
"""

from __future__ import annotations

import errno
import hashlib
import json
import mmap
import os
import sqlite3
import stat
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from urllib.parse import quote

if __package__:
    from clew.backends.sqlite.walk import ZEROS, Refused, Walk
else:  # as a program, it cannot import clew
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    from walk import ZEROS, Refused, Walk  # type: ignore[import-not-found,no-redef]

PATIENCE = 5.0
"""Seconds to wait for SQLite's write lock."""

Found = Mapping[int, tuple[str, list[tuple[int, int]]]]
"""By page, its digest and its unused ranges that are not all zero. The digest is empty if it is unknown."""
Report = dict[str, int | str | Found | None]


def scrub(path: str, opened: ExitStack, *, write: bool, pages: Found | None = None) -> Report:
    """Scans the file, or only these pages, and with `write` zeroes stale bytes; with `pages`, without a sync.

    Does not raise: the report contains the error.

    Holds the lock until `opened` is closed. That also drops the locks of all other connections of the process.
    """
    report = _report()
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
        _scan(fd, path, opened, write, report, pages)
    except Refused as refused:
        report["error"] = str(refused)
    except OSError as failed:
        report.update(error=failed.strerror or str(failed), errno=failed.errno or errno.EIO)
    return report


def sync(path: str) -> Report:
    """Waits until everything that was written to the file is on disk. Does not raise, as `scrub`."""
    report = _report()
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        _sync(fd)
        os.close(fd)
    except OSError as failed:
        report.update(error=failed.strerror or str(failed), errno=failed.errno or errno.EIO)
    return report


def _report() -> Report:
    """An empty report."""
    report: Report = dict.fromkeys(("pages", "dirty", "stale", "cleared", "freelist", "wal", "errno"), 0)
    return {**report, "error": None, "found": {}}


def _lock(path: str, fd: int, opened: ExitStack) -> None:
    """Takes SQLite's write lock on this file."""
    uri = f"file:{quote(os.fsencode(path))}?mode=rw"
    try:
        conn = sqlite3.connect(uri, uri=True, timeout=PATIENCE, isolation_level=None)
        opened.callback(conn.close)
        conn.execute("BEGIN IMMEDIATE")
    except sqlite3.Error as error:
        raise _translate_lock_error(error) from error
    if not os.path.samestat(os.fstat(fd), os.stat(path)):
        raise OSError(errno.EBUSY, "the file was replaced")


def _translate_lock_error(error: sqlite3.Error) -> Exception:
    """Translates an error from taking SQLite's lock."""
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


def _scan(fd: int, path: str, opened: ExitStack, write: bool, report: Report, pages: Found | None) -> None:
    report["wal"] = _log_size(path, write)
    data = opened.enter_context(mmap.mmap(fd, 0, access=mmap.ACCESS_READ))
    walk = Walk(data)
    if pages is None:
        walk.run()
    else:
        known = {number: digest for number, (digest, _) in pages.items() if digest and not walk.is_map(number)}
        same = {number for number, digest in known.items() if digest == _digest(walk, number)}
        walk.visit(pages.keys() - same)
        walk.stale.update({number: pages[number][1] for number in same})
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
                raise OSError(errno.EIO, "a write was incomplete")
        if pages is None:
            _sync(fd)
        report["cleared"] = stale
    if not write:
        report["found"] = {number: (_digest(walk, number), unused) for number, unused in walk.stale.items()}


def _digest(walk: Walk, number: int) -> str:
    """A digest of a page, to notice that it has changed."""
    page = walk.data[(number - 1) * walk.size : number * walk.size]
    return hashlib.blake2b(page, digest_size=16).hexdigest()


def _log_size(path: str, write: bool) -> int:
    """The size of the write-ahead log. Unless it is empty, the file must not be written."""
    try:
        size = os.stat(f"{path}-wal").st_size
    except FileNotFoundError:
        return 0
    if write and size:
        raise OSError(errno.EBUSY, "the write-ahead log is not empty")
    return size


def _sync(fd: int) -> None:
    if sys.platform == "darwin":  # fsync there only reaches the drive's cache
        import fcntl

        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fsync(fd)


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[2:] not in ([], ["--write"], ["--clear"], ["--sync"]):
        sys.exit("usage: scrub.py PATH [--write|--clear|--sync]")
    code = 1
    try:
        how = sys.argv[2:]
        given = {int(number): page for number, page in json.load(sys.stdin).items()} if how == ["--clear"] else None
        if how == ["--sync"]:
            report = sync(sys.argv[1])
        else:
            report = scrub(sys.argv[1], ExitStack(), write=bool(how), pages=given)
        sys.stdout.write(json.dumps(report) + "\n")
        sys.stdout.flush()
        code = 1 if report["error"] else 0
    finally:
        # Exit without closing: a connection that believes it is the last one deletes the write-ahead log, even while
        # another process uses it whose locks were dropped because it has copied the file.
        os._exit(code)
