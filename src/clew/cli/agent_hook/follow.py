"""Copies the transcript of a coding agent: every line once into the log of the session, and messages into the session.

A log entry is the byte 0x01 and the line, a JSON object. The position in the file is stored in the session's extra data
in the same transaction as the log: a line is neither lost nor stored twice. No transaction is open while the file is
read.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Iterator
from contextlib import suppress
from typing import IO, Any, NamedTuple

import clew
from clew.agents.jsonl import open_regular
from clew.cli.agent_hook.transcript import TranscriptMessages, is_prompt
from clew.errors import Conflict, Invalid, NotFound
from clew.providers.view import integer

_TAG = b"\x01"
PIECE = 1024 * 1024
"""Bytes to read and store in one transaction."""
LINES = 500
"""Maximum lines per transaction, which takes a fraction of a second."""
LONGEST = 64 * 1024 * 1024
"""Longest line in bytes; a longer one is replaced by a note."""
SCAN = 32 * 1024 * 1024
"""Bytes to read of a longer line before the position is stored."""
BACK = 16 * 1024 * 1024
"""Bytes from the end in which the last prompt is searched."""
_BLOCK = 1 << 16


class _Mark(NamedTuple):
    """The position in a file, identified by path and first line, and the answer last counted."""

    path: str
    first: str
    offset: int
    answer: str | None
    counted: dict[str, int]
    """The usage of that answer counted so far."""
    scanned: int
    """How far the line at `offset`, which is too long to store, was read."""


class _Piece(NamedTuple):
    """The data after a mark: whole lines, or part of a line that is too long."""

    lines: list[bytes]
    scanned: int = 0
    """The end of the part read of a long line; the line ends there if `ended`."""
    ended: bool = False


class TranscriptPrompt(NamedTuple):
    """A user message: its ID, and the ID of its prompt if the transcript contains it."""

    message: str
    prompt: str | None


class Follower:
    """Copies a transcript into a session, piece by piece."""

    def __init__(self, store: clew.Store, session: clew.Session, path: str) -> None:
        self._store = store
        self._session = session
        self._path = path
        self._above: dict[str, str | None] = {}
        self.left = 0
        """Bytes of the file that are not copied yet."""

    def run(self) -> int:
        """Copies new complete lines; returns their number. OSError if the file cannot be read.

        It can be interrupted at any time; the next call continues.
        """
        total = 0
        with _open(self._path) as file:
            first = hashlib.sha256(file.readline(_BLOCK)).hexdigest()[:16]
            while True:
                size = os.fstat(file.fileno()).st_size
                mark = _read_mark(self._session.refresh(), self._path, first, size)
                self.left = size - max(mark.offset, mark.scanned)
                piece = _read(file, mark)
                if not piece.lines and piece.scanned <= mark.scanned:
                    return total
                with self._store.transaction():
                    if (
                        _read_mark(self._session.refresh(), self._path, first, size) == mark
                    ):  # otherwise another process was faster
                        self._keep(mark, piece)
                        total += len(piece.lines) + piece.ended

    def _keep(self, mark: _Mark, piece: _Piece) -> None:
        at, session = mark.offset, self._session
        messages = TranscriptMessages(self._store, session, mark.answer, mark.counted, self._above)
        if piece.ended:
            _log_skipped(session, piece.scanned - at, str(uuid.uuid5(uuid.UUID(session.id), f"line {at}")))
            at = piece.scanned
        for line in piece.lines:
            event = _event(line)
            if event is not None:
                _log_line(session, event, line, at)
                messages.take(event, line)
            at += len(line) + 1
        new = mark._replace(
            offset=at, answer=messages.answer, counted=messages.counted, scanned=0 if piece.ended else piece.scanned
        )
        session.update(extra={**session.refresh().extra, "transcript": new._asdict()})


def behind(session: clew.Session) -> str | None:
    """The path of a session's transcript if it has lines that are not copied yet."""
    known = session.extra.get("transcript")
    path = known.get("path") if isinstance(known, dict) else None
    with suppress(OSError, ValueError):
        return path if isinstance(path, str) and os.stat(path).st_size > _number(known, "offset") else None
    return None


