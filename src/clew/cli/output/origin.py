"""The tool that a conversation was imported from, as people see it."""

from __future__ import annotations

from clew.base.visible import plain
from clew.store.origin import Origin


def tool_title(tool: str) -> str:
    """The name of a tool as people read it: `Claude Code`."""
    from clew.sources.registry import title_of

    return plain(title_of(tool))


def own_command(origin: Origin) -> str | None:
    """The command that continues a conversation in the tool it was imported from; None if there is none."""
    from clew.sources.registry import resume_elsewhere

    return resume_elsewhere(origin.tool, origin.id)
