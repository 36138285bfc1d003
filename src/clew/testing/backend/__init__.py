"""The contract of a backend, as tests."""

from __future__ import annotations

from clew.testing.backend.reading import Moving, Reading, Tree, Watching
from clew.testing.backend.writing import Appending, Beside, Deleting, Lasting

__all__ = ["BackendConformance"]


class BackendConformance(Appending, Reading, Moving, Tree, Deleting, Beside, Watching, Lasting):
    """The contract of a backend. Subclass it, and provide the fixture `open_store`: an `OpenStore`."""
