"""Conversations to be kept."""

from __future__ import annotations

import uuid
from typing import Any

from clew.records import ConversationRecord, Pending, RecordService

AT = "2025-10-21T12:00:00.000Z"
CLEAN = {"containsSecrets": False, "redactionRulesApplied": []}


def frame(
    sequence: int = 1, role: str = "user", content: str = "Why is the build failing?", **more: Any
) -> dict[str, Any]:
    """A message, as a program in another language writes it."""
    return {
        "frameId": str(uuid.uuid4()), "sequence": sequence, "role": role, "content": content, "createdAt": AT,
        "privacy": CLEAN, **more,
    }  # fmt: skip


def given(conversation_id: str | None = None, *frames: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A record to be created."""
    return {
        "conversationId": conversation_id or str(uuid.uuid4()), "title": "Debugging failing test", "createdAt": AT,
        "participants": [{"id": "user-default", "role": "user", "displayName": "You"}],
        "messages": list(frames) or [frame()], **more,
    }  # fmt: skip


def summary(synopsis: str = "Identified lint failure") -> dict[str, Any]:
    """The summary of a conversation."""
    return {"synopsis": synopsis, "lastUpdatedAt": AT, "keywords": ["lint"]}


def snapshot(conversation_id: str, *frames: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The pending part of a conversation."""
    return {
        "conversationId": conversation_id, "sessionId": "session-1", "lastInteractionAt": AT, "updatedAt": AT,
        "pendingMessages": list(frames), **more,
    }  # fmt: skip


def stored(outcome: ConversationRecord | Pending[ConversationRecord]) -> ConversationRecord:
    """A record that was stored, not deferred."""
    assert isinstance(outcome, ConversationRecord)
    return outcome


def made(
    service: RecordService, conversation_id: str | None = None, *frames: dict[str, Any], **more: Any
) -> ConversationRecord:
    """A record that was created."""
    return stored(service.create(given(conversation_id, *frames, **more)))


def texts(record: ConversationRecord | None) -> list[str]:
    """The texts of the messages."""
    assert record is not None
    return [message.content for message in record.messages]
