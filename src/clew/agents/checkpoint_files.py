"""Checkpoints of working files in a mirror: a manifest, and file contents named by their SHA-256.

They cover files in the session's directory. A fork has only the checkpoints that it took itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256

from clew.agents import files, jsonl, metadata
from clew.checkpoints import FileState, serial
from clew.checkpoints.transfer import CheckpointImport, carry_in, carry_out, mark, place
from clew.errors import ClewError, Corrupted, Invalid, NotFound
from clew.store.session import Session

MANIFEST, FILES = "manifest.json", "files"
MOST = 64 * 1024 * 1024
"""Maximum size of a manifest in bytes."""
MEMORY = 64 * 1024 * 1024
"""Bytes of contents kept in memory before they are stored; contents beyond that are read twice."""
LARGEST = 1 << 30
"""Maximum size of one file in bytes."""

Skip = Callable[[str, str], None]
"""Called with each checkpoint that could not be imported, and the reason."""

__all__ = ["mark", "take", "write"]


def write(at: str, session: Session) -> None:
    """Writes a session's checkpoints into a folder. Skips files that are already there and correct."""
    for checkpoint, content in carry_out(session):
        here = os.path.join(at, checkpoint.message)
        manifest = jsonl.encode(checkpoint.manifest()) + b"\n"
        if files.read(os.path.join(here, MANIFEST), len(manifest) + 1) == manifest:
            continue
        files.make(os.path.join(here, FILES))
        for state in checkpoint.states.values():
            path = os.path.join(here, FILES, state.digest)
            if state.kind == "file" and not os.path.lexists(path):
                files.replace(path, [content(state)])
        files.replace(os.path.join(here, MANIFEST), [manifest])


def take(at: str, session: Session, skip: Skip) -> int:
    """Stores the checkpoints of a folder that the session does not have. Returns how many.

    If one cannot be read, it and all earlier ones are skipped, because going back to those would need it. If the
    session has other checkpoints, all are skipped.
    """
    try:
        names = sorted(os.listdir(at))
    except FileNotFoundError:
        return 0
    except OSError as error:
        skip(at, f"cannot read it: {error.strerror}")
        return 0
    if names and place(session) is None:
        skip(at, "the session has no directory for its files")
        return 0
    found = sorted(_all(at, names, session), key=lambda one: one[0])
    broken = max((number for number, (_, _, one) in enumerate(found) if isinstance(one, str)), default=-1)
    for _, path, one in found[: broken + 1]:
        skip(path, one if isinstance(one, str) else f"a later one is incomplete: {os.path.basename(found[broken][1])}")
    taken = carry_in(session, [one for _, _, one in found[broken + 1 :] if isinstance(one, CheckpointImport)])
    if taken is None:
        skip(at, "the session has other checkpoints in the store; these cannot be inserted between them")
    return taken or 0


def _all(at: str, names: list[str], session: Session) -> Iterator[tuple[datetime, str, CheckpointImport | str]]:
    """Each checkpoint with its time and path, or the reason it cannot be read.

    A checkpoint with an unreadable manifest may be the newest.
    """
    contents = _Contents()
    for name in names:
        here = os.path.join(at, name)
        when = datetime.max.replace(tzinfo=UTC)
        try:
            one = _read(here, name, place(session) or "", contents)
            when = one.created_at
            for entry in one.manifest.files:
                if entry.state.kind == "file":
                    one.content(entry.state)
            yield when, here, one
        except ClewError as error:
            yield when, here, error.message


class _Contents:
    """Yields file contents, from memory where possible, so that a transaction does not wait for a slow disk."""

    def __init__(self) -> None:
        self._room = MEMORY
        self._found: dict[str, bytes] = {}

    def get(self, here: str, state: FileState) -> bytes:
        """A file's content, checked against its hash."""
        if state.digest in self._found:
            return self._found[state.digest]
        data = _content(here, state)
        if len(data) <= self._room:
            self._found[state.digest] = data
            self._room -= len(data)
        return data


def _read(here: str, name: str, root: str, contents: _Contents) -> CheckpointImport:
    path = os.path.join(here, MANIFEST)
    raw = files.read(path, MOST + 1)
    if raw is None or len(raw) > MOST:
        raise Invalid(f"its {MANIFEST} is missing or too long")
    data = jsonl.decode(jsonl.compact(raw))
    manifest = serial.manifest(data, root)
    if manifest.message != name:
        raise Invalid("its message does not match the name of its folder")
    written = datetime.fromtimestamp(os.lstat(path).st_mtime, UTC)
    return CheckpointImport(metadata._moment(data.get("created_at")) or written, manifest, partial(contents.get, here))


def _content(here: str, state: FileState) -> bytes:
    if state.size > LARGEST:
        raise Invalid(f"a file has more than {LARGEST:,} bytes")
    data = files.read(os.path.join(here, FILES, state.digest), state.size + 1)
    if data is None:
        raise NotFound("content", state.digest)
    if sha256(data).hexdigest() != state.digest:
        raise Corrupted(f"content {state.digest}")
    return data
