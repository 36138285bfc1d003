"""`ClewSaver`: what LangGraph's suite does not test."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from contextlib import closing
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("langgraph.graph", reason="langgraph is not installed")

from langchain_core.messages import AIMessage, AIMessageChunk, ChatMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command, interrupt

import clew
from clew.adapters.langgraph import ClewSaver
from clew.store.parts import Parts
from tests.adapters.commands import QUESTION, expect_weather
from tests.adapters.langgraph.graphs import agent, ask, echo, thread
from tests.adapters.processes import run_together


def put(saver, name, values, step, *, config=None, run="r1"):
    """Stores a checkpoint with these values, all new."""
    state = empty_checkpoint()
    state["channel_values"] = values
    state["channel_versions"] = dict.fromkeys(values, step)
    config = config or thread(name, checkpoint_ns="")
    return saver.put(config, state, {"source": "loop", "step": step, "run_id": run}, state["channel_versions"])


def test_a_thread_is_a_conversation(opened):
    """A thread is listed as a session, with roles, calls and results, and its words are found."""
    with opened(ClewSaver) as saver:
        agent(saver).invoke(ask("How is the weather?"), thread("t1"))
        (session,) = saver.store.sessions.list().items
        assert session.extra["source"] == {"tool": "langgraph", "id": "t1"}
        roles = [node.role for node in session.path()]
        assert roles == ["user", "assistant", "tool", "assistant"]
        call, result = session.path()[1].message.blocks[0], session.path()[2].message.blocks[0]
        assert (call.name, call.arguments, result.call_id) == ("weather", {"city": "Turin"}, "c1")
        assert [hit.node.id for hit in saver.store.search("sunny")]
        assert saver.store.verify().ok


def test_every_message_comes_back_equal(opened):
    """Messages of every class, and with fields that JSON has no form for, are read back equal."""
    said = [
        SystemMessage("Be brief"),
        HumanMessage([{"type": "text", "text": "what"}, {"type": "image_url", "image_url": {"url": "http://x/y.png"}}]),
        AIMessage("hm", usage_metadata={"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}, name="bot"),
        AIMessageChunk("part"),
        ToolMessage("3", tool_call_id="c", artifact={"exact": Decimal("0.1"), "list": [1, 2]}, status="error"),
        ChatMessage("aside", role="critic"),
        HumanMessage("with bytes", additional_kwargs={"raw": b"\x00\xff"}),
    ]
    with opened(ClewSaver) as saver:
        put(saver, "t", {"messages": said}, 1)
        found = saver.get_tuple(thread("t")).checkpoint["channel_values"]["messages"]
    assert found == said
    assert [type(one) for one in found] == [type(one) for one in said]


def test_messages_that_are_dicts(opened):
    """Plain dicts with role and content are messages too, and come back as dicts."""
    said = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi", "when": Decimal("1.5")}]
    with opened(ClewSaver) as saver:
        put(saver, "t", {"messages": said}, 1)
        assert saver.get_tuple(thread("t")).checkpoint["channel_values"]["messages"] == said
        assert [node.role for node in saver.store.sessions.latest().path()] == ["user", "assistant"]


def test_a_message_changed_in_place_is_stored(opened):
    """A message that a node changes without making a new one is stored as it is now; the old form is a branch."""
    with opened(ClewSaver) as saver:
        said = [HumanMessage("a", id="1"), AIMessage("b", id="2")]
        config = put(saver, "t", {"messages": said}, 1)
        said[1].content += "!"
        put(saver, "t", {"messages": said}, 2, config=config)
        assert saver.get_tuple(thread("t")).checkpoint["channel_values"]["messages"][1].text == "b!"
        assert saver.get_tuple(config).checkpoint["channel_values"]["messages"][1].text == "b"
        assert len(saver.store.sessions.latest().branches()) == 1


def test_time_travel_is_a_branch(opened):
    """A run that continues from an earlier checkpoint is a branch: both answers stay."""
    with opened(ClewSaver) as saver:
        graph = agent(saver)
        graph.invoke(ask("first"), thread("t"))
        graph.invoke(ask("second"), thread("t"))
        early = [state for state in graph.get_state_history(thread("t")) if len(state.values["messages"]) == 4][-1]
        graph.invoke(ask("other"), early.config)
        assert len(saver.store.sessions.latest().path()) == 8
        assert len(saver.store.sessions.latest().branches()) == 1
        texts = {hit.node.message.text for hit in saver.store.search("second")}
        assert texts == {"second"}
        assert saver.store.verify().ok


def test_interrupt_and_resume_in_a_new_process(opened, tmp_path):
    """A graph that waits for a person continues in a saver that was opened later."""
    path = tmp_path / "i.db"

    def confirm(state):
        return {"messages": [AIMessage(f"you said {interrupt('sure?')}")]}

    def graph(saver):
        from langgraph.graph import START, MessagesState, StateGraph

        made = StateGraph(MessagesState)
        made.add_node("confirm", confirm)
        made.add_edge(START, "confirm")
        return made.compile(checkpointer=saver)

    with ClewSaver(path) as saver:
        assert graph(saver).invoke(ask("go"), thread("t"))["__interrupt__"]
    with ClewSaver(path) as saver:
        done = graph(saver).invoke(Command(resume="yes"), thread("t"))
    assert done["messages"][-1].text == "you said yes"


@pytest.mark.parametrize("every", [3, 1000])
def test_delta_channels(opened, every):
    """The value of a delta channel is rebuilt from the writes, also after everything that can go is pruned."""
    with opened(ClewSaver) as saver:
        graph = echo(saver, every)
        for number in range(5):
            graph.invoke(ask(f"say {number}"), thread("t"))
        want = [one.text for one in graph.get_state(thread("t")).values["messages"]]
        assert len(want) == 10
        saver.prune(["t"])
        assert [one.text for one in graph.get_state(thread("t")).values["messages"]] == want
        saver.copy_thread("t", "copy")
        saver.delete_thread("t")
        assert [one.text for one in graph.get_state(thread("copy")).values["messages"]] == want
        graph.invoke(ask("more"), thread("copy"))
        assert len(graph.get_state(thread("copy")).values["messages"]) == 12


def test_a_copy_to_a_thread_with_other_messages_is_refused(opened):
    """Nothing is copied to a thread that has messages of its own; a thread that is a copy takes the rest."""
    with opened(ClewSaver) as saver:
        graph = agent(saver)
        for name in ("a", "b"):
            graph.invoke(ask(name), thread(name))
        before = graph.get_state(thread("b"))
        with pytest.raises(clew.Conflict, match="'b' exists"):
            saver.copy_thread("a", "b")
        assert graph.get_state(thread("b")) == before
        assert saver.store.verify().ok
        saver.copy_thread("a", "c")
        graph.invoke(ask("more"), thread("a"))
        saver.copy_thread("a", "c")
        assert graph.get_state(thread("c")).values == graph.get_state(thread("a")).values


def test_delta_history_is_that_of_the_base_class(tmp_path):
    """The faster walk through the writes returns what LangGraph's own walk returns."""
    from langgraph.checkpoint.base import BaseCheckpointSaver

    with ClewSaver(tmp_path / "c.db") as saver:
        graph = echo(saver, 4)
        for number in range(7):
            graph.invoke(ask(f"say {number}"), thread("t"))
        for state in graph.get_state_history(thread("t")):
            ours = saver.get_delta_channel_history(config=state.config, channels=["messages", "none"])
            theirs = BaseCheckpointSaver.get_delta_channel_history(
                saver, config=state.config, channels=["messages", "none"]
            )
            assert ours == theirs


