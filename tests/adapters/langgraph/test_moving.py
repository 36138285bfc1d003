"""`clew import` of a database that LangGraph itself wrote."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from types import SimpleNamespace

import pytest

pytest.importorskip("langgraph.checkpoint.sqlite", reason="langgraph-checkpoint-sqlite is not installed")

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph

import clew
from clew.adapters.langgraph import ClewSaver
from clew.sources.importer import import_item
from clew.sources.items import items
from clew.sources.registry import find
from tests.adapters.commands import run_clew
from tests.adapters.databases import databases

THREAD = {"configurable": {"thread_id": "trip", "checkpoint_ns": ""}}
CALL = {"name": "weather", "args": {"city": "Turin"}, "id": "c"}


def answer(state):
    last = state["messages"][-1]
    if isinstance(last, ToolMessage):
        return {"messages": [AIMessage(f"It is {last.text}.")]}
    used = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
    return {"messages": [AIMessage("", tool_calls=[CALL], usage_metadata=used)]}


def agent(saver):
    graph = StateGraph(MessagesState)
    graph.add_node("model", answer)
    graph.add_edge(START, "model")
    return graph.compile(checkpointer=saver)


def talk(saver):
    """A thread with a branch, where it continued from an earlier checkpoint."""
    graph = agent(saver)
    graph.invoke({"messages": [HumanMessage("Weather?")]}, THREAD)
    early = graph.get_state(THREAD).config
    graph.invoke({"messages": [ToolMessage("sunny", tool_call_id="c")]}, THREAD)
    graph.invoke({"messages": [ToolMessage("rainy", tool_call_id="c")]}, early)


def expect_conversation(store):
    session = store.sessions.latest()
    assert [node.role for node in session.path()] == ["user", "assistant", "tool", "assistant"]
    assert session.path()[-1].text == "It is rainy."
    assert session.path()[1].message.usage.input == 5
    (branch,) = session.branches()
    assert store.nodes.get(branch.head_id)[0].text == "It is sunny."
    assert session.title == "Weather?"


def continues(store, theirs):
    """After a copy of the checkpoints our saver has what LangGraph's own returned, and the thread continues."""
    ours = ClewSaver(store)
    assert ours.get_tuple(THREAD) is None
    assert ours.copy_from(theirs, ["trip"]) == len(list(theirs.list(THREAD)))
    for one in theirs.list(THREAD):
        same = ours.get_tuple(one.config)
        assert (same.checkpoint, same.metadata, same.parent_config) == (one.checkpoint, one.metadata, one.parent_config)
        assert sorted(map(repr, same.pending_writes)) == sorted(map(repr, one.pending_writes))
    assert len(store.sessions.list().items) == 1
    graph = agent(ours)
    assert graph.get_state(THREAD).values == agent(theirs).get_state(THREAD).values
    graph.invoke({"messages": [ToolMessage("foggy", tool_call_id="c")]}, THREAD)
    assert store.sessions.latest().path()[-1].text == "It is foggy."
    assert len(store.sessions.latest().path()) == 6
    assert store.verify().ok
    with clew.open(":memory:") as empty:
        ClewSaver(empty).copy_from(theirs)
        assert len(empty.nodes.list().items) == 6


def test_moving_over(tmp_path):
    """A thread in LangGraph's own saver is read as a conversation, with a branch where it continued earlier."""
    with closing(sqlite3.connect(tmp_path / "theirs.db", check_same_thread=False)) as connection:
        theirs = SqliteSaver(connection)
        talk(theirs)
        ((item,), (found,)) = items(str(tmp_path / "theirs.db")), find([str(tmp_path / "theirs.db")])
        assert found.source.name == "langgraph"
        with clew.open(tmp_path / "ours.db") as store:
            assert import_item(store, found.source, item).skipped == ()
            expect_conversation(store)
            continues(store, theirs)


def test_moving_over_from_a_server(tmp_path, pg_server):
    """The threads of a PostgreSQL database are imported by its URL, which is read only; no output has the password."""
    url = databases(pg_server).url()
    with PostgresSaver.from_conn_string(url) as theirs:
        theirs.setup()
        talk(theirs)
        ours = SimpleNamespace(target=tmp_path / "ours.db", key=None)
        secret = url.replace("clew@", "clew:hunter2@")
        for _ in range(2):
            done = run_clew(ours, "import", secret)
            assert done.returncode == 0, done.stderr
            assert "hunter2" not in done.stdout + done.stderr
        assert "hunter2" not in run_clew(ours, "import", "--runs").stdout
        with clew.open(tmp_path / "ours.db") as store:
            expect_conversation(store)
            continues(store, theirs)
    assert not [one for one in tmp_path.iterdir() if one.is_file() and b"hunter2" in one.read_bytes()]
    other = databases(pg_server).url().replace("clew@", "clew:hunter2@")
    for wrong in (other, other.replace("/t", "/missing"), "postgresql://clew:hunter2@127.0.0.1:1/x"):
        done = run_clew(ours, "import", wrong)
        assert done.returncode != 0
        assert "hunter2" not in done.stdout + done.stderr
    assert run_clew(ours, "import", "--watch", secret).returncode == 2
