"""Runs `scrub.py` on a store's file, in a separate process."""

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

Found = dict[int, tuple[str, list[tuple[int, int]]]]
"""Pages with stale bytes: see `scrub.py`."""


class Scrubbed(NamedTuple):
    """The result of a scrub."""

    pages: int
    """Pages in the file."""
    dirty: int
    """Pages with stale bytes."""
    stale: int
    """Bytes that are unused and were not zero."""
    cleared: int
    """Stale bytes that are zero now."""
    freelist: int
    """Unused pages."""
    wal: int
    """Bytes in the write-ahead log, which is not scanned."""
    found: Found
    """Without `write`, the pages with stale bytes."""

    @property
    def clean(self) -> bool:
        """True if the file contains only live rows, and the write-ahead log is empty."""
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
    found: Found = {}


def clean(path: str, *, write: bool, keep: Sequence[int] = (), pages: Found | None = None) -> Scrubbed:
    """Finds the stale bytes of the file, and with `write` zeroes them durably.

    With `pages` does so only in these pages, and durably only after `sync`.

    Without `write` it takes no lock: the caller must prevent checkpoints, or the file may look damaged.

    For `write` the caller must have truncated the write-ahead log, and must have no open transaction. The program takes
    SQLite's write lock; readers can continue. It inherits the descriptors `keep`, whose locks last as long as it runs,
    even if this process is killed. A connection with cached pages would write stale bytes back with its next change:
    truncating the log makes other connections drop their caches, and the caller must close its own.

    Corrupted if the file does not have exactly SQLite's format, Unavailable if the write-ahead log is not empty or
    another program keeps writing; then nothing was changed. After any other error, some bytes may be zeroed already;
    live rows are untouched. There is no timeout: it waits a few seconds for the lock, and reads each page once.
    """
    path = os.path.abspath(path)
    how = [] if not write else ["--write"] if pages is None else ["--clear"]
    report = _run([path, *how], keep, b"" if pages is None else msgspec.json.encode(pages))
    return Scrubbed(report.pages, report.dirty, report.stale, report.cleared, report.freelist, report.wal, report.found)


def sync(path: str) -> None:
    """Waits until everything that was written to the file is on disk. Takes no lock."""
    _run([os.path.abspath(path), "--sync"])


def _run(arguments: list[str], keep: Sequence[int] = (), given: bytes = b"") -> _Report:
    """The report of the program. Raises its error."""
    with loading:
        import subprocess

    path = arguments[0]
    if not sys.executable or getattr(sys, "frozen", False):
        raise Unavailable(f"cleaning {path} needs a Python interpreter", hint="Run clew with Python.")
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", _PROGRAM, *arguments],
            input=given,
            capture_output=True,
            check=False,
            pass_fds=keep,
        )
        report = msgspec.json.decode(done.stdout, type=_Report)
    except OSError as error:
        raise Unavailable(
            f"{sys.executable} cannot be run ({error.strerror})", hint="Make the same call again."
        ) from error
    except msgspec.DecodeError:
        why = f"the process exited with {done.returncode}"
        raise Unavailable(f"scanning {path} failed: {why}", hint="Make the same call again.") from None
    if report.error is not None:
        raise _translate_report(report, path)
    return report


def _translate_report(report: _Report, path: str) -> ClewError:
    """Translates the error in a report of the program."""
    why = report.error or ""
    match report.errno:
        case 0:
            return Corrupted(path, why)
        case errno.ENOENT:
            return NotFound("store", path, hint="Check the path.")
        case errno.EBUSY:
            return Unavailable(f"{path} is busy: {why}", hint="Make the same call again.")
        case number if number in _FULL:
            return StorageFull(f"no space is left for {path}")
        case number if number in _FORBIDDEN:
            return ReadOnly(f"{path} cannot be written")
    return Unavailable(
        f"reading or writing {path} failed ({why})", hint="Check the disk, then make the same call again."
    )
