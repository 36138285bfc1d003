"""Runs `scrub.py` on a store's file, in a process of its own."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from clew.base.loading import loading
from clew.errors import ClewError, Corrupted, NotFound, ReadOnly, StorageFull, Unavailable

_PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scrub.py")
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


class Scrubbed(NamedTuple):
    """What was found in a file, and done about it."""

    pages: int
    """Pages the file has."""
    dirty: int
    """Pages with bytes that nothing uses and that are not zero."""
    stale: int
    """Such bytes."""
    cleared: int
    """Such bytes that are zero now."""
    freelist: int
    """Pages that nothing uses."""
    wal: int
    """Bytes in the write-ahead log, which is not looked at."""

    @property
    def clean(self) -> bool:
        """True if the file holds live rows alone, and nothing waits in the write-ahead log."""
        return self.stale == self.cleared and not self.wal


class _Report(msgspec.Struct):
    pages: int
    dirty: int
    stale: int
    cleared: int
    freelist: int
    wal: int
    errno: int
    error: str | None


def clean(path: str, *, write: bool, keep: Sequence[int] = ()) -> Scrubbed:
    """Looks at every byte of the file that no live row uses, and with `write` makes it zero, durably.

    For `write` the caller has truncated the write-ahead log and has no transaction open; the program takes SQLite's
    write lock, and readers may go on. It also holds the descriptors `keep`: locks on them last as long as it runs,
    even if this process is killed. A connection with pages of the file in memory would write stale bytes back with
    its next change. Truncating the log makes all others drop theirs; the caller closes its own.

    Corrupted if the file is not exactly as SQLite's format says, Unavailable if the write-ahead log is not empty or
    another program keeps writing; then nothing was changed. After any other error what was cleared so far stays so,
    and live rows are untouched. There is no time limit: it waits a few seconds for the lock, and takes each page once.
    """
    path = os.path.abspath(path)
    report = _run([path, "--write"] if write else [path], keep)
    if report.error is not None:
        raise _translate_report(report, path)
    return Scrubbed(report.pages, report.dirty, report.stale, report.cleared, report.freelist, report.wal)


def _run(arguments: list[str], keep: Sequence[int]) -> _Report:
    with loading:
        import subprocess

    path = arguments[0]
    if not sys.executable or getattr(sys, "frozen", False):
        raise Unavailable(f"there is no Python to look at {path} with", hint="Run clew with a Python interpreter.")
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", _PROGRAM, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            pass_fds=keep,
        )
        return msgspec.json.decode(done.stdout, type=_Report)
    except OSError as error:
        raise Unavailable(
            f"{sys.executable} cannot be run ({error.strerror})", hint="Make the same call again."
        ) from error
    except msgspec.DecodeError:
        why = f"the process ended with {done.returncode}"
        raise Unavailable(f"looking at {path} failed: {why}", hint="Make the same call again.") from None


def _translate_report(report: _Report, path: str) -> ClewError:
    """The error of clew's that tells what the program has said."""
    why = report.error or ""
    match report.errno:
        case 0:
            return Corrupted(path, why)
        case errno.ENOENT:
            return NotFound("store", path, hint="Check the path.")
        case errno.EBUSY:
            return Unavailable(f"{path} is kept busy: {why}", hint="Make the same call again.")
        case number if number in _FULL:
            return StorageFull(f"no space is left for {path}")
        case number if number in _FORBIDDEN:
            return ReadOnly(f"{path} cannot be written")
    return Unavailable(
        f"reading or writing {path} failed ({why})", hint="Check the disk, then make the same call again."
    )
