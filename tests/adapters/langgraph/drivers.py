"""LangGraph savers for `clew.testing.adapters`: ours, and LangGraph's own."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver

from clew.adapters.langgraph import ClewSaver


class Saver:
    """Threads with a checkpoint for each batch, which has all messages so far."""

    deduplicates = False
    appends = False
    saver: Any

    async def append(self, session: str, texts: Sequence[str], ids: Sequence[str]) -> None:
        config: Any = {"configurable": {"thread_id": session, "checkpoint_ns": ""}}
        found = self.saver.get_tuple(config)
        said = [] if found is None else found.checkpoint["channel_values"]["messages"]
        said = [*said, *(HumanMessage(text, id=id) for text, id in zip(texts, ids, strict=True))]
        state = empty_checkpoint()
        state["channel_values"] = {"messages": said}
        state["channel_versions"] = {"messages": len(said)}
        config = config if found is None else found.config
        self.saver.put(config, state, {"source": "loop", "step": len(said)}, {"messages": len(said)})

    async def read(self, session: str) -> list[str]:
        found = self.saver.get_tuple({"configurable": {"thread_id": session, "checkpoint_ns": ""}})
        return [] if found is None else [one.text for one in found.checkpoint["channel_values"]["messages"]]

    async def delete(self, session: str) -> None:
        self.saver.delete_thread(session)

    def close(self) -> None:
        self._stack.close()

    def __init__(self, path: str) -> None:
        self._stack = ExitStack()
        self.saver = self._stack.enter_context(self.make(path))

    def make(self, path: str) -> Any:
        raise NotImplementedError


class Ours(Saver):
    """`ClewSaver`."""

    def make(self, path: str) -> Any:
        return ClewSaver(path)


class Theirs(Saver):
    """`SqliteSaver`."""

    def make(self, path: str) -> Any:
        return SqliteSaver.from_conn_string(path)


class TheirsOnPostgres(Saver):
    """`PostgresSaver`."""

    def make(self, path: str) -> Any:
        return PostgresSaver.from_conn_string(path)

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.saver.setup()
