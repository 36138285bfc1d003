"""`Damage`: one finding of a check."""

from __future__ import annotations

from typing import NamedTuple


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
