"""Where a store is mirrored in files, and what is still to be removed there.

A mirror is a copy of sessions in clear text, in a folder: see `clew.agents.Mirror`. The store knows the folders of each
workspace, as the data of a ref that is sealed with the rest. A deletion of something that a mirror may have notes the
sessions in its own transaction, and removes their files after it. A folder that cannot be reached keeps its notes, and
the receipt names it: the next purge, or the next program that opens the mirror, removes the files.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress

import msgspec

from clew import files, ids
from clew.backends import RefRow, Tx
from clew.engine import Engine
from clew.errors import ClewError, Conflict, Invalid, Tampered
from clew.refs import Refs

MIRRORS = "mirrors"
"""Kind of the one ref that holds the folders."""
FORMAT = 1
MARKER, LOCK = ".clew-mirror.json", ".lock"
SESSIONS, CHECKPOINTS = "sessions", "checkpoints"
METADATA, MESSAGES, TRANSCRIPT = "metadata.json", "messages.jsonl", "transcript.jsonl"
FILES = (METADATA, MESSAGES, TRANSCRIPT)
PART = ".part"
"""Ends the name of a file until it is whole. One that is there when nobody writes was left by a crash."""
PENDING = "mirror "
"""What a receipt says of a folder that could not be reached begins with this."""
PATIENCE = 5.0
"""Seconds that a purge waits for whoever writes to a mirror."""


class Marker(msgspec.Struct, omit_defaults=True):
    """What the file says that makes a folder the mirror of a store."""

    format: int
    store: str
    workspace: str = ""
    """Keyed hash of its name, if it has one: what is rebuilt for one must not take away another's."""


class _Folders(msgspec.Struct, omit_defaults=True):
    folders: dict[str, list[str]] = {}
    """Each with the ids of the sessions whose files are still to go."""


class Mirrors:
    """The mirrors of a store's workspace."""

    def __init__(self, engine: Engine, refs: Refs) -> None:
        self._engine = engine
        self._refs = refs

    def add(self, root: str) -> bool:
        """Remembers a folder, before anything is written there. True if something is still to be removed in it."""
        found = self._engine.read(self._folders)
        if root not in found:
            self._engine.write(lambda tx: self._set(tx, {root: [], **self._folders(tx)}))
        return bool(found.get(root))

    def forget(self, root: str) -> None:
        """Forgets a folder that is gone for good: receipts name it no more."""
        self._engine.write(
            lambda tx: self._set(tx, {name: left for name, left in self._folders(tx).items() if name != root})
        )

    def folders(self) -> tuple[str, ...]:
        """The folders that are known."""
        return tuple(self._engine.read(self._folders))

    def note(self, tx: Tx, sessions: Iterable[str]) -> None:
        """Notes, in the transaction that deletes something of these sessions, that their files are to go."""
        found, names = self._folders(tx), list(sessions)
        if found and names:
            self._set(tx, {root: [*dict.fromkeys((*left, *names))] for root, left in found.items()})

    def clear(self) -> tuple[str, ...]:
        """Removes the files that are to go. Returns the folders where that is not done yet, as receipts name them."""
        waiting = {root: left for root, left in self._engine.read(self._folders).items() if left}
        if not waiting or self._engine.backend.in_transaction():  # it may be undone
            return tuple(PENDING + root for root in waiting)
        done = {root: left for root, left in waiting.items() if self._removed(root, left)}
        if done:
            self._engine.write(lambda tx: self._drop(tx, done))
        return tuple(PENDING + root for root in waiting if root not in done)

    def marker(self) -> Marker:
        """What makes a folder the mirror of this store and workspace."""
        name = self._engine.workspace
        look = self._engine.look("mirror", name.encode()).hex() if name else ""
        return Marker(FORMAT, self._engine.store_id.hex(), look)

    def check(self, root: str) -> None:
        """Invalid, Conflict unless a folder is the mirror of this store and workspace. OSError if it is not there."""
        path, mine = os.path.join(root, MARKER), self.marker()
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as file:
            raw = file.read(4096)
        try:
            found = msgspec.json.decode(raw, type=Marker)
        except msgspec.DecodeError:
            raise Invalid(f"{path} cannot be understood", hint="Name a new folder.") from None
        if found.format > FORMAT:
            raise Invalid(f"{root} was written by a newer clew", hint="Upgrade clew, or name a new folder.")
        if found.store != mine.store:
            raise Conflict(f"{root} is the mirror of another store", hint="Name another folder.")
        if found.workspace != mine.workspace:
            raise Conflict(f"{root} is the mirror of another workspace", hint="Name another folder.")

    def _removed(self, root: str, sessions: Iterable[str]) -> bool:
        """Removes files; False if the folder cannot be reached, or is not the mirror any more."""
        try:
            self.check(root)
            with files.lock(os.path.join(root, LOCK), PATIENCE):
                for session in sessions:
                    remove(root, session)
        except (OSError, ClewError):
            return False
        return True

    def _folders(self, tx: Tx) -> dict[str, list[str]]:
        row = self._refs.own(tx, MIRRORS)
        return {} if row is None else self._read(row)

    def _read(self, row: RefRow) -> dict[str, list[str]]:
        payload = self._refs.data(self._refs.checked(row))
        try:
            return msgspec.json.decode(payload[1:], type=_Folders).folders
        except msgspec.DecodeError:
            raise Tampered("the list of mirrors", "it does not decode") from None

    def _set(self, tx: Tx, folders: dict[str, list[str]]) -> None:
        row = self._refs.checked(self._refs.add_own(tx, MIRRORS))
        if self._read(row) != folders:
            self._refs.change(tx, row, b"\x01" + msgspec.json.encode(_Folders(folders)), look=None)

    def _drop(self, tx: Tx, done: dict[str, list[str]]) -> None:
        """Takes back what was noted and is done; what was noted since stays."""
        now = self._folders(tx)
        for root, sessions in done.items():
            if root in now:
                now[root] = [one for one in now[root] if one not in sessions]
        self._set(tx, now)


def remove(root: str, session_id: str) -> int:
    """Takes away the files of a session, and nothing else that lies beside them. Returns how many bytes they had."""
    freed = 0
    for project in os.listdir(root):
        place = os.path.join(root, project, SESSIONS, session_id)
        if not is_id(session_id) or not os.path.isdir(place) or os.path.islink(place):
            continue
        freed += size(place)
        shutil.rmtree(os.path.join(place, CHECKPOINTS), ignore_errors=True)
        for name in FILES:
            for one in (name, name + PART):
                with suppress(FileNotFoundError):
                    os.unlink(os.path.join(place, one))
        with suppress(OSError):  # what someone else has put there stays
            os.rmdir(place)
        files.sync_folder(os.path.dirname(place))
    return freed


def size(place: str) -> int:
    """Bytes of the files of a session in a mirror."""
    total = 0
    for at, _, names in os.walk(place):
        for name in names:
            with suppress(FileNotFoundError):
                total += os.lstat(os.path.join(at, name)).st_size
    return total


def is_id(name: str) -> bool:
    """True for the name of a session's folder."""
    stored = ids.maybe(name)
    return stored is not None and ids.text(stored) == name
