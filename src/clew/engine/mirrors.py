"""Where a store is mirrored in files, and what is still to be removed there.

A mirror is a copy of sessions in clear text, in a folder: see `clew.agents.Mirror`. The store knows the folders of each
workspace, as the data of a ref that is sealed with the rest. A deletion of something that a mirror may have notes the
sessions in its own transaction, and removes their files after it. A folder that cannot be reached keeps its notes, and
the receipt names it: the next purge, or the next program that opens the mirror, removes the files. The notes of such a
folder do not grow without bound: past `MOST`, those of sessions that are gone become one, that everything is to be
removed there that the store no longer has.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

import msgspec

from clew.backends import RefRow, Tx
from clew.base import files, ids
from clew.engine.deletion import SESSION_KINDS
from clew.engine.engine import Engine
from clew.engine.refs import Refs
from clew.errors import ClewError, Conflict, Corrupted, Invalid, NotFound, clip

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
MOST = 256
"""Ids that are noted of a folder before those of sessions that are gone become one note."""
PATIENCE = 5.0
"""Seconds that a purge waits for whoever writes to a mirror."""


class Marker(msgspec.Struct, omit_defaults=True):
    """What the file says that makes a folder the mirror of a store."""

    format: int
    store: str
    workspace: str = ""
    """Keyed hash of its name, if it has one: what is rebuilt for one must not take away another's."""
    file: str = ""
    """The store's file, if it is one on this machine. A copy of the store, such as a backup, has the same id."""
    inode: int = 0
    """The number of that file: one that was moved is still itself, and another may be in its place."""

    def has_another_owner(self, mine: Marker) -> bool:
        """Whether the file that made this marker is still in its place, and is not the one of `mine`."""
        if not self.file or self.file == mine.file or self.inode == mine.inode:
            return False
        with suppress(OSError):
            return os.stat(self.file).st_ino == self.inode
        return False


class MirrorNotes(NamedTuple):
    """What is still to be removed in a folder."""

    sessions: list[str]
    """Ids of sessions whose files are to go."""
    merged: int = 0
    """How often ids were too many, and became one note: the files of all sessions are to go that the store no longer
    has.
    """
    cleared: int = 0
    """What `merged` was when that was last done."""

    def __bool__(self) -> bool:
        return bool(self.sessions) or self.merged > self.cleared


class _Folders(msgspec.Struct, omit_defaults=True):
    folders: dict[str, list[str]] = {}
    """Each with the ids of the sessions whose files are still to go."""
    merged: dict[str, tuple[int, int]] = {}
    """Of those where ids were merged, `MirrorNotes.merged` and `MirrorNotes.cleared`."""


