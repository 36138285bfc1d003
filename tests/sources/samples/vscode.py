"""A chat of VS Code, as a document and as a log of changes."""

from __future__ import annotations

import json
from typing import Any

from tests.sources.made import an_id, jsonl

SESSION = an_id(710)
FOLDER = "User/workspaceStorage/1a2b/chatSessions"
DOCUMENT, LOG = f"{FOLDER}/{SESSION}.json", f"{FOLDER}/{SESSION}.jsonl"
WORKSPACE = {"User/workspaceStorage/1a2b/workspace.json": b'{"folder":"file:///src/my%20app"}'}
START = 1_793_000_000_000


def request(number: int, prompt: str, response: list[Any], **more: Any) -> dict[str, Any]:
    return {
        "requestId": f"request_{an_id(number)}",
        "message": {"text": prompt, "parts": [{"kind": "text", "text": prompt}]},
        "variableData": {"variables": []},
        "response": response,
        "responseId": f"response_{an_id(number)}",
        "modelId": "copilot/gpt-6-sol",
        "timestamp": START + number * 1000,
        "modelState": {"value": 1, "completedAt": START + number * 1000 + 500},
        **more,
    }


CALL = {
    "kind": "toolInvocationSerialized",
    "toolCallId": "c1",
    "toolId": "run_in_terminal",
    "invocationMessage": {"value": "Running tests"},
    "pastTenseMessage": {"value": "Ran tests"},
    "isConfirmed": {"type": 4},
    "isComplete": True,
    "toolSpecificData": {
        "kind": "terminal",
        "commandLine": {"original": "npm test"},
        "terminalCommandState": {"exitCode": 1},
        "terminalCommandOutput": {"text": "1 failed"},
    },
}
READ = {
    "kind": "toolInvocationSerialized",
    "toolCallId": "c2__vscode-17",
    "toolId": "copilot_readFile",
    "isConfirmed": {"type": 1},
    "isComplete": True,
    "pastTenseMessage": "Read app.py",
}
FIRST = request(
    1,
    "Run the tests",
    [
        {"kind": "mcpServersStarting", "didStartServerIds": []},
        {"kind": "thinking", "value": ["I run ", "them."], "id": "t"},
        {"value": "I run the tests in "},
        {"kind": "inlineReference", "inlineReference": {"path": "/src/app.py", "scheme": "file"}, "name": "app.py"},
        {"value": "."},
        CALL,
        READ,
        {"kind": "made.up", "x": 1},
        {"value": "One fails."},
    ],
    promptTokens=120,
    completionTokens=30,
    result={
        "timings": {"totalElapsed": 500},
        "metadata": {
            "toolCallRounds": [
                {"response": "", "toolCalls": [{"id": "c2", "name": "read_file", "arguments": '{"path":"app.py"}'}]}
            ],
            "toolCallResults": {"c2": {"content": [{"value": "print(1)"}]}},
        },
    },
)
LEFT = request(2, "Delete it", [{"value": "Deleted."}])
SECOND = request(3, "Fix it", [{"value": "Fixed."}])
PENDING = request(4, "And now?", [{"value": "Now"}], modelState={"value": 0})
CHAT = {
    "version": 3,
    "responderUsername": "GitHub Copilot",
    "initialLocation": "panel",
    "requests": [FIRST, SECOND, PENDING],
    "sessionId": SESSION,
    "creationDate": START,
    "customTitle": "Run the tests",
    "repoData": {"localBranch": "main"},
}


def document(chat: dict[str, Any] = CHAT) -> bytes:
    return json.dumps(chat, indent=2, ensure_ascii=False).encode()


CHANGES = [
    {"kind": 0, "v": {**CHAT, "requests": [], "customTitle": None}},
    {"kind": 1, "k": ["customTitle"], "v": "Run the tests"},
    {"kind": 2, "k": ["requests"], "v": [{**FIRST, "response": FIRST["response"][:2], "result": None}]},
    {"kind": 2, "k": ["requests", 0, "response"], "v": FIRST["response"][1:], "i": 1},
    {"kind": 1, "k": ["requests", 0, "result"], "v": FIRST["result"]},
    {"kind": 2, "k": ["requests"], "v": [LEFT]},
    {"kind": 2, "k": ["requests"], "v": [SECOND], "i": 1},
    {"kind": 1, "k": ["requests", 1, "vote"], "v": 1},
    {"kind": 3, "k": ["requests", 1, "vote"]},
    {"kind": 9, "k": ["later"], "v": 1},
    {"kind": 2, "k": ["requests"], "v": [PENDING]},
]


def log(changes: list[dict[str, Any]] = CHANGES) -> bytes:
    return jsonl(changes)
