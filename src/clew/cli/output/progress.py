"""Progress of a long command: one line on stderr, only on a terminal."""

from __future__ import annotations

import os
import sys
import time
from typing import Self

from clew.cli.output.text import is_terminal

QUIET = 0.3
"""Seconds before anything is shown; quick commands show no progress."""


class ProgressLine:
    """A progress line, updated by calls with the work done and the total; erased at the end.

    With `in_bytes` it also says how many bytes are done.
    """

    def __init__(self, doing: str, *, in_bytes: bool = False) -> None:
        self._doing = doing
        self._in_bytes = in_bytes
        self._shown = False
        self._next = time.monotonic() + QUIET
        self._on = (
            is_terminal(sys.stderr) and os.environ.get("TERM") != "dumb"
        )  # a dumb terminal cannot overwrite a line

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if not self._on or now < self._next:
            return
        self._shown, self._next = True, now + 0.1
        share = f" {min(100, 100 * done // total):3} %" if total else ""
        if self._in_bytes and total:
            share = f" {_bar(done / total)}{share}  {size(done)} of {size(total)}"
        sys.stderr.write(f"\r\x1b[K{self._doing}{share}")
        sys.stderr.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def size(count: int) -> str:
    """A number of bytes, as people read it: `3.4 MB`."""
    value = float(count)
    for unit in ("bytes", "KB", "MB", "GB"):
        if value < 1000:
            return f"{count} byte{'s' * (count != 1)}" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def _bar(share: float) -> str:
    full = min(20, int(20 * share))
    return f"[{'#' * full}{'.' * (20 - full)}]"
