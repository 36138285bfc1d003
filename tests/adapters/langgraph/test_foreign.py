"""Messages of other programs in a session: `tests.adapters.foreign`."""

from __future__ import annotations

import pytest

pytest.importorskip("langgraph.graph", reason="langgraph is not installed")

import clew
from clew.adapters.langgraph import ClewSaver
from tests.adapters.foreign import TABLE
from tests.adapters.langgraph.graphs import agent, ask, thread


def test_messages_of_other_programs(tmp_path):
    """They are no part of the state of a thread, also for a saver that is opened later, and stay as a branch."""
    with clew.open(tmp_path / "chats.db") as store:
        agent(ClewSaver(store)).invoke(ask("first"), thread("t"))
        for case in TABLE.values():
            store.sessions.latest().append(case.message)
        graph = agent(ClewSaver(store))
        graph.invoke(ask("second"), thread("t"))
        said = [one.type for one in graph.get_state(thread("t")).values["messages"]]
        assert said == ["human", "ai", "tool", "ai"] * 2
        assert [node.role for node in store.sessions.latest().path()] == ["user", "assistant", "tool", "assistant"] * 2
        assert len(store.sessions.latest().branches()) == 1
        assert store.verify().ok