def test_prune_keeps_the_last_state(opened):
    """After a prune the last state is the same, earlier checkpoints are gone, and so are their branches."""
    with opened(ClewSaver) as saver:
        graph = agent(saver)
        graph.invoke(ask("first"), thread("t"))
        early = next(state for state in graph.get_state_history(thread("t")) if len(state.values["messages"]) == 1)
        graph.invoke(ask("other"), early.config)
        want = graph.get_state(thread("t")).values
        saver.prune(["t"])
        assert graph.get_state(thread("t")).values == want
        assert len(list(saver.list(thread("t")))) == 1
        assert saver.store.sessions.latest().branches() == []
        assert saver.store.verify().ok


def test_bytes_for_each_message_stay_flat(tmp_path):
    """A turn costs as many bytes after 400 turns as after 200; LangGraph's own saver grows with the thread."""

    def cost(make, path):
        sizes = []
        with make(str(path)) as saver:
            said, config = [], thread("t", checkpoint_ns="")
            for number in range(400):
                said = [*said, HumanMessage("x" * 400, id=str(number))]
                config = put(saver, "t", {"messages": said}, number + 1, config=config)
                if number + 1 in (100, 200, 400):
                    with closing(sqlite3.connect(path)) as db:
                        sizes.append(db.execute("PRAGMA page_count").fetchone()[0] * 4096)
        return (sizes[1] - sizes[0]) / 100, (sizes[2] - sizes[1]) / 200

    first, then = cost(ClewSaver, tmp_path / "ours.db")
    assert then < 1.2 * first
    first, then = cost(SqliteSaver.from_conn_string, tmp_path / "theirs.db")
    assert then > 1.8 * first


