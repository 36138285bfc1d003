"""A project of Claude Code: a session with all kinds of lines, a fork of it, a background copy, and a subagent."""

from __future__ import annotations

import json
from typing import Any

from tests.sources.made import SESSION, an_id, claude_line, jsonl

FORK, COPY = an_id(998), an_id(997)


def used(out: int) -> dict[str, Any]:
    return {"id": "msg_a", "model": "claude-x", "usage": {"input_tokens": 10, "output_tokens": out}}


def call(name: str, command: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": name, "name": "Bash", "input": {"command": command}}


def result(name: str, text: str, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": name, "content": text, **more}


CHAIN: list[dict[str, Any]] = [
    claude_line(1, None, "user", "Run both", promptId="p"),
    claude_line(2, 1, "user", "") | {"type": "attachment", "message": None, "attachment": {"type": "environment"}},
    claude_line(3, 2, "assistant", [{"type": "thinking", "thinking": "Two", "signature": "s"}], message=used(1)),
    claude_line(4, 3, "assistant", [call("a", "exit 3")], message=used(5)),
    claude_line(5, 4, "assistant", [call("b", "echo two")], message=used(5)),
    claude_line(6, 4, "user", [result("a", "failed", is_error=True)], sourceToolAssistantUUID=an_id(4)),
    claude_line(7, 5, "user", [result("b", "two")], sourceToolAssistantUUID=an_id(5)),
    claude_line(8, 6, "assistant", "Done", message={"id": "msg_b", "model": "claude-x"}),
]
BOUNDARY = {"type": "system", "subtype": "compact_boundary", "message": None, "logicalParentUuid": an_id(8)}
LINES: list[dict[str, Any]] = [
    {"type": "mode", "mode": "normal", "sessionId": SESSION},
    {"type": "file-history-snapshot", "messageId": an_id(1), "snapshot": {"trackedFileBackups": {}}},
    *CHAIN,
    {"type": "api-request-blob", "hash": "h", "content": "<system-reminder>"},
    {"type": "ai-title", "aiTitle": "Two commands", "sessionId": SESSION},
    claude_line(9, 8, "user", "How many?"),
    claude_line(10, 8, "user", "How many, exactly?"),
    claude_line(11, 10, "user", "") | {"type": "system", "subtype": "api_error", "message": None},
    claude_line(12, 11, "assistant", "Forty-two", message={"id": "msg_c", "model": "claude-x"}),
    claude_line(13, None, "user", "") | BOUNDARY,
    claude_line(14, 13, "user", "Summary", isCompactSummary=True),
    {"type": "queue-operation", "operation": "enqueue", "content": "And now?", "sessionId": SESSION},
    claude_line(15, 14, "user", "And now?"),
]


def copied(session: str, **more: Any) -> list[dict[str, Any]]:
    """The chain as a fork or a background copy has it: other stamps, the same uuids."""
    return [{**line, "sessionId": session, **more} for line in CHAIN]


TRACE = f"projects/p/{SESSION}/subagents/agent-a7.jsonl"
FILES = {
    f"projects/p/{SESSION}.jsonl": jsonl(LINES),
    f"projects/p/{FORK}.jsonl": jsonl([*copied(FORK), claude_line(20, 8, "user", "In the fork", sessionId=FORK)]),
    f"projects/p/{COPY}.jsonl": jsonl([
        *copied(COPY, sessionKind="bg"),
        claude_line(30, 8, "user", "In the background", sessionId=COPY, sessionKind="bg"),
    ]),
    TRACE: jsonl([
        claude_line(50, None, "user", "Search", isSidechain=True, agentId="a7"),
        claude_line(51, 50, "assistant", "Found", isSidechain=True, agentId="a7"),
    ]),
}  # fmt: skip
BESIDE = {TRACE.replace(".jsonl", ".meta.json"): json.dumps({"agentType": "Explore", "toolUseId": "a"}).encode()}
