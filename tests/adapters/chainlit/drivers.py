"""Data layers of Chainlit for `clew.testing.adapters`: ours, and Chainlit's own on SQLite."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("CHAINLIT_APP_ROOT", tempfile.mkdtemp())

from chainlit.context import init_http_context
from chainlit.utils import utc_now

from clew.adapters.chainlit import ClewDataLayer


class Layers:
    """A data layer; each text is a message of a thread."""

    deduplicates = True
    batches = False
    _layer: Any

    async def _open(self) -> Any:
        return self._layer

    async def append(self, session: str, texts: Sequence[str], ids: Sequence[str]) -> None:
        layer = await self._open()
        init_http_context(thread_id=session)
        for id, text in zip(ids, texts, strict=True):
            now = utc_now()
            step = {"id": id, "threadId": session, "name": "bot", "type": "assistant_message", "output": text}
            await layer.create_step({**step, "createdAt": now, "start": now, "end": now, "streaming": False})
            await asyncio.sleep(0.001)  # Chainlit waits as long before each step: its times have milliseconds

    async def read(self, session: str) -> list[str]:
        thread = await (await self._open()).get_thread(session)
        return [] if thread is None else [step["output"] for step in thread["steps"]]

    async def delete(self, session: str) -> None:
        await (await self._open()).delete_thread(session)

    def close(self) -> None:
        pass


class Ours(Layers):
    """`ClewDataLayer`."""

    def __init__(self, path: str) -> None:
        self._layer = ClewDataLayer(path)

    def close(self) -> None:
        self._layer.store.close()


class Theirs(Layers):
    """`SQLAlchemyDataLayer`."""

    def __init__(self, path: str) -> None:
        self._folder, self._layer = str(Path(path).parent), None

    async def _open(self) -> Any:
        from tests.adapters.chainlit.theirs import sql_layer

        if self._layer is None:
            self._layer = await sql_layer(self._folder)
        return self._layer