def _read(file: IO[bytes], mark: _Mark) -> _Piece:
    """The data after a mark; an empty piece if there is none."""
    if mark.scanned:
        return _scan(file, mark.scanned)
    file.seek(mark.offset)
    blocks, size = list[bytes](), 0
    while size < LONGEST and (block := file.read(PIECE)):  # in blocks, because a long read cannot be interrupted
        blocks.append(block)
        size += len(block)
        if b"\n" in block:
            return _Piece(b"".join(blocks).split(b"\n")[:-1][:LINES])
    return _Piece([], mark.offset + size if size >= LONGEST else 0)


def _scan(file: IO[bytes], at: int) -> _Piece:
    """Searches the end of a line that is too long."""
    file.seek(at)
    until = at + SCAN
    while at < until and (block := file.read(PIECE)):
        end = block.find(b"\n")
        if end >= 0:
            return _Piece([], at + end + 1, ended=True)
        at += len(block)
    return _Piece([], at)


def _open(path: str) -> IO[bytes]:
    """Opens the transcript. FileNotFoundError; Unavailable if it is not a regular file: a pipe would block."""
    try:
        return os.fdopen(open_regular(path), "rb")
    except NotFound:
        raise FileNotFoundError(path) from None


def _read_mark(session: clew.Session, path: str, first: str, size: int) -> _Mark:
    """The stored position in the file; its start if the file was replaced."""
    stored = session.extra.get("transcript")
    known = stored if isinstance(stored, dict) else {}
    offset, scanned, answer = _number(known, "offset"), _number(known, "scanned"), known.get("answer")
    if (known.get("path"), known.get("first")) != (path, first) or max(offset, scanned) > size:
        return _Mark(path, first, 0, None, {}, 0)
    used = known.get("counted")
    counted = {name: value for name, value in used.items() if type(value) is int} if isinstance(used, dict) else {}
    return _Mark(path, first, offset, answer if isinstance(answer, str) else None, counted, scanned)


def _number(known: Any, name: str) -> int:
    found = known.get(name)
    return max(0, found) if isinstance(found, int) else 0


def _log_line(session: clew.Session, event: dict[str, Any], line: bytes, at: int) -> None:
    base = uuid.UUID(session.id)
    name = event.get("uuid")
    other = str(uuid.uuid5(base, f"line {at} {hashlib.sha256(line).hexdigest()}"))
    own = str(uuid.uuid5(base, f"event {name}")) if isinstance(name, str) and name.isprintable() else other
    try:
        session.log.append(_TAG + line, id=own)
    except Conflict:  # two lines with the same uuid: store both
        session.log.append(_TAG + line, id=other)
    except Invalid:
        _log_skipped(session, len(line), other)


def _log_skipped(session: clew.Session, size: int, id: str) -> None:
    note = json.dumps({"type": "clew-skipped", "why": "the line is too long", "bytes": size}).encode()
    session.log.append(_TAG + note, id=id)


def _event(line: bytes) -> dict[str, Any] | None:
    try:
        event = json.loads(line, parse_int=integer)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None


def last_prompt(path: str, prompt: str | None = None) -> TranscriptPrompt | None:
    """The last user message of a transcript, or that of a prompt; None if not found."""
    for line in _backwards(path):
        if b'"user"' not in line:
            continue
        event = _event(line)
        if event is not None and is_prompt(event) and (prompt is None or event.get("promptId") == prompt):
            of = event.get("promptId")
            return TranscriptPrompt(event["uuid"], of if isinstance(of, str) else None)
    return None


def _backwards(path: str) -> Iterator[bytes]:
    """The complete lines of a file, last first, within `BACK` bytes from the end."""
    with _open(path) as file:
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
