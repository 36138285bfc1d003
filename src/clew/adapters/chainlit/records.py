"""Chainlit's records as messages of a session, and its threads in the free data of sessions."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from clew.base.messages import ATTACHED, Native
from clew.engine.blobs import Blob
from clew.engine.session_data import SessionData, label_set
from clew.engine.titles import title_line

TOOL = "chainlit"
"""Also where a session's free data has the thread."""
Record = dict[str, Any]


class Thread(msgspec.Struct, frozen=True):
    """The fields of a thread, without its steps and elements."""

    name: str | None = None
    user: str | None = None
    tags: list[str] | None = None
    metadata: str = "{}"
    """JSON text, which keeps every value."""
    favorites: tuple[str, ...] = ()
    """The ids of its favorite steps."""


def read_thread(data: SessionData) -> Thread:
    """The thread in a session's data. Its name is the session's title, if that was changed since."""
    found = msgspec.convert((data.extra or {}).get(TOOL) or {}, Thread)
    return found if data.title == title_line(found.name) else msgspec.structs.replace(found, name=data.title)


def write_thread(data: SessionData, thread: Thread) -> SessionData:
    """A session's data with a thread."""
    extra = {**(data.extra or {}), TOOL: msgspec.to_builtins(thread)}
    labels = [label for label in data.labels if not label.startswith(f"{TOOL}:")]
    labels += [] if thread.user is None else [user_label(thread.user)]
    title = title_line(thread.name)
    return msgspec.structs.replace(data, title=title, labels=label_set(labels), extra=extra)


def user_label(user: str) -> str:
    """The label of a user's threads."""
    return f"{TOOL}:{user}"


def is_message(step: Record) -> bool:
    """True if a step is part of the conversation: a message, or a call that has ended. A run repeats others."""
    kind = str(step.get("type"))
    return kind.endswith("_message") or (kind != "run" and step.get("end") is not None)


def step_message(step: Record) -> Native:
    """A step as a message, with its model and token counts."""
    about = step.get("generation") or {}
    used = {"input": about.get("inputTokenCount"), "output": about.get("outputTokenCount")}
    extra: Record = {"usage": used} if any(type(count) is int for count in used.values()) else {}
    if isinstance(about.get("model"), str):
        extra["model"] = about["model"]
    return Native(TOOL, _encode({"step": step}), extra=extra or None)


def element_message(element: Record, role: str, blob: Blob | None) -> Native:
    """An element as a message; `blob` has its content."""
    extra = None
    if blob is not None:
        about = {"blob": blob.digest, "mime_type": element.get("mime"), "name": element.get("name")}
        extra = {ATTACHED: {element["id"]: {name: value for name, value in about.items() if value}}}
    return Native(TOOL, _encode({"element": element, "role": role}), extra=extra)


def content_of(message: Native) -> str | None:
    """The digest of the blob that has the content of an element."""
    for about in ((message.extra or {}).get(ATTACHED) or {}).values():
        digest: str = about["blob"]
        return digest
    return None


def _encode(record: Record) -> bytes:
    return json.dumps(record, ensure_ascii=False).encode()
