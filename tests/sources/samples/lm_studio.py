"""A conversation of LM Studio with two versions of an answer."""

from __future__ import annotations

import json
from typing import Any

NAME = "1793000000000"
PATH = f"conversations/folder/{NAME}.conversation.json"


def single(role: str, text: str) -> dict[str, Any]:
    return {"type": "singleStep", "role": role, "content": [{"type": "text", "text": text}]}


def step(*content: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "contentBlock", "stepIdentifier": "s", "content": [*content], **more}


STATS = {"stopReason": "eosFound", "promptTokensCount": 30, "predictedTokensCount": 8}
INFO = {"indexedModelIdentifier": "qwen/qwen4-8b", "identifier": "qwen4-8b", "stats": STATS}
ANSWER = {
    "type": "multiStep", "role": "assistant", "senderInfo": {"senderName": "qwen4"},
    "steps": [
        step({"type": "text", "text": "I look."}, style={"type": "thinking", "ended": True}, genInfo=INFO),
        step({"type": "toolCallRequest", "toolCallRequestId": "c1", "name": "ls", "parameters": {"path": "."}}),
        {"type": "toolStatus", "callId": 1, "statusState": {"status": {"type": "toolCallSucceeded"}}},
        step({"type": "toolCallResult", "toolCallRequestId": "c1", "content": '[{"type":"text","text":"a.py"}]'}),
        {"type": "madeUp"},
        step({"type": "text", "text": "It is a.py."}, genInfo=INFO),
    ],
}  # fmt: skip
CHAT = {
    "name": "List it", "pinned": False, "createdAt": 1_793_000_000_000, "systemPrompt": "Be short.",
    "messages": [
        {"versions": [single("user", "List it")], "currentlySelected": 0},
        {"versions": [single("assistant", "No."), ANSWER], "currentlySelected": 1},
        {"versions": [single("user", "Thanks")], "currentlySelected": 0},
    ],
}  # fmt: skip


def document(chat: dict[str, Any] = CHAT, **form: Any) -> bytes:
    return json.dumps(chat, **(form or {"indent": 2})).encode()
