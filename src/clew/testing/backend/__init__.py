"""The contract of a backend, as tests."""

from __future__ import annotations

from clew.testing.backend.appending import Appending, Lasting
from clew.testing.backend.deleting import Beside, Deleting
from clew.testing.backend.reading import Reading
from clew.testing.backend.tree import Moving, Tree
from clew.testing.backend.watch import Watching

__all__ = ["BackendConformance"]


class BackendConformance(Appending, Reading, Moving, Tree, Deleting, Beside, Watching, Lasting):
    """The contract of a backend. Subclass it, and provide the fixture `open_store`: an `OpenStore`."""
