"""LlamaIndex: chats keep to their own key and workspace."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("llama_index.core", reason="llama-index-core is not installed")

from llama_index.core.llms import ChatMessage

import clew
from clew.adapters.llama_index import ClewChatStore, ClewDBChatStore
from tests.adapters.tenants import check, workspaces


class Chats:
    """Chats of `ClewChatStore`, deleted as LlamaIndex deletes them."""

    def __init__(self, store):
        self._chats = ClewChatStore(store)

    def write(self, key, text, *, new):
        self._chats.add_message(key[0], ChatMessage(role="user", content=text))

    def read(self, key):
        found = [one.content for one in self._chats.get_messages(key[0])]
        assert (key[0] in self._chats.get_keys()) == bool(found)
        return found

    def delete(self, key):
        self._chats.delete_messages(key[0])


class DBChats:
    """Chats of `ClewDBChatStore`, purged."""

    def __init__(self, store):
        self._chats = ClewDBChatStore(store)

    def write(self, key, text, *, new):
        asyncio.run(self._chats.add_message(key[0], ChatMessage(role="user", content=text)))

    def read(self, key):
        found = [one.content for one in asyncio.run(self._chats.get_messages(key[0]))]
        assert (key[0] in asyncio.run(self._chats.get_keys())) == bool(found)
        return found

    def delete(self, key):
        asyncio.run(self._chats.purge(key[0]))


@pytest.mark.parametrize("kind", [Chats, DBChats])
def test_tenants(opened, kind):
    """No call for one chat reaches another one, in any workspace."""
    stores = workspaces(opened)
    check(stores, kind, 1, seed=1, steps=80)
    for store in stores.values():
        store.close()


def test_a_label_of_another_program(opened):
    """A session that is no chat does not disturb the list of keys, though it has the label of chats."""
    with opened(clew.open) as store:
        chats = ClewChatStore(store)
        chats.add_message("a", ChatMessage(role="user", content="hello"))
        store.sessions.create(labels=["llama-index"], extra={"llama-index": {"at": [None, 1], "runs": [["active", 1]]}})
        assert chats.get_keys() == ["a"]
