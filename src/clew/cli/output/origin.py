"""Where a conversation comes from: the tool it was imported from, its id there, and its git branch."""

from __future__ import annotations

import re
from typing import NamedTuple

import clew
from clew.base.visible import plain

_PLAIN = re.compile(r"\w[\w.-]*", re.ASCII).fullmatch
"""An id that cannot be taken for an option or for several words: it was read from a file."""


class Origin(NamedTuple):
    """What an import noted of a conversation; empty for one that was made in clew."""

    tool: str = ""
    """The name of the source: `claude-code`."""
    id: str = ""
    branch: str = ""


def origin_of(session: clew.Session) -> Origin:
    """The origin of a session. Corrupted if its data is damaged."""
    noted = session.extra.get("source")
    if not isinstance(noted, dict):
        return Origin()
    return Origin(*(value if isinstance(value := noted.get(name), str) else "" for name in Origin._fields))


def tool_title(tool: str) -> str:
    """The name of a tool as people read it: `Claude Code`."""
    from clew.sources.registry import sources

    return next((source.title for source in sources() if source.name == tool), plain(tool))


def own_command(origin: Origin) -> str | None:
    """The command that continues a conversation in the tool it was imported from; None if there is none."""
    from clew.sources.registry import sources

    found = next((source for source in sources() if source.name == origin.tool), None)
    return None if found is None or not _PLAIN(origin.id) else found.resume(origin.id)
