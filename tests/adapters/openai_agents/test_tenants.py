"""The OpenAI Agents SDK: sessions of two workspaces, and of two databases, stay apart."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("agents.memory", reason="openai-agents is not installed")

import clew
from agents import SQLiteSession
from clew.adapters.openai_agents import ClewSession
from clew.sources.importer import import_item
from clew.sources.items import items
from clew.sources.registry import find
from tests.adapters.tenants import PARTS, UUID, check, workspaces


class Sessions:
    """Sessions by their ids."""

    def __init__(self, store):
        self._store = store

    def write(self, key, text, *, new):
        asyncio.run(ClewSession(key[0], self._store).add_items([{"role": "user", "content": text}]))

    def read(self, key):
        return [one["content"] for one in asyncio.run(ClewSession(key[0], self._store).get_items())]

    def delete(self, key):
        asyncio.run(ClewSession(key[0], self._store).purge())


@pytest.mark.parametrize("seed", range(3))
def test_tenants(opened, seed):
    """No call for one session reaches another one, in any workspace."""
    stores = workspaces(opened)
    check(stores, Sessions, 1, seed=seed, steps=80)
    for store in stores.values():
        store.close()


def write(path, **sessions):
    for name, texts in sessions.items():
        theirs = SQLiteSession(name, path)
        asyncio.run(theirs.add_items([{"role": "user", "content": text} for text in texts]))
        theirs.close()


def load(store, path):
    ((item,), (found,)) = items(str(path)), find([str(path)])
    return import_item(store, found.source, item)


def test_two_databases(opened, tmp_path):
    """Sessions of one name in two databases are two conversations; importing either again changes only that one."""
    with opened(clew.open) as store:
        one, two = tmp_path / "one.db", tmp_path / "two.db"
        write(one, **{"user-1": ["first", "second"]})
        write(two, **{"user-1": ["other"], "user-2": ["alone"]})
        for _ in range(2):
            load(store, one)
            load(store, two)
        write(two, **{"user-1": ["more"]})
        load(store, two)
        shown = sorted([node.text for node in session.path()] for session in store.sessions.list().items)
        assert shown == [["alone"], ["first", "second"], ["other", "more"]]
        assert Sessions(store).read(("user-1",)) == ["first", "second"]
        assert store.verify().ok


def test_a_session_in_the_trash_is_not_imported_again(opened, tmp_path):
    """A session in the trash keeps its name until it is restored: nothing is added, and then nothing is mixed."""
    with opened(clew.open) as store:
        one, two = tmp_path / "one.db", tmp_path / "two.db"
        write(one, **{"user-1": ["first"]})
        write(two, **{"user-1": ["other"]})
        load(store, one)
        session = store.sessions.latest()
        session.trash()
        write(one, **{"user-1": ["second"]})
        load(store, one)
        load(store, two)
        assert store.sessions.list().items == []
        store.sessions.restore(session.id)
        load(store, one)
        load(store, two)
        shown = sorted([node.text for node in one.path()] for one in store.sessions.list().items)
        assert shown == [["first", "second"], ["other"]]


def test_two_databases_after_a_purge(opened, tmp_path):
    """When the session of one database was purged, the other database continues its own, and stores nothing twice."""
    with opened(clew.open) as store:
        one, two = tmp_path / "one.db", tmp_path / "two.db"
        write(one, **{"user-1": ["first"]})
        write(two, **{"user-1": ["other"]})
        load(store, one)
        load(store, two)
        asyncio.run(ClewSession("user-1", store).purge())
        write(two, **{"user-1": ["more"]})
        load(store, two)
        assert [[node.text for node in one.path()] for one in store.sessions.list().items] == [["other", "more"]]
        assert Sessions(store).read(("user-1",)) == []


def test_imported_names(opened, tmp_path):
    """Sessions whose names look alike, also two forms of one UUID, are imported and found apart."""
    stores = workspaces(opened, ("", "two"))
    names = ["", UUID.replace("-", ""), *PARTS]
    write(tmp_path / "theirs.db", **{name: [f"text of {name}"] for name in names})
    assert load(stores[""], tmp_path / "theirs.db").failed is None
    stored = [("", (name,), [f"text of {name}"]) for name in names]
    check(stores, Sessions, 1, seed=1, steps=60, stored=stored)
    for store in stores.values():
        store.close()
