"""Databases of agent frameworks, with the tables that the frameworks make."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

START = 1_793_000_000


def _write(path: Path, schema: str, rows: Iterable[tuple[str, tuple[Any, ...]]]) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(schema)
        for table, values in rows:
            connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values)
        connection.commit()


ITEMS: list[dict[str, Any]] = [
    {"role": "user", "content": "How is Turin?"},
    {"type": "function_call", "call_id": "c", "name": "weather", "arguments": '{"city": "Turin"}'},
    {"type": "function_call_output", "call_id": "c", "output": "sunny"},
    {"role": "assistant", "content": "It is sunny."},
]


def openai_agents(path: Path) -> None:
    """Two sessions of ``SQLiteSession``."""
    schema = """
    CREATE TABLE agent_sessions (session_id TEXT PRIMARY KEY, created_at TIMESTAMP, updated_at TIMESTAMP);
    CREATE TABLE agent_messages (id INTEGER, session_id TEXT,
      message_data TEXT, created_at TIMESTAMP);
    """
    time = "2026-11-01 10:00:00"
    rows: list[tuple[str, tuple[Any, ...]]] = [("agent_sessions", (name, time, time)) for name in ("ada", "bob")]
    rows += [("agent_messages", (number, "ada", json.dumps(item), time)) for number, item in enumerate(ITEMS, 1)]
    rows += [("agent_messages", (9, "bob", json.dumps(ITEMS[0]), time))]
    _write(path, schema, rows)


def _event(number: int, author: str, **fields: Any) -> dict[str, Any]:
    return {"id": f"e{number}", "author": author, "timestamp": START + number / 2, "invocation_id": "i", **fields}


EVENTS = [
    _event(1, "user", content={"role": "user", "parts": [{"text": "How is Turin?"}]}),
    _event(2, "guide", content={"role": "model", "parts": [{"function_call": {"id": "c", "name": "weather"}}]}),
    _event(
        3,
        "guide",
        content={"role": "user", "parts": [{"function_response": {"id": "c", "name": "weather", "response": {}}}]},
    ),
    _event(4, "guide", content={"role": "model", "parts": [{"text": "Sunny."}]}, model_version="gemini-x"),
    _event(5, "guide", actions={"state_delta": {"n": 1}}),
]


def google_adk(path: Path) -> None:
    """A session of ``SqliteSessionService``."""
    schema = """
    CREATE TABLE sessions (app_name TEXT, user_id TEXT, id TEXT, state TEXT,
      create_time REAL, update_time REAL, PRIMARY KEY (app_name, user_id, id));
    CREATE TABLE events (id TEXT, app_name TEXT, user_id TEXT, session_id TEXT,
      invocation_id TEXT, timestamp REAL, event_data TEXT,
      PRIMARY KEY (app_name, user_id, session_id, id));
    """
    rows: list[tuple[str, tuple[Any, ...]]] = [("sessions", ("trip", "ada", "s", '{"n": 1}', START, START))]
    rows += [
        ("events", (one["id"], "trip", "ada", "s", "i", one["timestamp"], json.dumps(one))) for one in reversed(EVENTS)
    ]
    _write(path, schema, rows)


def packed(module: str, name: str, fields: dict[str, Any]) -> msgspec.msgpack.Ext:
    """An object as LangGraph packs it."""
    return msgspec.msgpack.Ext(5, msgspec.msgpack.encode([module, name, fields, "model_validate_json"]))


def message(kind: str, content: str, number: int, **fields: Any) -> msgspec.msgpack.Ext:
    """A message as LangGraph packs it."""
    return packed(
        f"langchain_core.messages.{kind}",
        f"{kind.title()}Message",
        {"content": content, "additional_kwargs": {}, "type": kind, "name": None, "id": f"m{number}", **fields},
    )


CALL = {"name": "weather", "args": {"city": "Turin"}, "id": "c", "type": "tool_call"}
THREAD = [
    message("human", "How is Turin?", 1),
    message("ai", "", 2, tool_calls=[CALL], usage_metadata={"input_tokens": 5, "output_tokens": 2}),
    message("tool", "sunny", 3, tool_call_id="c"),
    message("ai", "It is sunny.", 4),
]


def checkpoint(messages: list[Any], **channels: Any) -> bytes:
    """The state of a thread as LangGraph packs it."""
    values = {"messages": messages, **channels}
    return msgspec.msgpack.encode({"v": 4, "ts": "2026-11-01T10:00:00+00:00", "id": "x", "channel_values": values})


def langgraph(path: Path) -> None:
    """A thread of ``SqliteSaver`` with a branch, and a subgraph."""
    schema = """
    CREATE TABLE checkpoints (thread_id TEXT, checkpoint_ns TEXT DEFAULT '',
      checkpoint_id TEXT, parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB, metadata BLOB,
      PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id));
    """
    lists = [THREAD[:1], THREAD[:2], THREAD[:3], THREAD, [*THREAD[:1], message("ai", "No idea.", 5)]]
    rows: list[tuple[str, tuple[Any, ...]]] = [
        ("checkpoints", ("trip", "", f"1f-{number}", None, "msgpack", checkpoint(one, plan={"a": [1]}), b"{}"))
        for number, one in enumerate(lists)
    ]
    inner = checkpoint([message("human", "Look it up.", 9)])
    rows.append(("checkpoints", ("trip", "search:77", "1f-9", None, "msgpack", inner, b"{}")))
    _write(path, schema, rows)


def _run(number: int, messages: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    return {
        "run_id": f"r{number}",
        "agent_id": "guide",
        "created_at": START,
        "model": "m1",
        "messages": messages,
        **fields,
    }


FUNCTION = {"id": "c", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Turin"}'}}
FIRST: list[dict[str, Any]] = [
    {"id": "a1", "role": "user", "content": "How is Turin?", "from_history": False, "created_at": START},
    {"id": "a2", "role": "assistant", "tool_calls": [FUNCTION], "metrics": {"input_tokens": 5, "output_tokens": 2}},
    {"id": "a3", "role": "tool", "tool_call_id": "c", "content": "sunny", "from_history": False},
    {"id": "a4", "role": "assistant", "content": "It is sunny.", "created_at": START + 3},
]
SECOND: list[dict[str, Any]] = [
    *({**one, "from_history": True} for one in FIRST),
    {"id": "a5", "role": "user", "content": "And Milan?", "created_at": START + 9},
]
RUNS = [_run(0, FIRST), _run(1, SECOND), _run(2, [{"id": "a6", "role": "user", "content": "Ask."}], parent_run_id="r1")]
_COLUMNS = "session_id VARCHAR PRIMARY KEY, session_type VARCHAR, agent_id VARCHAR, session_data JSON"


def agno(path: Path) -> None:
    """A session of ``SqliteDb``."""
    schema = f"""
    CREATE TABLE agno_sessions ({_COLUMNS}, created_at BIGINT);
    CREATE TABLE agno_runs (run_id VARCHAR PRIMARY KEY, session_id VARCHAR, parent_run_id VARCHAR,
      run_index BIGINT, run_data JSON);
    """
    rows: list[tuple[str, tuple[Any, ...]]] = [("agno_sessions", ("s1", "agent", "guide", "{}", START))]
    rows += [
        ("agno_runs", (run["run_id"], "s1", run.get("parent_run_id"), number, json.dumps(run)))
        for number, run in enumerate(RUNS)
    ]
    _write(path, schema, rows)


def old_agno(path: Path) -> None:
    """The same session as versions before 3 wrote it."""
    schema = f"CREATE TABLE my_sessions ({_COLUMNS}, runs JSON, created_at BIGINT);"
    _write(path, schema, [("my_sessions", ("s1", "agent", "guide", "{}", json.dumps(RUNS), START))])
