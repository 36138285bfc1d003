"""Makes `.cpeconvo` files as CPE does."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

SCHEMA = """
CREATE TABLE IF NOT EXISTS messages
(
    id                TEXT PRIMARY KEY,
    parent_id         TEXT,
    title             TEXT,
    role              TEXT    NOT NULL,
    tool_result_error BOOLEAN NOT NULL DEFAULT 0,
    created_at        TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    FOREIGN KEY (parent_id) REFERENCES messages (id) ON DELETE RESTRICT
);
CREATE INDEX IF NOT EXISTS idx_messages_created_at ON messages (created_at);
CREATE INDEX IF NOT EXISTS idx_messages_parent_id ON messages (parent_id);
CREATE TABLE IF NOT EXISTS blocks
(
    id             TEXT,
    message_id     TEXT      NOT NULL,
    block_type     TEXT      NOT NULL,
    modality_type  INTEGER   NOT NULL,
    mime_type      TEXT      NOT NULL,
    content        TEXT      NOT NULL,
    extra_fields   TEXT,
    sequence_order INTEGER   NOT NULL,
    created_at     TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (message_id, sequence_order),
    FOREIGN KEY (message_id) REFERENCES messages (id) ON DELETE CASCADE
);
"""


class Convo:
    """A file to write to."""

    def __init__(self, path: Path, *, wal: bool = False) -> None:
        self.path = path
        self.conn = sqlite3.connect(path, isolation_level=None)
        if wal:
            self.conn.execute("PRAGMA journal_mode = WAL")
        self.conn.executescript(SCHEMA)
        self._minute = 0

    def say(self, id: str, parent: str | None, role: str, *blocks: Any, title: str | None = None, **more: Any) -> None:
        """Adds a message; a block is text, or (type, modality, mime, content, id, extra)."""
        self._minute += 1
        at = more.get("at", f"2024-01-15 10:{self._minute:02}:00")
        self.conn.execute(
            "INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?)", [id, parent, title, role, more.get("error", False), at]
        )
        for order, block in enumerate(blocks):
            whole = ("content", 0, "text/plain", block, None, None) if isinstance(block, str | bytes) else block
            kind, modality, mime, content, call, extra = whole
            extra = json.dumps(extra) if isinstance(extra, dict) else extra
            self.conn.execute(
                "INSERT INTO blocks (id, message_id, block_type, modality_type, mime_type, content, extra_fields,"
                " sequence_order) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [call, id, kind, modality, mime, content, extra, order],
            )

    def close(self) -> None:
        self.conn.close()


def sample(path: Path, *, wal: bool = False) -> Convo:
    """The conversation of CPE's own description, one with every kind of block, and a subagent's trace."""
    made = Convo(path, wal=wal)
    made.say("abc123", None, "user", "Hello, can you help me?")
    made.say("def456", "abc123", "assistant", "Of course! What do you need?")
    made.say("ghi789", "def456", "user", "I need help with Go")
    made.say("jkl012", "ghi789", "assistant", "Sure, what's your question?")
    made.say("mno345", "def456", "user", "Actually, Python instead")
    made.say("pqr678", "mno345", "assistant", "No problem! What about Python would you like to know?")
    made.say("TRACE1", None, "user", "Review this", title="subagent:code-review:a1b2")
    made.say("TRACE2", "TRACE1", "assistant", "Fine.", title="subagent:code-review:a1b2")
    made.say("Kinds1", None, "user", "Look", ("content", 1, "image/png", "aGVsbG8=", None, None), title="Pictures")
    call = '{"name": "run", "parameters": {"cmd": "ls"}}'
    made.say(
        "Kinds2", "Kinds1", "assistant",
        ("thinking", 0, "text/plain", "Let me see.", None, {"thinking_signature": "sig"}),
        ("tool_call", 0, "application/json", call, "call_1", None),
        ("other", 0, "text/x", "?", None, None),
    )  # fmt: skip
    result = ("content", 0, "text/plain", "no such file", "call_1", None)
    made.say("Kinds3", "Kinds2", "tool_result", result, result, error=True)
    return made
