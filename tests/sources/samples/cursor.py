"""Conversations of Cursor: in the editor's database, in that of the command line, and as transcripts."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.sources.made import an_id, jsonl

COMPOSER, AGENT, OLD, CLI = an_id(720), an_id(701), an_id(722), an_id(723)
START = 1_793_000_000_000

TOOL = {
    "tool": 15, "name": "run_terminal_cmd", "toolCallId": "c1", "rawArgs": '{"command":"npm test"}',
    "status": "completed", "result": '{"output":"1 failed"}', "additionalData": {"status": "error"},
}  # fmt: skip
BUBBLES: dict[str, dict[str, Any]] = {
    "b1": {"type": 1, "text": "Run the tests", "createdAt": "2026-11-01T10:00:01.000Z"},
    "b2": {"type": 2, "text": "", "thinking": {"text": "I run them."}, "timingInfo": {"clientStartTime": START}},
    "b3": {"type": 2, "text": "I run them.", "toolFormerData": TOOL, "tokenCount": {"inputTokens": 0}},
    "b4": {"type": 2, "text": "One fails.", "tokenCount": {"inputTokens": 90, "outputTokens": 7}},
    "gone": {"type": 2, "text": "Taken back"},
}
COMPOSERS: dict[str, dict[str, Any]] = {
    COMPOSER: {
        "_v": 10, "composerId": COMPOSER, "name": "Run the tests", "createdAt": START, "status": "completed",
        "modelConfig": {"modelName": "claude-sonnet-5-5"}, "createdOnBranch": "main",
        "fullConversationHeadersOnly": [{"bubbleId": name} for name in ("b1", "b2", "b3", "missing", "b4")],
    },
    AGENT: {
        "composerId": AGENT, "name": "Search", "createdAt": START,
        "subagentInfo": {"parentComposerId": COMPOSER, "subagentTypeName": "explore"},
        "fullConversationHeadersOnly": [{"bubbleId": "s1", "type": 1}],
    },
    OLD: {
        "composerId": OLD, "createdAt": START,
        "conversation": [
            {"type": 1, "bubbleId": "o1", "text": "Hello"}, {"type": 2, "bubbleId": "o2", "text": "Hi"},
        ],
    },
    "empty": {"composerId": "empty", "fullConversationHeadersOnly": []},
}  # fmt: skip


def rows() -> dict[str, str]:
    found = {f"composerData:{name}": json.dumps(data) for name, data in COMPOSERS.items()}
    found |= {f"bubbleId:{COMPOSER}:{name}": json.dumps(data) for name, data in BUBBLES.items()}
    found[f"bubbleId:{AGENT}:s1"] = json.dumps({"type": 1, "text": "Search"})
    found["composerData:broken"] = "{"
    found["agentKv:blob:00"] = "x"
    return found


def editor(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        for table in ("ItemTable", "cursorDiskKV"):
            database.execute(f"CREATE TABLE {table} (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)")
        database.execute("CREATE TABLE composerHeaders (composerId TEXT PRIMARY KEY, value TEXT)")
        header = {"name": "Tests", "workspaceIdentifier": {"uri": {"fsPath": "/src/app", "scheme": "file"}}}
        database.execute("INSERT INTO composerHeaders VALUES (?, ?)", (COMPOSER, json.dumps(header)))
        database.executemany("INSERT INTO cursorDiskKV VALUES (?, ?)", rows().items())
        database.commit()


MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "You are an agent."},
    {"role": "user", "content": [{"type": "text", "text": "<user_info>\nWorkspace Path: /src/app\n</user_info>"}]},
    {"role": "user", "content": [{"type": "text", "text": "<user_query>\nList it\n</user_query>"}]},
    {"role": "user", "content": "Taken back"},
    {"role": "assistant", "id": "1", "content": [
        {"type": "reasoning", "text": "I list."},
        {"type": "tool-call", "toolCallId": "c1", "toolName": "LS", "args": {"path": "."}},
    ]},
    {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c1", "toolName": "LS", "result": "a.py"}]},
]  # fmt: skip


def store(path: Path) -> None:
    blobs = [json.dumps(message).encode() for message in MESSAGES]
    listed = [hashlib.sha256(blob).digest() for at, blob in enumerate(blobs) if at != 3]
    root = b"".join(b"\x0a\x20" + name for name in listed)
    about = {
        "agentId": CLI, "latestRootBlobId": hashlib.sha256(root).hexdigest(), "name": "List it", "createdAt": START,
        "lastUsedModel": "gpt-6-sol",
    }  # fmt: skip
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE blobs (id TEXT PRIMARY KEY, data BLOB)")
        database.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)")
        database.execute("INSERT INTO meta VALUES ('0', ?)", (json.dumps(about).encode().hex(),))
        for blob in (*blobs, root):
            database.execute("INSERT INTO blobs VALUES (?, ?)", (hashlib.sha256(blob).hexdigest(), blob))
        database.commit()


LINES = jsonl(
    [
        {"role": "user", "message": {"content": [{"type": "text", "text": "<user_query>\nList\n</user_query>"}]}},
        {"role": "assistant", "message": {"content": [
            {"type": "text", "text": "I list."}, {"type": "tool_use", "name": "LS", "input": {"path": "."}},
        ]}},
        {"role": "assistant", "message": {"content": [{"type": "text", "text": "It is a.py."}]}},
        {"note": "made up later"},
    ]
)  # fmt: skip
TEXT = b"""user:
<user_query>
List
</user_query>

assistant:
I list.
[Thinking] Which folder?
[Tool call] LS
  path: .

[Tool result] LS
a.py

assistant:
It is a.py.
"""
