"""Entries as Claude Code writes them."""

from __future__ import annotations

import uuid
from typing import Any

SESSION = "7d9f2c58-1d0f-4a57-9a57-0f5a3c1f2b10"


def key(**more: str) -> Any:
    """The key of a transcript."""
    return {"project_key": "-work-app", "session_id": SESSION, **more}


def id(number: int) -> str:
    """The uuid of an entry."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, str(number)))


def entry(number: int, text: str, *, role: str | None = None) -> dict[str, Any]:
    """An entry that follows the one before it."""
    role = role or ("user" if number % 2 == 0 else "assistant")
    content: Any = text if role == "user" else [{"type": "text", "text": text}]
    return {
        "parentUuid": id(number - 1) if number else None,
        "isSidechain": False,
        "userType": "external",
        "cwd": "/work/app",
        "sessionId": SESSION,
        "version": "2.1.0",
        "type": role,
        "message": {"role": role, "content": content},
        "uuid": id(number),
        "timestamp": f"2026-11-01T10:00:{number % 60:02}.000Z",
    }
