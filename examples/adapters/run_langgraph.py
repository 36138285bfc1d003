"""A LangGraph agent that is killed in the middle of a run, and resumed.

pip install '.[langgraph]'
python examples/adapters/run_langgraph.py
"""

import os
import signal
from typing import Any

from killed import kill_and_resume, print_latest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.graph import END, START, MessagesState, StateGraph

from clew.adapters.langgraph import ClewSaver


def model(state: MessagesState) -> dict[str, Any]:
    """Stands for a model: calls a tool, then answers with what the tool returned."""
    last = state["messages"][-1]
    if isinstance(last, ToolMessage):
        return {"messages": [AIMessage(f"It is {last.text} in Turin.")]}
    return {"messages": [AIMessage("", tool_calls=[{"name": "weather", "args": {"city": "Turin"}, "id": "call-1"}])]}


def tool(state: MessagesState) -> dict[str, Any]:
    """Stands for a slow tool: it must not run twice."""
    print("The tool runs.", flush=True)
    return {"messages": [ToolMessage("sunny", tool_call_id="call-1")]}


def main(path: str, killed: bool) -> None:
    """Runs the graph, and with `killed` dies after the tool has answered."""
    graph = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_node("tool", tool)
    graph.add_edge(START, "model")
    graph.add_edge("tool", "model")
    graph.add_conditional_edges("model", lambda state: "tool" if state["messages"][-1].tool_calls else END)
    with ClewSaver(path) as saver:
        agent = graph.compile(checkpointer=saver)
        thread: Any = {"configurable": {"thread_id": "trip"}}
        begun = bool(agent.get_state(thread).values)
        question = None if begun else {"messages": [HumanMessage("How is the weather in Turin?")]}
        for step in agent.stream(question, thread, durability="sync"):
            if killed and "tool" in step:
                os.kill(os.getpid(), signal.SIGKILL)
        print_latest(saver.store)


if __name__ == "__main__":
    kill_and_resume(main)
