"""LangGraph: threads, namespaces, checkpoints and writes keep to their own workspace and thread."""

from __future__ import annotations

import pytest

pytest.importorskip("langgraph.graph", reason="langgraph is not installed")

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver

import clew
from clew.adapters.keyed import Keyed
from clew.adapters.langgraph import ClewSaver
from clew.sources.importer import import_item
from clew.sources.items import items
from clew.sources.registry import find
from tests.adapters.langgraph.graphs import thread
from tests.adapters.tenants import PARTS, check, workspaces


class Threads:
    """Threads with a subgraph. All tenants have the same ids of checkpoints, tasks and messages."""

    def __init__(self, store):
        self._saver = ClewSaver(store)

    def write(self, key, text, *, new):
        for ns in ("", "child:1"):
            before = self._saver.get_tuple(thread(key[0], checkpoint_ns=ns))
            assert (before is None) == new
            said = [] if new else before.checkpoint["channel_values"]["messages"]
            state = {**empty_checkpoint(), "id": f"{len(said):04}"}
            state["channel_values"] = {"messages": [*said, HumanMessage(text, id=str(len(said)))]}
            state["channel_versions"] = {"messages": len(said) + 1}
            config = thread(key[0], checkpoint_ns=ns, **({} if new else {"checkpoint_id": before.checkpoint["id"]}))
            config = self._saver.put(config, state, {"source": "loop", "step": len(said)}, state["channel_versions"])
            self._saver.put_writes(config, [("note", text)], "task")

    def read(self, key):
        found = [self._saver.get_tuple(thread(key[0], checkpoint_ns=ns)) for ns in ("", "child:1")]
        if found == [None, None]:
            assert list(self._saver.list(thread(key[0]))) == []
            return None
        texts = [[one.text for one in state.checkpoint["channel_values"]["messages"]] for state in found]
        assert texts[0] == texts[1]
        assert [state.pending_writes for state in found] == [[("task", "note", texts[0][-1])]] * 2
        listed = [one.config["configurable"]["thread_id"] for one in self._saver.list(thread(key[0]))]
        assert listed == [key[0]] * (2 * len(texts[0]))
        return texts[0]

    def delete(self, key):
        self._saver.delete_thread(key[0])


@pytest.mark.parametrize("seed", range(2))
def test_tenants(opened, seed):
    """No call for one thread reaches another one, in any workspace; writes of one are never taken for another's."""
    stores = workspaces(opened)
    check(stores, Threads, 1, seed=seed, steps=60)
    for store in stores.values():
        store.close()


KEYS = [(name, "") for name in PARTS] + [("a", "b"), ("a", "b/c"), ("a/b", "c"), ("a/b", "child:1"), ("A", "b")]
"""Threads and namespaces that give the same text when joined."""


def test_imported_threads(opened, tmp_path):
    """Threads and namespaces whose names look alike are imported and found apart."""
    path = tmp_path / "theirs.db"
    with SqliteSaver.from_conn_string(str(path)) as theirs:
        for key in KEYS:
            state = {**empty_checkpoint(), "channel_values": {"messages": [HumanMessage(f"text of {key}")]}}
            theirs.put(thread(key[0], checkpoint_ns=key[1]), state, {}, {})
    ((item,), (found,)) = items(str(path)), find([str(path)])
    with opened(clew.open) as store:
        done = import_item(store, found.source, item)
        assert (done.failed, done.skipped, done.notes) == (None, (), ())
        keyed = Keyed(store, "langgraph", {})
        for name, ns in KEYS:
            names = (name, ns) if ns else (name,)
            found = store.read(lambda unit: keyed.session(unit, *names, subagent=bool(ns)))
            assert [node.text for node in found.path()] == [f"text of {(name, ns)}"]
        ClewSaver(store).delete_thread("a")
        left = {node.text for node in store.nodes.list(limit=100).items}
        assert left == {f"text of {key}" for key in KEYS if key[0] != "a"}
        assert store.verify().ok
