"""The tool that a conversation was imported from, as people see it."""

from __future__ import annotations

import re

from clew.base.visible import plain
from clew.store.origin import Origin

_PLAIN = re.compile(r"\w[\w.-]*", re.ASCII).fullmatch
"""An id that cannot be taken for an option or for several words: it was read from a file."""


def tool_title(tool: str) -> str:
    """The name of a tool as people read it: `Claude Code`."""
    from clew.sources.registry import sources

    return next((source.title for source in sources() if source.name == tool), plain(tool))


def own_command(origin: Origin) -> str | None:
    """The command that continues a conversation in the tool it was imported from; None if there is none."""
    from clew.sources.registry import sources

    found = next((source for source in sources() if source.name == origin.tool), None)
    return None if found is None or not _PLAIN(origin.id) else found.resume(origin.id)
