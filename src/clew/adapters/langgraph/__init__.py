"""LangGraph keeps its threads in clew: ``graph.compile(checkpointer=ClewSaver("chats.db"))``."""

from __future__ import annotations

from clew.adapters.framework import framework

with framework("langgraph"):
    from clew.adapters.langgraph.saver import ClewSaver

__all__ = ["ClewSaver"]
