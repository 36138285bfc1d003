"""Where a session comes from: the tool it was imported from, its id there, and its git branch."""

from __future__ import annotations

from typing import NamedTuple

from clew.store.session import Session


class Origin(NamedTuple):
    """What an import noted of a session; empty for one that was made in clew."""

    tool: str = ""
    """The name of the source: `claude-code`."""
    id: str = ""
    branch: str = ""


def origin_of(session: Session) -> Origin:
    """The origin of a session. Corrupted if its data is damaged."""
    noted, root = session.extra.get("source"), session.extra.get("clew.cpeconvo")
    if isinstance(root, str):
        return Origin("cpe", root)
    if not isinstance(noted, dict):
        return Origin()
    return Origin(*(value if isinstance(value := noted.get(name), str) else "" for name in Origin._fields))
