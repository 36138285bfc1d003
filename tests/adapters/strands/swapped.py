"""A plugin of pytest: in Strands' own tests, the repository and the storage in memory are ours."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import strands.storage
import strands.storage.in_memory_storage
from strands.session.session_repository import SessionRepository

from clew.adapters.strands import ClewSessionRepository, ClewStorage


class MemoryRepository(ClewSessionRepository):
    """A repository in memory."""

    def __init__(self) -> None:
        super().__init__(":memory:")


class MemoryStorage(ClewStorage):
    """A storage in memory."""

    def __init__(self, *, search_strategy: Any = None) -> None:
        super().__init__(":memory:")


assert issubclass(MemoryRepository, SessionRepository)
import_module("tests.fixtures.mock_session_repository").MockedSessionRepository = MemoryRepository  # type: ignore[attr-defined]
strands.storage.InMemoryStorage = strands.storage.in_memory_storage.InMemoryStorage = MemoryStorage
