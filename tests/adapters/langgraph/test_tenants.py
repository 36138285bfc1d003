"""LangGraph: threads, namespaces, checkpoints and writes keep to their own workspace and thread."""

from __future__ import annotations

import pytest

pytest.importorskip("langgraph.graph", reason="langgraph is not installed")

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint

from clew.adapters.langgraph import ClewSaver
from tests.adapters.langgraph.graphs import thread
from tests.adapters.tenants import check, workspaces


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
