"""Checkpoints of working files as a mirror shows them: a manifest, and contents named by their SHA-256.

They are those of files in the session's directory; a fork's are those that it has taken itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256

from clew.agents import folder, lines, metadata
from clew.checkpoints import State, wire
from clew.checkpoints.transfer import Carried, carry_in, carry_out, mark, place
from clew.errors import ClewError, Invalid, NotFound, Tampered
from clew.session import Session

MANIFEST, FILES = "manifest.json", "files"
MOST = 64 * 1024 * 1024
"""Bytes of a manifest at most."""
MEMORY = 64 * 1024 * 1024
"""Bytes of contents that are read before they are stored; those beyond are read again while they are."""
LARGEST = 1 << 30
"""Bytes of one file's content at most."""

Skip = Callable[[str, str], None]
"""Told what could not be taken, and why."""

__all__ = ["mark", "take", "write"]


def write(at: str, session: Session) -> None:
    """Writes a session's checkpoints into a folder; what is there and right is not written again."""
    for checkpoint, content in carry_out(session):
        here = os.path.join(at, checkpoint.message)
        manifest = lines.encode(checkpoint.manifest()) + b"\n"
        if folder.read(os.path.join(here, MANIFEST), len(manifest) + 1) == manifest:
            continue
        folder.make(os.path.join(here, FILES))
        for state in checkpoint.states.values():
            path = os.path.join(here, FILES, state.digest)
            if state.kind == "file" and not os.path.lexists(path):
                folder.replace(path, [content(state)])
        folder.replace(os.path.join(here, MANIFEST), [manifest])


def take(at: str, session: Session, skip: Skip) -> int:
    """Stores the checkpoints in a folder that a session does not have. Returns how many.

    If one cannot be read, it and those before it are left out: going back to them would miss what it has. All are, if
    the session has others.
    """
    try:
        names = sorted(os.listdir(at))
    except FileNotFoundError:
        return 0
    except OSError as error:
        skip(at, f"it cannot be read: {error.strerror}")
        return 0
    if names and place(session) is None:
        skip(at, "the session has no directory that its files could be in")
        return 0
    found = sorted(_all(at, names, session), key=lambda one: one[0])
    broken = max((number for number, (_, _, one) in enumerate(found) if isinstance(one, str)), default=-1)
    for _, path, one in found[: broken + 1]:
        skip(path, one if isinstance(one, str) else f"one after it is not whole: {os.path.basename(found[broken][1])}")
    taken = carry_in(session, [one for _, _, one in found[broken + 1 :] if isinstance(one, Carried)])
    if taken is None:
        skip(at, "the session has other checkpoints in the store, and these cannot be put in between")
    return taken or 0


def _all(at: str, names: list[str], session: Session) -> Iterator[tuple[datetime, str, Carried | str]]:
    """Each checkpoint with its time and its place, or why it cannot be taken.

    One whose manifest cannot be read may have been taken after all others.
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
    """The contents of files, those that were read first from memory: a slow disk is not waited for in a transaction."""

    def __init__(self) -> None:
        self._room = MEMORY
        self._found: dict[str, bytes] = {}

    def get(self, here: str, state: State) -> bytes:
        """A file's content, compared with its hash."""
        if state.digest in self._found:
            return self._found[state.digest]
        data = _content(here, state)
        if len(data) <= self._room:
            self._found[state.digest] = data
            self._room -= len(data)
        return data


def _read(here: str, name: str, root: str, contents: _Contents) -> Carried:
    path = os.path.join(here, MANIFEST)
    raw = folder.read(path, MOST + 1)
    if raw is None or len(raw) > MOST:
        raise Invalid(f"its {MANIFEST} is missing or too long")
    told = lines.decode(lines.compact(raw))
    manifest = wire.manifest(told, root)
    if manifest.message != name:
        raise Invalid("its message is not the name of its folder")
    written = datetime.fromtimestamp(os.lstat(path).st_mtime, UTC)
    return Carried(metadata._moment(told.get("created_at")) or written, manifest, partial(contents.get, here))


def _content(here: str, state: State) -> bytes:
    if state.size > LARGEST:
        raise Invalid(f"a file has more than {LARGEST:,} bytes")
    data = folder.read(os.path.join(here, FILES, state.digest), state.size + 1)
    if data is None:
        raise NotFound("content", state.digest)
    if sha256(data).hexdigest() != state.digest:
        raise Tampered(f"content {state.digest}")
    return data
