"""LangGraph keeps threads and long-term memory in clew: ``graph.compile(checkpointer=ClewSaver("chats.db"))``."""

from __future__ import annotations

from clew.adapters.framework import framework

with framework("langgraph"):
    from clew.adapters.langgraph.saver import ClewSaver
    from clew.adapters.langgraph.store import ClewStore

__all__ = ["ClewSaver", "ClewStore"]
