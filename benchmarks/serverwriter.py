"""One of several processes that write to the same server; `servertogether` starts them."""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg

import clew
from benchmarks.bench import encoded, messages
from benchmarks.server import INSERT

TABLE = """
CREATE TABLE IF NOT EXISTS heads (session text PRIMARY KEY, last bigint NOT NULL, at timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS messages (
    session text NOT NULL, id bigint GENERATED ALWAYS AS IDENTITY, body bytea NOT NULL, PRIMARY KEY (session, id)
)"""
Write = Callable[[str], object]


def table(conninfo: str, threads: int) -> Write:
    """A table that somebody wrote by hand: each message moves the head of its session, in one transaction."""
    local, said = threading.local(), encoded(messages(50))

    def write(session: str) -> None:
        conn = getattr(local, "conn", None)
        if conn is None:
            conn = local.conn = psycopg.connect(conninfo, prepare_threshold=0)
        with conn.transaction():
            conn.execute(f"{INSERT} RETURNING id".encode(), (session, random.choice(said))).fetchone()
            conn.execute("UPDATE heads SET last = last + 1, at = now() WHERE session = %s", (session,))

    return write


def appends(url: str, threads: int) -> Write:
    """Appends to the session with this id."""
    store, said = clew.open(url, pool_size=threads), messages(50)
    sessions: dict[str, clew.Session] = {}

    def write(session: str) -> None:
        if session not in sessions:
            sessions[session] = store.sessions.get(session)
        sessions[session].append(random.choice(said))

    return write


def turns(saver: Any) -> Write:
    """A turn of a LangGraph program: two nodes, three checkpoints."""
    from langchain_core.messages import AIMessage, HumanMessage
    from langgraph.graph import END, START, MessagesState, StateGraph

    graph = StateGraph(MessagesState)
    graph.add_node("plan", lambda state: {"messages": [AIMessage("I look at the file first. " * 8)]})
    graph.add_node("act", lambda state: {"messages": [AIMessage("The build fails in the lint step. " * 8)]})
    graph.add_edge(START, "plan")
    graph.add_edge("plan", "act")
    graph.add_edge("act", END)
    app = graph.compile(checkpointer=saver)
    return lambda session: app.invoke(
        {"messages": [HumanMessage("Why is the build failing?")]}, {"configurable": {"thread_id": session}}
    )


def writer(kind: str, address: str, threads: int) -> Write:
    """What one write of a kind is."""
    if kind == "table":
        return table(address, threads)
    if kind == "clew":
        return appends(address, threads)
    if kind == "ClewSaver":
        from clew.adapters.langgraph import ClewSaver

        return turns(ClewSaver(clew.open(address, pool_size=4 * threads)))
    from langgraph.checkpoint.postgres import PostgresSaver
    from psycopg_pool import ConnectionPool

    pool = ConnectionPool(address, max_size=4 * threads, kwargs={"autocommit": True, "prepare_threshold": 0}, open=True)
    return turns(PostgresSaver(pool))


def main(kind: str, address: str, threads: int, seconds: float, names: list[str]) -> None:
    """Says that it is ready, waits for a line, writes to random sessions until the time is over, and prints what each
    write took.
    """
    write = writer(kind, address, threads)
    took: list[float] = []
    failed: list[BaseException] = []
    for name in names if kind in ("table", "clew") else names[:1]:  # a server has its sessions open
        write(name)
    print("ready", flush=True)
    sys.stdin.readline()
    end = time.perf_counter() + seconds

    def run() -> None:
        try:
            before = time.perf_counter()
            while before < end:
                write(random.choice(names))
                now = time.perf_counter()
                took.append(now - before)
                before = now
        except BaseException as error:
            failed.append(error)

    crew = [threading.Thread(target=run) for _ in range(threads)]
    for one in crew:
        one.start()
    for one in crew:
        one.join()
    if failed:
        raise failed[0]
    print(json.dumps(took), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), json.loads(sys.argv[5]))
