"""Where a session comes from: the tool it was imported from and its version, its id there, and its git branch."""

from __future__ import annotations

import re
from typing import NamedTuple

from clew.engine.node import Node
from clew.engine.session_data import SOURCE
from clew.errors import Corrupted
from clew.store.session import Session

CPE_NOTE = "clew.cpeconvo"
"""Key in the `extra` data of messages imported from CPE for their ids there, and of sessions for that of the root."""
_CPE_ID = re.compile(r"[A-Za-z0-9]{6}")
"""An id as CPE makes them."""


class Origin(NamedTuple):
    """What an import noted of a session; empty for one that was made in clew."""

    tool: str = ""
    """The name of the source: `claude-code`."""
    id: str = ""
    branch: str = ""
    version: str = ""
    """The version of the tool."""


def origin_of(session: Session) -> Origin:
    """The origin of a session. Corrupted if its data is damaged."""
    extra = session.extra
    noted, root = extra.get(SOURCE), extra.get(CPE_NOTE)
    if isinstance(root, str):
        return Origin("cpe", root)
    if not isinstance(noted, dict):
        return Origin()
    return Origin(*(value if isinstance(value := noted.get(name), str) else "" for name in Origin._fields))


def name_of(node: Node) -> str:
    """The short name to show for a message, which commands accept: the id that CPE gave it, or its handle."""
    try:
        given = (node.said.extra or {}).get(CPE_NOTE)
    except Corrupted:
        given = None
    return given if isinstance(given, str) and _CPE_ID.fullmatch(given) else node.handle
