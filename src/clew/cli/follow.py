"""Follows the transcript that a coding agent writes: each of its lines, once, into the log of the session; and the
messages among them into the session.

An entry is the byte 0x01 and the line, a JSON object. How far the file was read is in the session's free data, and
changes with the log in one transaction: a line is neither lost nor kept twice, whoever is cut short.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

import clew
from clew.agents.lines import open_regular
from clew.cli.said import Talk, is_prompt
from clew.errors import Conflict, Invalid, NotFound

_TAG = b"\x01"
PIECE = 8 * 1024 * 1024
"""Bytes that are taken over in one transaction."""
LONGEST = 64 * 1024 * 1024
"""Bytes of a line at most; of a longer one it is noted that it was there."""
BACK = 16 * 1024 * 1024
"""How far back from the end the last prompt is looked for."""
_BLOCK = 1 << 16


class _Mark(NamedTuple):
    """Which file was read, told by its path and its first line, how far, and the answer that was counted last, with
    what was counted.
    """

    path: str
    first: str
    offset: int
    answer: str | None
    counted: dict[str, int]


class Prompt(NamedTuple):
    """What a person said: the message's id, and that of the prompt it belongs to, if the transcript tells."""

    message: str
    prompt: str | None


def follow(store: clew.Store, session: clew.Session, path: str) -> int:
    """Takes over the lines that are whole and new. Returns how many. OSError if the file cannot be read."""
    total = 0
    while True:
        with store.transaction():
            taken = _some(store, session.refresh(), path)
        total += taken
        if not taken:
            return total


def _some(store: clew.Store, session: clew.Session, path: str) -> int:
    with _opened(path) as file:
        first = hashlib.sha256(file.readline(_BLOCK)).hexdigest()[:16]
        mark = _marked(session, path, first, os.fstat(file.fileno()).st_size)
        file.seek(mark.offset)
        piece = file.read(PIECE)
        whole = piece[: piece.rfind(b"\n") + 1]
        if not whole and len(piece) == PIECE:
            piece += file.readline(LONGEST)
            whole = piece if piece.endswith(b"\n") else b""
        beyond = 0 if whole or len(piece) < LONGEST else _end_of_line(file)
    at, lines, talk = mark.offset, 0, Talk(store, session, mark.answer, mark.counted)
    if beyond:
        _left_out(session, beyond - at, str(uuid.uuid5(uuid.UUID(session.id), f"line {at}")))
        at, lines = beyond, 1
    for line in whole.split(b"\n")[:-1]:
        event = _event(line)
        if event is not None:
            _keep(session, event, line, at)
            talk.take(event, line)
        at += len(line) + 1
        lines += 1
    if lines:
        beside = {"path": path, "first": first, "offset": at, "answer": talk.answer, "counted": talk.counted}
        session.update(extra={**session.refresh().extra, "transcript": beside})
    return lines


def _opened(path: str) -> IO[bytes]:
    """The transcript, to read. FileNotFoundError; Unavailable if it is not a file: a pipe would be waited for."""
    try:
        return os.fdopen(open_regular(path), "rb")
    except NotFound:
        raise FileNotFoundError(path) from None


def _end_of_line(file: IO[bytes]) -> int:
    """Where the line ends that is being read; 0 if it does not end yet."""
    while block := file.read(PIECE):
        at = block.find(b"\n")
        if at >= 0:
            return file.tell() - len(block) + at + 1
    return 0


def _marked(session: clew.Session, path: str, first: str, size: int) -> _Mark:
    """How far the file was read; from its beginning, if it is another one now."""
    said = session.extra.get("transcript")
    known = said if isinstance(said, dict) else {}
    offset, answer = known.get("offset"), known.get("answer")
    if (known.get("path"), known.get("first")) != (path, first) or not isinstance(offset, int) or offset > size:
        return _Mark(path, first, 0, None, {})
    said = known.get("counted")
    counted = {name: value for name, value in said.items() if type(value) is int} if isinstance(said, dict) else {}
    return _Mark(path, first, max(0, offset), answer if isinstance(answer, str) else None, counted)


def _keep(session: clew.Session, event: dict[str, Any], line: bytes, at: int) -> None:
    base = uuid.UUID(session.id)
    name = event.get("uuid")
    other = str(uuid.uuid5(base, f"line {at} {hashlib.sha256(line).hexdigest()}"))
    own = str(uuid.uuid5(base, f"event {name}")) if isinstance(name, str) and name.isprintable() else other
    try:
        session.log.append(_TAG + line, id=own)
    except Conflict:  # two lines of one name: both are kept
        session.log.append(_TAG + line, id=other)
    except Invalid:
        _left_out(session, len(line), other)


def _left_out(session: clew.Session, size: int, id: str) -> None:
    note = json.dumps({"type": "clew-skipped", "why": "the line is too long", "bytes": size}).encode()
    session.log.append(_TAG + note, id=id)


def _event(line: bytes) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None


def last_prompt(path: str, prompt: str | None = None) -> Prompt | None:
    """The last thing a person said in a transcript, or the message of a prompt; None if it is not found."""
    for line in _backwards(path):
        if b'"user"' not in line:
            continue
        event = _event(line)
        if event is not None and is_prompt(event) and (prompt is None or event.get("promptId") == prompt):
            of = event.get("promptId")
            return Prompt(event["uuid"], of if isinstance(of, str) else None)
    return None


def _backwards(path: str) -> Iterator[bytes]:
    """The whole lines of a file, the last first, as far as `BACK`."""
    with _opened(path) as file:
        at = file.seek(0, os.SEEK_END)
        rest, least = b"", max(0, at - BACK)
        while at > least:
            size = min(_BLOCK, at)
            at -= size
            file.seek(at)
            parts = (file.read(size) + rest).split(b"\n")
            rest = parts[0]
            yield from reversed(parts[1:])
        if at == 0:
            yield rest
