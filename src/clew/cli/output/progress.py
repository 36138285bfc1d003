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
    """A progress line, updated by calls with the work done and the total; erased at the end."""

    def __init__(self, doing: str) -> None:
        self._doing = doing
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
        sys.stderr.write(f"\r\x1b[K{self._doing}{share}")
        sys.stderr.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