def test_a_value_is_stored_once(tmp_path):
    """A large value that does not change is stored once, however many checkpoints have it."""
    with ClewSaver(tmp_path / "c.db") as saver:
        document, config = os.urandom(300_000).hex(), thread("t", checkpoint_ns="")
        for number in range(20):
            state = empty_checkpoint()
            state["channel_values"] = {"document": document, "count": number}
            state["channel_versions"] = {"document": 1, "count": number + 1}
            new = {"count": number + 1, **({"document": 1} if number == 0 else {})}
            config = saver.put(config, state, {"source": "loop", "step": number}, new)
        assert saver.get_tuple(config).checkpoint["channel_values"] == {"document": document, "count": 19}
        assert (tmp_path / "c.db-wal").stat().st_size + (tmp_path / "c.db").stat().st_size < 3_000_000


def test_filters_never_become_sql(opened):
    """A key of a filter is compared, whatever it contains."""
    with opened(ClewSaver) as saver:
        put(saver, "t", {"x": 1}, 1)
        evil = "step') = 1 OR 1=1 --"
        assert list(saver.list(None, filter={evil: 1})) == []
        assert len(list(saver.list(None, filter={"step": 1}))) == 1


def test_only_safe_types_are_made(tmp_path):
    """A type that is not on the list is not made from what is stored."""
    from pydantic import BaseModel

    class Note(BaseModel):
        text: str

    with ClewSaver(tmp_path / "c.db") as saver:
        put(saver, "t", {"note": Note(text="x")}, 1)
        assert not isinstance(saver.get_tuple(thread("t")).checkpoint["channel_values"]["note"], Note)


def test_a_subgraph_is_a_trace(opened):
    """Messages of a subgraph with its own checkpoints are the trace of a subagent."""
    from langgraph.graph import START, MessagesState, StateGraph

    with opened(ClewSaver) as saver:
        inner = agent(True)
        outer = StateGraph(MessagesState)
        outer.add_node("researcher", inner)
        outer.add_edge(START, "researcher")
        outer.compile(checkpointer=saver).invoke(ask("go"), thread("t"))
        session = saver.store.sessions.latest()
        assert [trace.agent for trace in session.subagents()] == ["researcher"]
        assert [node.role for node in session.subagents()[0].path()] == ["user", "assistant", "tool", "assistant"]
        assert saver.store.verify().ok


def test_deleted_threads_leave_nothing(tmp_path):
    """After a deletion no file beside the store has a word of the thread, while the saver is still open."""
    with ClewSaver(tmp_path / "c.db") as saver:
        for number in range(30):
            agent(saver).invoke(ask(f"needle {number}"), thread("t"))
        saver.store.search("needle")
        saver.delete_thread("t")
        assert saver.get_tuple(thread("t")) is None
        assert not [one for one in tmp_path.iterdir() if b"needle" in one.read_bytes()]


def test_a_held_thread_is_not_deleted(tmp_path):
    """A thread on hold raises Conflict and stays."""
    with ClewSaver(tmp_path / "c.db") as saver:
        put(saver, "t", {"messages": [HumanMessage("a")]}, 1)
        saver.store.sessions.latest().hold("court")
        with pytest.raises(clew.Conflict):
            saver.delete_thread("t")
        assert saver.get_tuple(thread("t")) is not None


def test_writes_may_come_before_their_checkpoint(opened):
    """Writes of a checkpoint that is not stored yet are there when it is."""
    with opened(ClewSaver) as saver:
        state = empty_checkpoint()
        config = thread("t", checkpoint_ns="", checkpoint_id=state["id"])
        saver.put_writes(config, [("x", 1), ("y", 2)], "task")
        saver.put_writes(config, [("x", 9), ("y", 9)], "task")
        assert saver.get_tuple(config) is None
        assert saver.get_tuple(thread("t")) is None
        saver.put(thread("t", checkpoint_ns=""), state, {"step": 0}, {})
        assert saver.get_tuple(thread("t")).pending_writes == [("task", "x", 1), ("task", "y", 2)]


def test_another_saver_deletes_and_writes(opened):
    """A saver that remembers a thread stores it whole after another one has deleted it, and made it again."""
    said = [HumanMessage(str(number), id=str(number)) for number in range(6)]
    with opened(ClewSaver) as saver:
        other = ClewSaver(saver.store)
        config = put(saver, "t", {"messages": said[:1]}, 1)
        config = put(saver, "t", {"messages": said[:2]}, 2, config=config)
        other.delete_thread("t")
        config = put(saver, "t", {"messages": said[:3]}, 3, config=config)
        assert saver.get_tuple(config).checkpoint["channel_values"]["messages"] == said[:3]
        other.delete_thread("t")
        put(other, "t", {"messages": said[3:5]}, 4)
        config = put(saver, "t", {"messages": said[:4]}, 5, config=config)
        assert other.get_tuple(config).checkpoint["channel_values"]["messages"] == said[:4]
        assert saver.store.verify().ok


