"""Two model calls of one conversation, a span of an agent and one of something else, as OTLP JSON."""

from __future__ import annotations

import json
from typing import Any

from tests.sources.made import jsonl

START = 1_793_000_000


def value(of: Any) -> dict[str, Any]:
    """A value as OTLP writes it."""
    if isinstance(of, str):
        return {"stringValue": of}
    if isinstance(of, int):
        return {"intValue": str(of)}
    if isinstance(of, list):
        return {"arrayValue": {"values": [value(one) for one in of]}}
    return {"kvlistValue": {"values": [{"key": key, "value": value(one)} for key, one in of.items()]}}


def span(number: int, **attributes: Any) -> dict[str, Any]:
    listed = [{"key": key.replace("_ai_", "_ai."), "value": value(one)} for key, one in attributes.items()]
    one = {
        "traceId": "5b8efff798038103d269b633813fc60c", "spanId": f"{number:016x}", "name": "chat", "attributes": listed,
        "startTimeUnixNano": str((START + number) * 10**9), "endTimeUnixNano": str((START + number + 1) * 10**9),
    }  # fmt: skip
    return {"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [{"spans": [one]}]}]}


def text(role: str, content: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": content}], **more}


CALL = {"role": "assistant", "parts": [
    {"type": "reasoning", "content": "I look."},
    {"type": "tool_call", "id": "c1", "name": "ls", "arguments": {"path": "."}},
]}  # fmt: skip
RESULT = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "a.py"}]}
ABOUT = {"gen_ai_conversation.id": "conv_1", "gen_ai_request.model": "gpt-6-sol", "gen_ai_operation.name": "chat"}
SYSTEM = [{"type": "text", "content": "Be short."}]
LINES = [
    span(1, **{"http.method": "POST"}),
    span(2, **ABOUT, **{
        "gen_ai_system_instructions": SYSTEM, "gen_ai_input.messages": [text("user", "List it")],
        "gen_ai_output.messages": [{**CALL, "finish_reason": "tool_call"}],
        "gen_ai_usage.input_tokens": 20, "gen_ai_usage.output_tokens": 6,
    }),
    span(3, **ABOUT, **{
        "gen_ai_system_instructions": json.dumps(SYSTEM),
        "gen_ai_input.messages": json.dumps([text("user", "List it"), CALL, RESULT]),
        "gen_ai_output.messages": json.dumps([text("assistant", "It is a.py.", finish_reason="stop")]),
        "gen_ai_usage.input_tokens": 30, "gen_ai_usage.output_tokens": 5,
    }),
    span(4, **{
        **ABOUT, "gen_ai_operation.name": "invoke_agent", "gen_ai_input.messages": [text("user", "List it")],
        "gen_ai_output.messages": [text("assistant", "It is a.py.")],
    }),
    {"resourceLogs": []},
]  # fmt: skip
DATA = jsonl(LINES)
