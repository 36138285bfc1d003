"""History providers of Agent Framework for `clew.testing.adapters`: ours, and the framework's own in files."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent_framework import Content, FileHistoryProvider, Message

from clew.adapters.agent_framework import ClewHistoryProvider


class Histories:
    """A provider; messages have ids, as a service gives them."""

    deduplicates = False
    provider: Any

    async def append(self, session: str, texts: Sequence[str], ids: Sequence[str]) -> None:
        messages = [
            Message("user", [Content.from_text(text)], message_id=id) for text, id in zip(texts, ids, strict=True)
        ]
        await self.provider.save_messages(session, messages)

    async def read(self, session: str) -> list[str]:
        return [one.text for one in await self.provider.get_messages(session)]

    def close(self) -> None:
        pass


class Ours(Histories):
    """`ClewHistoryProvider`."""

    def __init__(self, path: str) -> None:
        self.provider = ClewHistoryProvider(path)

    async def delete(self, session: str) -> None:
        await self.provider.purge(session)

    def close(self) -> None:
        self.provider.close()


class Theirs(Histories):
    """`FileHistoryProvider`, in the folder of the file."""

    def __init__(self, path: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is experimental
            self.provider = FileHistoryProvider(Path(path).parent)

    async def delete(self, session: str) -> None:
        raise NotImplementedError("it has no way to delete")
