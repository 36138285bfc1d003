"""Graphs whose model is a function."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import END, START, MessagesState, StateGraph


def weather(state: MessagesState) -> dict[str, Any]:
    """Asks a tool, then answers."""
    last = state["messages"][-1]
    if isinstance(last, ToolMessage):
        return {"messages": [AIMessage(f"It is {last.text}.", id=f"a{len(state['messages'])}")]}
    call = {"name": "weather", "args": {"city": "Turin"}, "id": "c1"}
    return {"messages": [AIMessage("", tool_calls=[call], id=f"a{len(state['messages'])}")]}


def tool(state: MessagesState) -> dict[str, Any]:
    """Answers a call."""
    return {"messages": [ToolMessage("sunny", tool_call_id="c1", id=f"t{len(state['messages'])}")]}


def agent(saver: Any, **options: Any) -> Any:
    """A graph that calls a tool."""
    graph = StateGraph(MessagesState)
    graph.add_node("model", weather)
    graph.add_node("tool", tool)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", lambda state: "tool" if state["messages"][-1].tool_calls else END)
    graph.add_edge("tool", "model")
    return graph.compile(checkpointer=saver, **options)


def thread(name: str, **more: str) -> Any:
    """The config of a thread."""
    return {"configurable": {"thread_id": name, **more}}


def ask(text: str) -> Any:
    """The input of a graph."""
    return {"messages": [HumanMessage(text, id=f"h-{text}")]}


def joined(state: list[AnyMessage], writes: list[Any]) -> list[AnyMessage]:
    """The reducer of a delta channel."""
    return [*state, *(one for write in writes for one in (write if isinstance(write, list) else [write]))]


def echo(saver: Any, every: int) -> Any:
    """A graph whose messages are a delta channel with a snapshot after `every` updates."""

    channel = DeltaChannel(joined, snapshot_frequency=every)
    kept: Any = TypedDict("kept", {"messages": Annotated[list[AnyMessage], channel]})

    def reply(state: Any) -> dict[str, Any]:
        return {"messages": [AIMessage(f"echo {state['messages'][-1].text}")]}

    graph = StateGraph(kept)
    graph.add_node("reply", reply)
    graph.add_edge(START, "reply")
    return graph.compile(checkpointer=saver)
