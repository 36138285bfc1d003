"""A conversation of LibreChat, with messages in a list and inside each other."""

from __future__ import annotations

import json
from typing import Any

from tests.sources.made import an_id

CONVERSATION = an_id(740)
ROOT = "00000000-0000-0000-0000-000000000000"


def message(number: int, parent: int | None, is_prompt: bool, text: str, **more: Any) -> dict[str, Any]:
    return {
        "messageId": an_id(number),
        "parentMessageId": ROOT if parent is None else an_id(parent),
        "conversationId": CONVERSATION,
        "sender": "User" if is_prompt else "GPT",
        "isCreatedByUser": is_prompt,
        "text": text,
        "createdAt": f"2026-11-01T10:00:{number:02}.000Z",
        **more,
    }


CALL = {"type": "tool_call", "tool_call": {
    "id": "c1", "name": "search", "args": '{"q":"x"}', "output": "found", "type": "tool_call",
}}  # fmt: skip
MESSAGES = [
    message(1, None, True, "Search x"),
    message(2, 1, False, "", model="gpt-6-sol", tokenCount=11, content=[
        {"type": "think", "think": "I search."}, CALL, {"type": "text", "text": {"value": "I found it."}},
        {"type": "made_up"},
    ]),
    message(3, 1, False, "No.", model="gpt-6-sol"),
    message(4, 2, True, "Thanks", files=[{"file_id": "f"}]),
]  # fmt: skip
AROUND = {"conversationId": CONVERSATION, "endpoint": "openAI", "title": "Search", "exportAt": "10:00:00 GMT",
          "options": {"model": "gpt-6-sol"}}  # fmt: skip
FLAT = {**AROUND, "recursive": False, "messages": MESSAGES}
NESTED = {**AROUND, "recursive": True, "messages": [
    {**MESSAGES[0], "children": [
        {**MESSAGES[1], "children": [{**MESSAGES[3], "children": []}]}, {**MESSAGES[2], "children": []},
    ]},
]}  # fmt: skip


def document(chat: dict[str, Any], **form: Any) -> bytes:
    return json.dumps(chat, **form).encode()
