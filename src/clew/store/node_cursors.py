"""Cursors of the list of nodes: a place in the order of storing, or in the order of time."""

from __future__ import annotations

from clew.errors import Invalid

MOST = 1 << 60
"""The largest cursor: SQLite's integers do not go much further."""


def write_place(ord: int) -> str:
    """The cursor after a node, in the order of storing."""
    return f"n{ord:x}"


def read_place(cursor: str) -> int:
    """The inverse of `write_place`. Raises Invalid."""
    try:
        if cursor != write_place(place := int(cursor[1:], 16)) or not 0 <= place < MOST:
            raise ValueError
        return place
    except (ValueError, TypeError):
        raise _wrong() from None


def write_moment(created: int, ord: int) -> str:
    """The cursor after a node, in the order of time."""
    return f"t{created:x}.{ord:x}"


def read_moment(cursor: str) -> tuple[int, int]:
    """The inverse of `write_moment`. Raises Invalid."""
    try:
        created, ord = (int(part, 16) for part in cursor.removeprefix("t").split("."))
        if cursor != write_moment(created, ord):
            raise ValueError
        return created, ord
    except (ValueError, AttributeError):
        raise _wrong() from None


def _wrong() -> Invalid:
    return Invalid("the cursor is not one of this list", hint="Pass next_cursor unchanged.")
