"""Damage that a backend finds in its storage, outside of the rows."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

BROKEN = (sqlite3.Error, OverflowError, UnicodeDecodeError)
"""Errors of reading a malformed file; the last one if the driver cannot decode its own message."""


class Problem(NamedTuple):
    """Damage of the file, the log, the schema, the epoch row or the counters."""

    what: str
    """The kind: file, wal, schema, epoch or header."""
    where: str
    why: str


def describe(error: Exception) -> str:
    """The driver's message, without the text that it could not read."""
    message = str(error)
    return "its text is not valid UTF-8" if "UTF-8" in message else f"it cannot be read: {message}"
