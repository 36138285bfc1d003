"""A chat in a CPE file: it runs in a store in memory, and each message is written to the file as it is stored."""

from __future__ import annotations

import clew
from clew.agents.cpe import CpeFile, CpeView


class CpeSaver:
    """Writes what a chat stores in the view of a file to the file."""

    def __init__(self, file: CpeFile, view: CpeView) -> None:
        self.file = file
        self.store = view.store
        self.last: str | None = None
        """The id in the file of the last message that was written."""
        self._ids: dict[str, str] = {node: id for id, node in view.ids.items()}

    def save(self, session: clew.Session) -> None:
        """Writes the messages of the session that are not in the file, in one transaction."""
        nodes = session.path()
        known = next((at for at in reversed(range(len(nodes))) if nodes[at].id in self._ids), -1)
        new = nodes[known + 1 :]
        saved = self.file.save(session, new, parent=self._ids[nodes[known].id] if known >= 0 else None)
        for node, id in zip(new, saved, strict=True):
            if id is not None:
                self._ids[node.id] = self.last = id
