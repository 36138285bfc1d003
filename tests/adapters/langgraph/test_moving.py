"""`clew import` of a database that LangGraph itself wrote."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

pytest.importorskip("langgraph.checkpoint.sqlite", reason="langgraph-checkpoint-sqlite is not installed")

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph

import clew
from clew.sources.importer import import_item
from clew.sources.items import items
from clew.sources.registry import find

CALL = {"name": "weather", "args": {"city": "Turin"}, "id": "c"}


def answer(state):
    last = state["messages"][-1]
    if isinstance(last, ToolMessage):
        return {"messages": [AIMessage(f"It is {last.text}.")]}
    used = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
    return {"messages": [AIMessage("", tool_calls=[CALL], usage_metadata=used)]}


def test_moving_over(tmp_path):
    """A thread in LangGraph's own saver is read as a conversation, with a branch where it continued earlier."""
    graph = StateGraph(MessagesState)
    graph.add_node("model", answer)
    graph.add_edge(START, "model")
    thread = {"configurable": {"thread_id": "trip"}}
    with closing(sqlite3.connect(tmp_path / "theirs.db", check_same_thread=False)) as connection:
        agent = graph.compile(checkpointer=SqliteSaver(connection))
        agent.invoke({"messages": [HumanMessage("Weather?")]}, thread)
        early = agent.get_state(thread).config
        agent.invoke({"messages": [ToolMessage("sunny", tool_call_id="c")]}, thread)
        agent.invoke({"messages": [ToolMessage("rainy", tool_call_id="c")]}, early)
    ((item,), (found,)) = items(str(tmp_path / "theirs.db")), find([str(tmp_path / "theirs.db")])
    assert found.source.name == "langgraph"
    with clew.open(tmp_path / "ours.db") as store:
        assert import_item(store, found.source, item).skipped == ()
        session = store.sessions.latest()
        assert [node.role for node in session.path()] == ["user", "assistant", "tool", "assistant"]
        assert session.path()[-1].text == "It is rainy."
        assert session.path()[1].message.usage.input == 5
        (branch,) = session.branches()
        assert store.nodes.get(branch.head_id)[0].text == "It is sunny."
        assert session.title == "Weather?"
