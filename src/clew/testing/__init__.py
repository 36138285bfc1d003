"""Conformance tests for backends, and a clock and ids that a test controls.

`BackendConformance` is a class for pytest. A backend's tests subclass it and provide one fixture::

    class TestMine(BackendConformance):
        @pytest.fixture
        def open_store(self, tmp_path):
            return lambda **settings: clew.open(tmp_path / "chats.db", **settings)

Each test checks one sentence of the contract and uses only the public API of a store. pytest is needed only to run
them.
"""

from __future__ import annotations

from clew.testing.backend import BackendConformance
from clew.testing.contract import FakeClock, OpenStore, SequentialIds

__all__ = ["BackendConformance", "FakeClock", "OpenStore", "SequentialIds"]