class Mirrors:
    """The mirrors of a store's workspace."""

    def __init__(self, engine: Engine, refs: Refs) -> None:
        self._engine = engine
        self._refs = refs

    def folders(self) -> list[str]:
        """The folders that the store's sessions were mirrored to."""
        return list(self._engine.read(self._folders))

    def add(self, root: str) -> bool:
        """Remembers a folder, before anything is written there. True if something is still to be removed in it."""
        found = self._engine.read(self._folders)
        if root not in found:
            self._engine.write(lambda tx: self._set(tx, {root: MirrorNotes([]), **self._folders(tx)}))
        return bool(found.get(root))

    def forget(self, root: str) -> MirrorNotes:
        """Forgets a folder that is gone for good: receipts name it no more. What was to go there. NotFound."""

        def work(tx: Tx) -> MirrorNotes:
            found = self._folders(tx)
            if root not in found:
                known = ", ".join(clip(one, 4096) for one in found) or "none"
                raise NotFound("mirror", root, hint=f"Mirrors of this store: {known}.")
            left = found.pop(root)
            self._set(tx, found)
            return left

        return self._engine.write(work)

    def note(self, tx: Tx, sessions: Iterable[str]) -> None:
        """MirrorNotes, in the transaction that deletes something of these sessions, that their files are to go."""
        found, names = self._folders(tx), list(sessions)
        if found and names:
            self._set(tx, {root: self._add_notes(tx, left, names) for root, left in found.items()})

    def clear(self) -> tuple[str, ...]:
        """Removes the files that are to go. Returns the folders where that is not done yet, as receipts name them."""
        waiting = {root: left for root, left in self._engine.read(self._folders).items() if left}
        if not waiting or self._engine.backend.in_transaction():  # it may be undone
            return tuple(PENDING + root for root in waiting)
        done = {root: left for root, left in waiting.items() if self._remove_files(root, left)}
        if done:
            self._engine.write(lambda tx: self._drop(tx, done))
        return tuple(PENDING + root for root in waiting if root not in done)

    def marker(self) -> Marker:
        """What makes a folder the mirror of this store and workspace."""
        name = self._engine.workspace
        look = self._engine.lookup_hash("mirror", name.encode()).hex() if name else ""
        file = self._engine.backend.file
        if file is None:
            return Marker(FORMAT, self._engine.store_id.hex(), look)
        file = os.path.realpath(file)
        return Marker(FORMAT, self._engine.store_id.hex(), look, file, os.stat(file).st_ino)

    def claim(self, root: str) -> None:
        """`check`, and notes where the store is now."""
        if self.check(root) != (mine := self.marker()):
            files.replace_private(os.path.join(root, MARKER), msgspec.json.encode(mine))

    def check(self, root: str) -> Marker:
        """Invalid, Conflict unless a folder is the mirror of this store and workspace, and not of a store that this one
        is a copy of. OSError if it is not there. Returns its marker.
        """
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
        if found.has_another_owner(mine):
            raise Conflict(f"{root} is the mirror of {clip(found.file, 4096)}", hint="Name another folder.")
        return found

    def _remove_files(self, root: str, left: MirrorNotes) -> bool:
        """Removes files; False if the folder cannot be reached, or is not the mirror any more."""
        try:
            self.check(root)
            with files.lock(os.path.join(root, LOCK), PATIENCE):
                there = (
                    mirrored(root) if left.merged > left.cleared else []
                )  # looked up after: what is new there is in the store
                gone = self._engine.read(lambda tx: [one for one in there if not self._has_session(tx, one)])
                for session in {*left.sessions, *gone}:
                    remove(root, session)
        except (OSError, ClewError):
            return False
        return True

    def _add_notes(self, tx: Tx, left: MirrorNotes, names: Iterable[str]) -> MirrorNotes:
        """The notes of a folder with these sessions added."""
        sessions = [*dict.fromkeys((*left.sessions, *names))]
        if len(sessions) <= MOST:
            return left._replace(sessions=sessions)
        return MirrorNotes([one for one in sessions if self._has_session(tx, one)], left.merged + 1, left.cleared)

    def _has_session(self, tx: Tx, session: str) -> bool:
        """True if the store has a session, in the trash or not."""
        return any(tx.ref(self._engine.workspace, kind, ids.parse(session)) is not None for kind in SESSION_KINDS)

    def _folders(self, tx: Tx) -> dict[str, MirrorNotes]:
        row = self._refs.own(tx, MIRRORS)
        return {} if row is None else self._read(row)

    def _read(self, row: RefRow) -> dict[str, MirrorNotes]:
        payload = self._refs.data(self._refs.verify(row))
        try:
            found = msgspec.json.decode(payload[1:], type=_Folders)
        except msgspec.DecodeError:
            raise Corrupted("the list of mirrors", "it does not decode") from None
        return {root: MirrorNotes(left, *found.merged.get(root, ())) for root, left in found.folders.items()}

    def _set(self, tx: Tx, folders: dict[str, MirrorNotes]) -> None:
        row = self._refs.verify(self._refs.add_own(tx, MIRRORS))
        if self._read(row) != folders:
            merged = {root: (left.merged, left.cleared) for root, left in folders.items() if left.merged}
            data = _Folders({root: left.sessions for root, left in folders.items()}, merged)
            self._refs.change(tx, row, b"\x01" + msgspec.json.encode(data), look=None)

    def _drop(self, tx: Tx, done: dict[str, MirrorNotes]) -> None:
        """Takes back what was noted and is done; what was noted since stays."""
        now = self._folders(tx)
        for root, left in done.items():
            if root in now:
                rest = [one for one in now[root].sessions if one not in left.sessions]
                now[root] = MirrorNotes(rest, now[root].merged, max(now[root].cleared, left.merged))
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


def mirrored(root: str) -> list[str]:
    """The sessions that have a folder in a mirror."""
    found = []
    for project in os.listdir(root):
        with suppress(FileNotFoundError, NotADirectoryError):
            found += [name for name in os.listdir(os.path.join(root, project, SESSIONS)) if is_id(name)]
    return found


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
