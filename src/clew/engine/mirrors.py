"""The folders that mirror a store, and the files still to be removed there.

A mirror is a copy of sessions in clear text, in a folder: see `clew.agents.Mirror`. The store lists the folders of each
workspace in the data of a ref, which is sealed like any other. A deletion notes its sessions in the same transaction,
and removes their files afterwards. If a folder cannot be reached, its notes stay and the receipt names it; the next
purge, or the next program that opens the mirror, removes the files. To bound the notes, more than `MOST` of them are
merged: then every file of a session that the store no longer has is removed.
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
from clew.base.outside import READ, as_file, open_fd
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
"""Suffix of a file until it is complete. If no process is writing, a crash left such a file."""
PENDING = "mirror "
"""Prefix of a folder in the `pending` list of a receipt."""
MOST = 256
"""Session ids noted for a folder before they are merged."""
PATIENCE = 5.0
"""Seconds that a purge waits for another writer of a mirror."""


class Marker(msgspec.Struct, omit_defaults=True):
    """The content of the marker file, which makes a folder the mirror of a store."""

    format: int
    store: str
    workspace: str = ""
    """Keyed hash of the workspace name, if it has one: rebuilding one workspace must not remove another's files."""
    file: str = ""
    """Path of the store, if it is a local file. It tells the store from its copies, which have the same id."""
    inode: int = 0
    """Inode of that file: recognizes the file after a move, and another file in its place."""

    def has_another_owner(self, mine: Marker) -> bool:
        """True if another file than that of `mine` wrote this marker, and still exists."""
        if not self.file or self.file == mine.file or self.inode == mine.inode:
            return False
        with suppress(OSError):
            return os.stat(self.file).st_ino == self.inode
        return False


class MirrorNotes(NamedTuple):
    """The files still to be removed in a folder."""

    sessions: list[str]
    """Ids of sessions whose files are to be removed."""
    merged: int = 0
    """How often ids were merged. If this is more than `cleared`, the files of all sessions that the store no longer has
    are to be removed.
    """
    cleared: int = 0
    """The value of `merged` when that was last done."""

    def __bool__(self) -> bool:
        return bool(self.sessions) or self.merged > self.cleared


class _Folders(msgspec.Struct, omit_defaults=True):
    folders: dict[str, list[str]] = {}
    """Ids of the sessions whose files are to be removed, by folder."""
    merged: dict[str, tuple[int, int]] = {}
    """`merged` and `cleared` of the folders where ids were merged."""


class Mirrors:
    """The mirrors of a store's workspace."""

    def __init__(self, engine: Engine, refs: Refs) -> None:
        self._engine = engine
        self._refs = refs

    def folders(self) -> list[str]:
        """The folders that mirror the store."""
        return list(self._engine.read(self._folders))

    def add(self, root: str) -> bool:
        """Adds a folder, before anything is written there. Returns True if it has files to be removed."""
        found = self._engine.read(self._folders)
        if root not in found:
            self._engine.write(lambda tx: self._set(tx, {root: MirrorNotes([]), **self._folders(tx)}))
        return bool(found.get(root))

    def forget(self, root: str) -> MirrorNotes:
        """Removes a folder from the list, so that receipts no longer name it. Returns its notes. NotFound."""

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
        """Notes that the files of these sessions are to be removed, in the transaction that deletes from them."""
        found, names = self._folders(tx), list(sessions)
        if found and names:
            self._set(tx, {root: self._add_notes(tx, left, names) for root, left in found.items()})

    def clear(self) -> tuple[str, ...]:
        """Removes noted files. Returns the folders where that failed, as receipts list them."""
        waiting = {root: left for root, left in self._engine.read(self._folders).items() if left}
        if not waiting or self._engine.backend.in_transaction():  # it may be rolled back
            return tuple(PENDING + root for root in waiting)
        done = {root: left for root, left in waiting.items() if self._remove_files(root, left)}
        if done:
            self._engine.write(lambda tx: self._drop(tx, done))
        return tuple(PENDING + root for root in waiting if root not in done)

    def marker(self) -> Marker:
        """The marker of this store and workspace."""
        name = self._engine.workspace
        look = self._engine.lookup_hash("mirror", name.encode()).hex() if name else ""
        file = self._engine.backend.file
        if file is None:
            return Marker(FORMAT, self._engine.store_id.hex(), look)
        file = os.path.realpath(file)
        return Marker(FORMAT, self._engine.store_id.hex(), look, file, os.stat(file).st_ino)

    def claim(self, root: str) -> None:
        """`check`, then updates the marker if the store has moved."""
        if self.check(root) != (mine := self.marker()):
            files.replace_private(os.path.join(root, MARKER), msgspec.json.encode(mine))

    def check(self, root: str) -> Marker:
        """The marker of a folder. Invalid or Conflict if the folder mirrors another store or workspace, or the store
        that this one was copied from. OSError if there is no marker.
        """
        path, mine = os.path.join(root, MARKER), self.marker()
        with as_file(open_fd(path, READ | os.O_NOFOLLOW)) as file:
            raw = file.read(4096)
        try:
            found = msgspec.json.decode(raw, type=Marker)
        except msgspec.DecodeError:
            raise Invalid(f"{path} is not a valid mirror marker", hint="Name a new folder.") from None
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
        """Removes noted files. False if the folder cannot be reached, or is no longer a mirror of this store."""
        try:
            self.check(root)
            with files.lock(os.path.join(root, LOCK), PATIENCE):
                # First list the folder, then ask the store: sessions added meanwhile are in the store.
                there = mirrored(root) if left.merged > left.cleared else []
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
        """Removes notes that are done. Notes added since stay."""
        now = self._folders(tx)
        for root, left in done.items():
            if root in now:
                rest = [one for one in now[root].sessions if one not in left.sessions]
                now[root] = MirrorNotes(rest, now[root].merged, max(now[root].cleared, left.merged))
        self._set(tx, now)


def remove(root: str, session_id: str) -> int:
    """Removes the files of a session, and no other files of its folder. Returns the bytes removed."""
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
        with suppress(OSError):  # the folder has other files
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
