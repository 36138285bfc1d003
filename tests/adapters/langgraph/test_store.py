"""`ClewStore`: LangGraph's own tests of its store in memory, and what they do not have."""

from __future__ import annotations

import asyncio
import time

import pytest

pytest.importorskip("langgraph.graph", reason="langgraph is not installed")

from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.base import BaseStore, GetOp, PutOp, SearchOp

import clew
from clew.adapters.langgraph import ClewSaver, ClewStore
from tests.adapters.langgraph.graphs import ask, thread
from tests.adapters.upstream import run_upstream

HOUR, INSTANT = 60, 0.0001
"""Times to live, in minutes."""


def test_upstream(tmp_path):
    """All tests of stores in the sdist of langgraph-checkpoint pass with ours."""
    passed = run_upstream("langgraph", "langgraph_checkpoint", ["test_store.py"], tmp_path, without="no_such_test")
    assert passed == 114


def keys(found):
    return [one.key for one in found]


def test_items_stay(opened):
    """Items are there for a store that is opened later, with the times of their creation and their last change."""
    with opened(ClewStore) as store:
        store.put(("users", "ada"), "food", {"likes": "pizza", "n": 2**70, "deep": [{"é": None}]})
        first = store.get(("users", "ada"), "food")
        store.put(("users", "ada"), "food", {"likes": "pasta"})
        store.put(("users",), "ada/food", {"likes": "nothing"})
        target, key = opened.target, opened.key
    with ClewStore(target, key=key) as store:
        found = store.get(("users", "ada"), "food")
        assert (found.value, found.created_at) == ({"likes": "pasta"}, first.created_at)
        assert found.updated_at > first.updated_at
        assert keys(store.search(("users",))) == ["ada/food", "food"]
        assert keys(store.search(("users", "ad"))) == []
        assert store.list_namespaces() == [("users",), ("users", "ada")]
        store.delete(("users", "ada"), "food")
        assert store.get(("users", "ada"), "food") is None
        assert store.list_namespaces() == [("users",)]
        assert store.store.verify().ok


def test_words_without_an_index(opened):
    """Without vectors a query ranks items by its words; items without them come last, without a score."""
    with opened(ClewStore) as store:
        for number, text in enumerate(("red bicycle", "blue car", "Red car")):
            store.put(("n",), str(number), {"text": text})
        found = store.search(("n",), query="red car")
        assert (found[0].key, found[0].score) == ("2", 1.0)
        assert {one.key: one.score for one in found[1:]} == {"0": 0.5, "1": 0.5}
        assert store.search(("n",), query="plane")[0].score is None


def test_expired_items(opened):
    """An item that has expired is not read or listed, and a sweep deletes it. A read gives it another period."""
    with opened(ClewStore, ttl={"default_ttl": HOUR}) as store:
        store.put(("n",), "gone", {"x": 1}, ttl=INSTANT)
        store.put(("gone",), "gone", {"x": 1}, ttl=INSTANT)
        store.put(("n",), "stays", {"x": 1})
        store.put(("n",), "always", {"x": 1}, ttl=None)
        time.sleep(0.05)
        assert store.get(("n",), "gone") is None
        assert sorted(keys(store.search(()))) == ["always", "stays"]
        assert store.list_namespaces() == [("n",)]
        before = expiry(store, "stays")
        store.get(("n",), "stays")
        store.search(("n",))
        assert expiry(store, "stays") > before
        assert store.sweep_ttl() == 2
        assert store.sweep_ttl() == 0
        assert expiry(store, "always") is None


def expiry(store, key):
    documents = store._documents
    return documents.value(documents.find("item", '["n"]', key))["expires_at"]


def test_a_batch_is_one_transaction(opened):
    """Reads of a batch see what was there before it; if a put cannot be stored, none is."""
    with opened(ClewStore) as store:
        put = PutOp(("n",), "a", {"x": 1})
        assert store.batch([GetOp(("n",), "a"), put, SearchOp(("n",))]) == [None, None, []]
        assert asyncio.run(store.abatch([GetOp(("n",), "a")]))[0].value == {"x": 1}
        with pytest.raises((TypeError, clew.ClewError)):
            store.batch([PutOp(("n",), "b", {"x": 1}), PutOp(("n",), "c", {"x": object()})])
        assert keys(store.search(("n",))) == ["a"]


def test_one_store_for_saver_and_memory(opened):
    """A graph has its threads and its memory in one store, and items of a workspace stay there."""
    with opened(clew.open) as shared:

        def model(state, *, store: BaseStore):
            store.put(("memories",), "last", {"said": state["messages"][-1].text})
            return {"messages": [("ai", f"{len(store.search(('memories',)))} memories")]}

        made = StateGraph(MessagesState)
        made.add_node("model", model)
        made.add_edge(START, "model")
        graph = made.compile(checkpointer=ClewSaver(shared), store=ClewStore(shared))
        graph.invoke(ask("Turin"), thread("t"))
        assert ClewStore(shared).get(("memories",), "last").value == {"said": "Turin"}
        options = {} if opened.key is None else {"key": opened.key}
        with clew.open(opened.target, workspace="other", **options) as other:
            assert ClewStore(other).search(()) == []
            ClewStore(other).put(("memories",), "last", {"said": "Milan"})
        assert ClewStore(shared).get(("memories",), "last").value == {"said": "Turin"}
