"""A plugin of pytest: in the SDK's own tests, `InMemorySessionStore` is `ClewSessionStore` on a store in memory."""

from __future__ import annotations

from typing import Any

import claude_agent_sdk
import claude_agent_sdk._internal.session_store

from clew.adapters.claude import ClewSessionStore


class Swapped(ClewSessionStore):
    """With the methods that the SDK's store has for tests."""

    def __init__(self) -> None:
        super().__init__(":memory:")

    def get_entries(self, key: Any) -> list[Any]:
        """The entries of a transcript."""
        return self._load(key) or []

    @property
    def size(self) -> int:
        """The number of main transcripts."""
        return len(self.store.sessions.list().items)


claude_agent_sdk.InMemorySessionStore = Swapped  # type: ignore[misc, unused-ignore]
claude_agent_sdk._internal.session_store.InMemorySessionStore = Swapped  # type: ignore[misc, unused-ignore]
