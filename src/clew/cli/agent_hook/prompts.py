"""Finds two messages in a coding agent's transcript: the first one, and the last prompt, which the agent works for."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from clew.base.outside import open_regular
from clew.providers.view import integer

BACK = 16 * 1024 * 1024
"""Bytes from the end in which the last prompt is searched."""
FIRST = 20
"""Lines in which the first message is searched."""
_BLOCK = 1 << 16


class TranscriptPrompt(NamedTuple):
    """A user message: its ID, and the ID of its prompt if the transcript contains it."""

    message: str
    prompt: str | None


def last_prompt(path: str, prompt: str | None = None) -> TranscriptPrompt | None:
    """The last user message of a transcript, or that of a prompt; None if not found. Unavailable, Invalid."""
    for line in _backwards(path):
        if b'"user"' not in line:
            continue
        event = _event(line)
        if event is not None and _is_prompt(event) and (prompt is None or event.get("promptId") == prompt):
            of = event.get("promptId")
            return TranscriptPrompt(event["uuid"], of if isinstance(of, str) else None)
    return None


def first_message(path: str) -> str | None:
    """The ID of the first message of a transcript; None if it is not among the first lines. Unavailable, Invalid."""
    with open_regular(path) as file:
        for _ in range(FIRST):
            line = file.readline(BACK)
            if not line.endswith(b"\n"):
                break
            event = _event(line) or {}
            name = event.get("uuid")
            if event.get("type") in ("user", "assistant") and isinstance(name, str):
                return name
    return None


def _is_prompt(event: dict[str, Any]) -> bool:
    """True for a message of the user; tool results and internal messages have the same role."""
    message = event.get("message")
    if event.get("type") != "user" or event.get("isMeta") or event.get("isSidechain") or not isinstance(message, dict):
        return False
    content = message.get("content")
    if isinstance(content, list):
        kinds = {part.get("type") for part in content if isinstance(part, dict)}
        return "tool_result" not in kinds and isinstance(event.get("uuid"), str)
    return isinstance(content, str) and isinstance(event.get("uuid"), str)


def _event(line: bytes) -> dict[str, Any] | None:
    try:
        event = json.loads(line, parse_int=integer)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None


def _backwards(path: str) -> Iterator[bytes]:
    """The complete lines of a file, last first, within `BACK` bytes from the end."""
    with open_regular(path) as file:
        at = file.seek(0, os.SEEK_END)
        rest, least = list[bytes](), max(0, at - BACK)  # rest: parts of a line whose start is not read yet, last first
        while at > least:
            size = min(_BLOCK, at)
            at -= size
            file.seek(at)
            *whole, last = reversed(file.read(size).split(b"\n"))
            for part in whole:
                yield b"".join([part, *reversed(rest)])
                rest.clear()
            rest.append(last)
        if at == 0:
            yield b"".join(reversed(rest))
