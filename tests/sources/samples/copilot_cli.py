"""A session of Copilot CLI: a tool call, a failed one, a subagent, a rewind and a compaction."""

from __future__ import annotations

from typing import Any

from tests.sources.made import an_id, jsonl

SESSION = an_id(700)
AT = "2026-11-01T10:00:{:02}.000Z"


def event(number: int, kind: str, data: dict[str, Any], **more: Any) -> dict[str, Any]:
    """An event; numbers stand for uuids."""
    return {
        "type": kind,
        "data": data,
        "id": an_id(number),
        "timestamp": AT.format(number % 60),
        "parentId": an_id(number - 1) if number > 1 else None,
        **more,
    }


def call(id: str, name: str, **arguments: Any) -> dict[str, Any]:
    return {"toolCallId": id, "name": name, "arguments": arguments, "type": "function"}


EVENTS = [
    event(1, "session.start", {
        "sessionId": SESSION, "version": 1, "producer": "copilot-agent", "copilotVersion": "1.0.102",
        "selectedModel": "claude-sonnet-5-5", "context": {"cwd": "/src/app", "branch": "main"},
    }),
    event(2, "user.message", {"content": "Fix the test", "attachments": [{"type": "file", "path": "/src/app/t.py"}]}),
    event(3, "assistant.turn_start", {"turnId": "0"}),
    event(4, "assistant.message", {
        "messageId": "m1", "content": "I look.", "reasoningText": "Read it first.", "outputTokens": 21,
        "toolRequests": [call("c1", "bash", command="pytest"), call("c2", "task", prompt="Search")],
    }),
    event(5, "tool.execution_start", {"toolCallId": "c1", "toolName": "bash", "arguments": {"command": "pytest"}}),
    event(6, "subagent.started", {"toolCallId": "c2", "agentName": "explore"}),
    event(7, "user.message", {"content": "Search", "parentToolCallId": "c2"}),
    event(8, "assistant.message", {
        "messageId": "m2", "content": "", "parentToolCallId": "c2", "toolRequests": [call("c3", "grep", pattern="x")],
    }),
    event(9, "tool.execution_complete", {
        "toolCallId": "c3", "success": True, "result": {"content": "a.py"}, "parentToolCallId": "c2",
    }),
    event(10, "assistant.message", {"messageId": "m3", "content": "It is in a.py", "parentToolCallId": "c2"}),
    event(11, "tool.execution_complete", {
        "toolCallId": "c1", "success": False, "error": {"message": "exit code 1", "code": "failure"},
    }),
    event(12, "tool.execution_complete", {"toolCallId": "c2", "success": True, "result": {"content": "a.py"}}),
    event(13, "assistant.message", {"messageId": "m4", "content": "Fixed.", "outputTokens": 5}),
    event(14, "session.title_changed", {"title": "Fix the test"}),
    event(15, "user.message", {"content": "Wrong way"}),
    event(16, "session.snapshot_rewind", {"upToEventId": an_id(15), "eventsRemoved": 1}),
    event(17, "user.message", {"content": "Better way"}),
    event(18, "session.model_change", {"newModel": "gpt-6-sol"}),
    event(19, "assistant.message", {"messageId": "m5", "content": "Done.", "outputTokens": 3}),
    event(20, "session.compaction_complete", {"success": True, "summaryContent": "We fixed it."}),
    event(21, "user.message", {"content": "And now?"}),
    event(22, "made.up_later", {"x": [1]}),
]  # fmt: skip

FILES = {f"session-state/{SESSION}/events.jsonl": jsonl(EVENTS)}
