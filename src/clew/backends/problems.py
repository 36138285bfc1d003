"""Damage that a backend finds in its storage, outside the rows."""

from __future__ import annotations

import sqlite3
import struct
from typing import NamedTuple

BROKEN = (sqlite3.Error, OverflowError, UnicodeDecodeError)
"""Errors from reading a malformed file. UnicodeDecodeError: the driver cannot decode its own message."""
ODD = (TypeError, ValueError, OverflowError, struct.error)
"""Errors that a value of a wrong type in a row causes. Arguments are checked before a transaction begins, and stored
values were valid when they were written. So inside a transaction these errors mean damage."""


class Problem(NamedTuple):
    """Damage in the file, the log, the schema, the epoch row or the counters."""

    what: str
    """The kind: file, wal, schema, epoch or header."""
    where: str
    why: str


def describe(error: Exception) -> str:
    """The driver's message, without stored text that it could not decode."""
    message = str(error)
    return "its text is not valid UTF-8" if "UTF-8" in message else f"it cannot be read: {message}"
