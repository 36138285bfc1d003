"""A plugin of pytest: in Chainlit's own tests of its data layer on SQLite, the layer is ours."""

from __future__ import annotations

import json
from typing import Any

import chainlit.data.sql_alchemy

from clew.adapters.chainlit import ClewDataLayer


class MemoryLayer(ClewDataLayer):
    """A data layer in memory."""

    def __init__(self, conninfo: str, storage_provider: Any = None) -> None:
        super().__init__(":memory:")

    async def execute_sql(self, query: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        """What the tests look up in the table of threads, read through the layer."""
        thread = await self.get_thread(parameters["id"])
        return [] if thread is None else [{"metadata": json.dumps(thread["metadata"]), "name": thread["name"]}]


chainlit.data.sql_alchemy.SQLAlchemyDataLayer = MemoryLayer
