"""Damage: what a backend finds in its storage outside the rows, and one finding of a check."""

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


class Damage(NamedTuple):
    """One part of the store that differs from what was written."""

    what: str
    """Its kind: node, run, tree, session, branch, label, log, blob, header, schema, file, wal, search, …"""
    where: str
    """Which one."""
    why: str
    """What is wrong with it; never any content."""
    session: str | None = None
    """The id of a session that has it, if one can be found."""
    position: int | None = None
    """Which message of that session, counted from 0 at the root."""
