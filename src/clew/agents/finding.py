"""What there is to import below a folder: sessions, and memories of projects."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from clew import ids
from clew.agents import folder, lines, metadata
from clew.agents.memory import LIMIT
from clew.agents.mirror import MEMORY, SUMMARY
from clew.errors import ClewError, Invalid
from clew.mirrors import MESSAGES, METADATA, SESSIONS, TRANSCRIPT

_HASH = re.compile(r"[0-9a-f]{16}")


class Skipped(NamedTuple):
    """Something that was not imported: the file, the number of the line, from 1 on, if it is one, and why."""

    path: str
    line: int | None
    why: str


class Skips(list[Skipped]):
    """All that was not imported."""

    def add(self, path: str, line: int | None, why: str) -> None:
        """Notes that something is skipped."""
        self.append(Skipped(path, line, why))

    def lines(self, path: str) -> Iterator[lines.Line]:
        """The lines of a file that can be used; of the others it is noted why not."""
        try:
            for line in lines.read(path):
                if line.why:
                    self.add(path, line.number, line.why)
                else:
                    yield line
        except ClewError as error:
            self.add(path, None, error.message)


class Found(NamedTuple):
    """A session's folder, and what its metadata says."""

    place: str
    id: str
    project: str | None
    about: dict[str, Any]
    active: float


class Finder:
    """Looks for sessions; what cannot be read is noted."""

    def __init__(self, skips: Skips) -> None:
        self._skips = skips

    def look(self, root: str) -> tuple[list[Found], dict[str, str]]:
        """The sessions below a folder, parents before those that go back to them; and memories, by project."""
        found: list[Found] = []
        memories: dict[str, str] = {}
        if any(os.path.lexists(os.path.join(root, name)) for name in (METADATA, MESSAGES, TRANSCRIPT)):
            found += self._session(root, None)
        elif os.path.isdir(os.path.join(root, SESSIONS)) or os.path.isdir(os.path.join(root, MEMORY)):
            self._project(root, os.path.basename(root), found, memories)
        elif os.path.basename(root) == SESSIONS:
            for place in _folders(root):
                found += self._session(place, None)
        else:
            for place in _folders(root):
                self._project(place, os.path.basename(place), found, memories)
        return _parents_first(found), memories

    def _project(self, place: str, name: str, found: list[Found], memories: dict[str, str]) -> None:
        mine = [one for session in _folders(os.path.join(place, SESSIONS)) for one in self._session(session, name)]
        found += mine
        summary = os.path.join(place, MEMORY, SUMMARY)
        try:
            text = folder.read(summary, LIMIT + 1)
            if text is not None and text.strip():
                memories[_project_of(name, mine)] = text.decode()
        except UnicodeDecodeError:
            self._skips.add(summary, None, "it is not UTF-8")
        except ClewError as error:
            self._skips.add(summary, None, error.message)

    def _session(self, place: str, project: str | None) -> Iterator[Found]:
        name = os.path.basename(place)
        try:
            id = ids.text(ids.parse(name))
        except Invalid:
            self._skips.add(place, None, "its name is not the id of a session")
            return
        about = self._about(os.path.join(place, METADATA), id)
        active = metadata._moment(about.get("updated_at"))
        yield Found(place, id, project, about, _touched(place) if active is None else active.timestamp())

    def _about(self, path: str, id: str) -> dict[str, Any]:
        """What is said about a session; nothing, if that cannot be read."""
        try:
            raw = folder.read(path, lines.LINE_LIMIT)
            if raw is None:
                self._skips.add(path, None, "there is none")
                return {}
            found: dict[str, Any] = lines.decode(lines.compact(raw))
        except ClewError as error:
            self._skips.add(path, None, error.message)
            return {}
        if found.get("id") != id:
            self._skips.add(path, None, "its id is not the name of its folder, which is taken instead")
        return found


def _project_of(name: str, sessions: list[Found]) -> str:
    """The hash of the project that a folder is about: its name, or that of the one directory its sessions were in.

    Invalid if neither tells: nobody could read its memory.
    """
    hashes = {metadata.project_hash(cwd) for one in sessions if isinstance(cwd := one.about.get("cwd"), str) and cwd}
    if name in hashes or _HASH.fullmatch(name):
        return name
    if len(hashes) != 1:
        raise Invalid("neither the folder's name nor its sessions say which directory it is about")
    return hashes.pop()


def _folders(path: str) -> list[str]:
    """The folders in a folder, by name; none if it is none. Links are not followed."""
    try:
        with os.scandir(path) as entries:
            return sorted(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []


def _touched(place: str) -> float:
    """When the files of a session were last written."""
    times = []
    for name in (MESSAGES, TRANSCRIPT, METADATA):
        with suppress(OSError):
            times.append(os.lstat(os.path.join(place, name)).st_mtime)
    return max(times, default=0.0)


def _parents_first(found: list[Found]) -> list[Found]:
    """Sessions in the order of their last activity, but each after its parent."""
    by_id = {one.id: one for one in found}
    ordered: dict[str, Found] = {}
    for one in sorted(found, key=lambda one: one.active):
        line = [one]
        while (above := by_id.get(str(line[-1].about.get("parent_id")))) is not None and above not in line:
            line.append(above)
        for each in reversed(line):
            ordered.setdefault(each.id, each)
    return list(ordered.values())
