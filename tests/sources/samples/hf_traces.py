"""A session trace of Hugging Face."""

from __future__ import annotations

from typing import Any

from tests.sources.made import jsonl

SESSION = "b1a2c3"
START = 1_793_000_000_000
LINES: list[dict[str, Any]] = [
    {"type": "session", "harness": "my-agent", "id": SESSION, "name": "List it", "timestamp": START},
    {"type": "message", "message": {"role": "system", "content": "Be short."}},
    {"type": "message", "message": {"role": "user", "content": "List it", "timestamp": START + 1000}},
    {"type": "message", "message": {
        "role": "assistant", "content": "", "reasoningContent": "I look.", "model": "qwen4",
        "toolCalls": [{"id": "c1", "function": {"name": "ls", "arguments": '{"path":"."}'}}],
    }},
    {"type": "message", "message": {"role": "tool", "content": "a.py", "toolCallId": "c1"}},
    {"type": "made-up", "x": 1},
    {"type": "message", "message": {"role": "assistant", "content": "It is a.py.", "model": "qwen4"}},
]  # fmt: skip
DATA = jsonl(LINES)
