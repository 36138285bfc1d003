"""Follows the transcript that a coding agent writes: each of its lines, once, into the log of the session; and the
messages among them into the session.

An entry is the byte 0x01 and the line, a JSON object. How far the file was read is in the session's free data, and
changes with the log in one transaction: a line is neither lost nor kept twice, whoever is cut short. No transaction is
open while the file is read.
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
from clew.agents.lines import open_regular
from clew.cli.said import Talk, is_prompt
from clew.errors import Conflict, Invalid, NotFound
from clew.providers import integer

_TAG = b"\x01"
PIECE = 1024 * 1024
"""Bytes that are read, and then stored in one transaction."""
LINES = 500
"""Lines that are stored in one transaction at most: one takes a fraction of a second."""
LONGEST = 64 * 1024 * 1024
"""Bytes of a line at most; of a longer one it is noted that it was there."""
STRETCH = 32 * 1024 * 1024
"""Bytes of such a line that are read before it is noted how far that was."""
BACK = 16 * 1024 * 1024
"""How far back from the end the last prompt is looked for."""
_BLOCK = 1 << 16


class _Mark(NamedTuple):
    """Which file was read, known by its path and its first line, how far, and the answer that was counted last."""

    path: str
    first: str
    offset: int
    answer: str | None
    counted: dict[str, int]
    """What that answer has used, as far as it was counted."""
    scanned: int
    """How far a line was read that is too long to be stored, and begins at `offset`."""


class _Piece(NamedTuple):
    """What was read after a mark: whole lines, or a part of a line that is too long."""

    lines: list[bytes]
    scanned: int = 0
    """Where the part of a long line ends that was read; the line itself ends there if `ended`."""
    ended: bool = False


class Prompt(NamedTuple):
    """What a person said: the message's id, and that of the prompt it belongs to, if the transcript tells."""

    message: str
    prompt: str | None


class Follower:
    """Takes over a transcript into a session: a piece is read while no transaction is open, and then stored in one."""

    def __init__(self, store: clew.Store, session: clew.Session, path: str) -> None:
        self._store = store
        self._session = session
        self._path = path
        self._above: dict[str, str | None] = {}
        self.left = 0
        """Bytes of the file that are not taken over."""

    def run(self) -> int:
        """Takes over the lines that are whole and new. Returns how many. OSError if the file cannot be read.

        Whenever it is interrupted, what was stored stays, and the next call continues there.
        """
        total = 0
        with _opened(self._path) as file:
            first = hashlib.sha256(file.readline(_BLOCK)).hexdigest()[:16]
            while True:
                size = os.fstat(file.fileno()).st_size
                mark = _marked(self._session.refresh(), self._path, first, size)
                self.left = size - max(mark.offset, mark.scanned)
                piece = _read(file, mark)
                if not piece.lines and piece.scanned <= mark.scanned:
                    return total
                with self._store.transaction():
                    if _marked(self._session.refresh(), self._path, first, size) == mark:  # else another was faster
                        self._keep(mark, piece)
                        total += len(piece.lines) + piece.ended

    def _keep(self, mark: _Mark, piece: _Piece) -> None:
        at, session = mark.offset, self._session
        talk = Talk(self._store, session, mark.answer, mark.counted, self._above)
        if piece.ended:
            _left_out(session, piece.scanned - at, str(uuid.uuid5(uuid.UUID(session.id), f"line {at}")))
            at = piece.scanned
        for line in piece.lines:
            event = _event(line)
            if event is not None:
                _keep(session, event, line, at)
                talk.take(event, line)
            at += len(line) + 1
        new = mark._replace(
            offset=at, answer=talk.answer, counted=talk.counted, scanned=0 if piece.ended else piece.scanned
        )
        session.update(extra={**session.refresh().extra, "transcript": new._asdict()})


def behind(session: clew.Session) -> str | None:
    """The path of a session's transcript, if that has more than was taken over."""
    known = session.extra.get("transcript")
    path = known.get("path") if isinstance(known, dict) else None
    with suppress(OSError, ValueError):
        return path if isinstance(path, str) and os.stat(path).st_size > _number(known, "offset") else None
    return None


def _read(file: IO[bytes], mark: _Mark) -> _Piece:
    """What comes after a mark; no line, and nothing scanned, if that is nothing yet."""
    if mark.scanned:
        return _scan(file, mark.scanned)
    file.seek(mark.offset)
    blocks, size = list[bytes](), 0
    while size < LONGEST and (block := file.read(PIECE)):  # in blocks: one long read could not be interrupted
        blocks.append(block)
        size += len(block)
        if b"\n" in block:
            return _Piece(b"".join(blocks).split(b"\n")[:-1][:LINES])
    return _Piece([], mark.offset + size if size >= LONGEST else 0)


def _scan(file: IO[bytes], at: int) -> _Piece:
    """Reads on in a line that is too long, for its end."""
    file.seek(at)
    until = at + STRETCH
    while at < until and (block := file.read(PIECE)):
        end = block.find(b"\n")
        if end >= 0:
            return _Piece([], at + end + 1, ended=True)
        at += len(block)
    return _Piece([], at)


def _opened(path: str) -> IO[bytes]:
    """The transcript, to read. FileNotFoundError; Unavailable if it is not a file: a pipe would be waited for."""
    try:
        return os.fdopen(open_regular(path), "rb")
    except NotFound:
        raise FileNotFoundError(path) from None


def _marked(session: clew.Session, path: str, first: str, size: int) -> _Mark:
    """How far the file was read; from its beginning, if it is another one now."""
    said = session.extra.get("transcript")
    known = said if isinstance(said, dict) else {}
    offset, scanned, answer = _number(known, "offset"), _number(known, "scanned"), known.get("answer")
    if (known.get("path"), known.get("first")) != (path, first) or max(offset, scanned) > size:
        return _Mark(path, first, 0, None, {}, 0)
    used = known.get("counted")
    counted = {name: value for name, value in used.items() if type(value) is int} if isinstance(used, dict) else {}
    return _Mark(path, first, offset, answer if isinstance(answer, str) else None, counted, scanned)


def _number(known: Any, name: str) -> int:
    found = known.get(name)
    return max(0, found) if isinstance(found, int) else 0


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
        event = json.loads(line, parse_int=integer)
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
        rest, least = (
            list[bytes](),
            max(0, at - BACK),
        )  # of a line whose beginning was not read yet, the last part first
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
