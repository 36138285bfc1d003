"""The contract of a backend, as tests."""

from __future__ import annotations

from clew.testing.backend.appending import Appending
from clew.testing.backend.attachments import Beside
from clew.testing.backend.deleting import Deleting
from clew.testing.backend.durability import Lasting
from clew.testing.backend.forks import Moving
from clew.testing.backend.reading import Reading
from clew.testing.backend.tree import Tree
from clew.testing.backend.watch import Watching

__all__ = ["BackendConformance"]


class BackendConformance(Appending, Reading, Moving, Tree, Deleting, Beside, Watching, Lasting):
    """The contract of a backend. Subclass it, and provide the fixture `open_store`: an `OpenStore`."""