def test_another_saver_writes_a_later_checkpoint(opened):
    """The latest checkpoint has the highest id, although a saver with a lower one was the last to write."""
    with opened(ClewSaver) as saver:
        other = ClewSaver(saver.store)
        put(saver, "t", {"x": 1}, 1)
        early = empty_checkpoint()
        late = put(other, "t", {"x": 2}, 2)
        saver.put(thread("t", checkpoint_ns=""), early, {"step": 3}, {})
        assert saver.get_tuple(thread("t")).config == late
        assert [one.metadata["step"] for one in other.list(thread("t"))] == [2, 3, 1]
        put(saver, "t", {"x": 4}, 4)
        assert [one.metadata["step"] for one in saver.list(thread("t", checkpoint_ns=""))] == [4, 2, 3, 1]


def test_a_call_is_one_transaction(tmp_path):
    """A checkpoint with a new message, and two writes of a task, are each one transaction of eight statements."""
    with ClewSaver(tmp_path / "c.db") as saver:
        said = [{"role": "user", "content": str(number)} for number in range(4)]
        config = put(saver, "t", {"messages": said[:1]}, 1, run=None)
        config = put(saver, "t", {"messages": said[:2]}, 2, config=config, run=None)
        config = put(saver, "t", {"messages": said[:3]}, 3, config=config, run=None)
        ran = []
        backend: Any = Parts.of(saver.store).engine.backend
        conn = backend.writer.tx.conn
        conn.set_trace_callback(ran.append)
        config = put(saver, "t", {"messages": said}, 4, config=config, run=None)
        assert ran.count("COMMIT") == 1
        assert len(ran) <= 8, ran
        ran.clear()
        saver.put_writes(config, [("x", 1), ("y", 2)], "task")
        conn.set_trace_callback(None)
        assert ran.count("COMMIT") == 1
        assert len(ran) <= 8, ran


KILLED = """
import os, signal, sys
from clew.adapters.langgraph import ClewSaver
from tests.adapters.langgraph.graphs import agent, ask, thread
saver = ClewSaver(sys.argv[1])
graph = agent(saver)
for state in graph.stream(ask("weather"), thread("t"), durability="sync"):
    print(next(iter(state)), flush=True)
    if "tool" in state:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_run_resumes(killed, tmp_path):
    """A run killed after a tool's answer continues there: the tool is not called again."""
    assert killed(KILLED).split() == ["model", "tool"]
    with ClewSaver(tmp_path / "chats.db") as saver:
        assert len(agent(saver).get_state(thread("t")).values["messages"]) == 3
        done = agent(saver).invoke(None, thread("t"))
        assert [one.type for one in done["messages"]] == ["human", "ai", "tool", "ai"]
        assert saver.store.verify().ok


def fill(path, name):
    """Runs a graph ten times in a process of its own."""
    with ClewSaver(path) as saver:
        for number in range(10):
            agent(saver).invoke(ask(f"{name} {number}"), thread(name))


def test_two_processes(tmp_path):
    """Two processes that write at once, the first time a store is made, lose nothing."""
    path = run_together(fill, tmp_path / "c.db")
    with ClewSaver(path) as saver:
        for name in ("a", "b"):
            assert len(agent(saver).get_state(thread(name)).values["messages"]) == 40
        assert saver.store.verify().ok


def test_async_graphs(opened):
    """A graph that runs on an event loop keeps its state the same way."""

    async def run(saver):
        await asyncio.gather(*(agent(saver).ainvoke(ask("hi"), thread(f"t{number}")) for number in range(8)))
        return [len((await agent(saver).aget_state(thread(f"t{number}"))).values["messages"]) for number in range(8)]

    with opened(ClewSaver) as saver:
        assert asyncio.run(run(saver)) == [4] * 8
        assert saver.store.verify().ok


def test_a_store_that_redacts_is_refused(tmp_path):
    """State must be read back as it was written, so a store that redacts is refused."""
    from clew import redaction

    with (
        clew.open(tmp_path / "c.db", redact=redaction.Rules(["email"])) as store,
        pytest.raises(clew.Invalid, match="redact"),
    ):
        ClewSaver(store)


def test_in_the_command_line(opened):
    """A thread with a tool call is listed, found, shown, redacted and purged."""
    with opened(ClewSaver) as saver:
        agent(saver).invoke(ask(QUESTION), thread("t"))
    expect_weather(opened, keeps_states=True)
