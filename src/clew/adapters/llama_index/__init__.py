"""LlamaIndex keeps chats in clew."""

from __future__ import annotations

from clew.adapters.llama_index.stores import ClewChatStore, ClewDBChatStore

__all__ = ["ClewChatStore", "ClewDBChatStore"]
