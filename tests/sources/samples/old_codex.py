"""Rollouts of older versions of Codex: a thread with a rollback, a fork that begins with its copy, and bare items."""

from __future__ import annotations

from typing import Any

from tests.sources.made import an_id, jsonl

THREAD, FORK, BARE = an_id(801), an_id(802), an_id(803)


def line(second: int, kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    return {"timestamp": f"2025-10-01T10:00:{second:02}.000Z", "type": kind, "payload": payload}


def said(second: int, role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return line(second, "response_item", {"type": "message", "role": role, "content": [{"type": kind, "text": text}]})


def turn(number: int, second: int) -> dict[str, Any]:
    return line(second, "turn_context", {"turn_id": an_id(810 + number), "cwd": "/src/app", "model": "gpt-old"})


def counted(second: int, total: int) -> dict[str, Any]:
    info = {"total_token_usage": {"total_tokens": total}, "last_token_usage": {"input_tokens": 7, "output_tokens": 2}}
    return line(second, "event_msg", {"type": "token_count", "info": info})


def meta(second: int, thread: str, **more: Any) -> dict[str, Any]:
    about = {"id": thread, "timestamp": "2025-10-01T10:00:00Z", "cwd": "/src/app", "cli_version": "0.50.0", **more}
    return line(second, "session_meta", about)


CALL = {"type": "function_call", "name": "shell", "arguments": '{"command":["false"]}', "call_id": "call_1"}
FIRST = [
    meta(0, THREAD, git={"branch": "main"}),
    said(0, "user", "<environment_context>\n</environment_context>"),
    turn(1, 1),
    said(1, "user", "Run it"),
    line(1, "event_msg", {"type": "user_message", "message": "Run it"}),
    line(2, "response_item", {"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}),
    line(2, "response_item", CALL),
    line(3, "event_msg", {"type": "exec_command_end", "call_id": "call_1", "exit_code": 1}),
    line(3, "response_item", {"type": "function_call_output", "call_id": "call_1", "output": "Output:\n"}),
    counted(3, 9),
    said(4, "assistant", "It failed."),
    counted(4, 18),
    counted(4, 18),
]
THEN = [
    turn(2, 5),
    said(5, "user", "Again"),
    said(6, "assistant", "It failed again."),
    counted(6, 27),
    line(7, "event_msg", {"type": "thread_rolled_back", "num_turns": 1}),
    turn(3, 8),
    said(8, "user", "Try another way"),
    said(9, "assistant", "It works."),
    counted(9, 36),
    line(9, "event_msg", {"type": "task_complete"}),
]
COPIED = [{**one, "timestamp": "2025-10-02T09:00:00.000Z"} for one in FIRST]
OWN = [turn(9, 20), said(20, "user", "In the fork"), said(21, "assistant", "Yes."), counted(21, 99)]
ITEMS: list[dict[str, Any]] = [
    {"id": BARE, "timestamp": "2025-05-01T10:00:00.000Z", "instructions": None},
    {"record_type": "state"},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello"}]},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]},
    {"record_type": "state"},
]
FOLDER = "sessions/2025/10/01"
FILES = {
    f"{FOLDER}/rollout-2025-10-01T10-00-00-{THREAD}.jsonl": jsonl([*FIRST, *THEN]),
    f"{FOLDER}/rollout-2025-10-02T09-00-00-{FORK}.jsonl": jsonl([
        meta(0, FORK, forked_from_id=THREAD), *COPIED, *OWN, line(22, "event_msg", {"type": "task_complete"}),
    ]),
    f"{FOLDER}/rollout-2025-05-01T10-00-00-{BARE}.jsonl": jsonl(ITEMS),
}  # fmt: skip
