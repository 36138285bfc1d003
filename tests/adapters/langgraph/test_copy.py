"""`ClewSaver.copy_from` again, and `put` of a checkpoint that exists."""

from __future__ import annotations

import gc
import sqlite3
import weakref
from contextlib import closing
from typing import Any

import pytest

pytest.importorskip("langgraph.graph", reason="langgraph is not installed")

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from clew.adapters.langgraph import ClewSaver
from tests.adapters.langgraph.graphs import ask, thread


class Noted(MessagesState):
    notes: str
    """Long enough to be a blob."""


def graph(saver):
    """A graph with a long value beside its messages; it waits for a person when it is asked to."""

    def model(state):
        said = state["messages"][-1].text
        answer = interrupt("sure?") if said == "wait" else said
        return {"messages": [AIMessage(f"You said {answer}.")], "notes": f"{len(state['messages'])} " * 400}

    made = StateGraph(Noted)
    made.add_node("model", model)
    made.add_edge(START, "model")
    return made.compile(checkpointer=saver)


def tuples(saver, name):
    """All that a saver has of a thread."""
    return [
        (one.config, one.checkpoint, one.metadata, one.parent_config, sorted(map(repr, one.pending_writes)))
        for one in saver.list(thread(name))
    ]


def nodes(saver):
    return len(saver.store.nodes.list(limit=1000).items)


def test_put_again(opened):
    """A checkpoint with a large value is stored again, equal or changed, and its values stay."""
    with opened(ClewSaver) as saver:
        state = empty_checkpoint()
        large = {"page": "x" * 2000, "messages": [HumanMessage("a", id="1"), AIMessage("b", id="2")]}
        state["channel_values"], state["channel_versions"] = large, dict.fromkeys(large, 1)
        for step in (0, 0, 1):
            saver.put(thread("t", checkpoint_ns=""), state, {"source": "loop", "step": step}, dict.fromkeys(large, 1))
            found = saver.get_tuple(thread("t"))
            assert found.checkpoint["channel_values"] == large
            assert found.metadata["step"] == step
        assert nodes(saver) == 2
        assert len(list(saver.list(thread("t")))) == 1
        assert saver.store.verify().ok


def test_an_earlier_checkpoint_put_again_stores_no_message(opened):
    """Checkpoints that are stored again in their order leave the conversation and its branches as they were."""
    with opened(ClewSaver) as saver:
        agent = graph(saver)
        for text in ("one", "two", "three"):
            agent.invoke(ask(text), thread("t"))
        before = tuples(saver, "t")
        for one in reversed(list(saver.list(thread("t")))):
            above = one.parent_config or thread("t", checkpoint_ns="")
            saver.put(above, one.checkpoint, one.metadata, one.checkpoint["channel_versions"])
        assert tuples(saver, "t") == before
        assert nodes(saver) == 6
        assert saver.store.sessions.latest().branches() == []
        assert len(saver.store.sessions.latest().path()) == 6


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_second_copy_adds_what_is_new(opened, tmp_path, kind):
    """A copy is repeated after the other saver went on: new checkpoints and writes are added, and nothing twice."""
    with closing(sqlite3.connect(tmp_path / "theirs.db", check_same_thread=False)) as connection:
        theirs = InMemorySaver() if kind == "memory" else SqliteSaver(connection)
        agent = graph(theirs)
        agent.invoke(ask("one"), thread("t"))
        agent.invoke(ask("wait"), thread("t"))  # stops with an interrupt, whose write has a special index
        agent.invoke(ask("other"), thread("u"))
        with opened(ClewSaver) as ours:
            count = len(tuples(theirs, "t")) + len(tuples(theirs, "u"))
            assert ours.copy_from(theirs) == count
            stored = nodes(ours)
            for _ in range(2):
                assert ours.copy_from(theirs) == 0
                assert nodes(ours) == stored
            agent.invoke(Command(resume="yes"), thread("t"))
            new = len(tuples(theirs, "t")) + len(tuples(theirs, "u")) - count
            assert ours.copy_from(theirs, ["t", "u"]) == new > 0
            assert ours.copy_from(theirs) == 0
            assert nodes(ours) == stored + 1
            for name in ("t", "u"):
                assert tuples(ours, name) == tuples(theirs, name)
            assert all(session.branches() == [] for session in ours.store.sessions.list())
            graph(ours).invoke(ask("four"), thread("t"))
            assert len(graph(ours).get_state(thread("t")).values["messages"]) == 6
            assert ours.store.verify().ok


def test_an_interrupted_copy_continues(opened):
    """A copy that failed in the middle is called again, and ends with what one copy gives."""

    class Stops(InMemorySaver):
        left = 4

        def get_tuple(self, config):
            self.left -= 1
            if self.left == 0:
                raise OSError("connection lost")
            return super().get_tuple(config)

    theirs = Stops()
    theirs.left = 10**6
    for text in ("one", "two"):
        graph(theirs).invoke(ask(text), thread("t"))
    with opened(ClewSaver) as ours:
        theirs.left = 4
        with pytest.raises(OSError, match="lost"):
            ours.copy_from(theirs)
        assert ours.copy_from(theirs) == len(tuples(theirs, "t")) - 3
        assert tuples(ours, "t") == tuples(theirs, "t")
        assert nodes(ours) == 4


def test_a_copy_holds_one_checkpoint_at_a_time(opened):
    """The checkpoints of the other saver are not collected: at most two of its values are in memory at once."""

    class Large(str):
        __slots__ = ("__weakref__",)

    alive: weakref.WeakSet[Any] = weakref.WeakSet()
    most = 0

    class Counted(InMemorySaver):
        def _counted(self, found):
            nonlocal most
            found.checkpoint["channel_values"]["notes"] = value = Large(found.checkpoint["channel_values"].get("notes"))
            gc.collect()
            alive.add(value)
            most = max(most, len(alive))
            return found

        def list(self, *args, **options):
            yield from map(self._counted, super().list(*args, **options))

        def get_tuple(self, config):
            return self._counted(super().get_tuple(config))

    theirs = InMemorySaver()
    for number in range(5):
        graph(theirs).invoke(ask("one"), thread(f"t{number}"))
    counted = Counted()
    counted.storage, counted.writes, counted.blobs = theirs.storage, theirs.writes, theirs.blobs
    with opened(ClewSaver) as ours:
        assert ours.copy_from(counted) == 15
    assert most <= 2
