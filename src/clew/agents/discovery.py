"""Finds the sessions and project memories below a folder that can be imported."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from clew.agents import files, metadata
from clew.agents import jsonl as lines
from clew.agents.memory import LIMIT
from clew.agents.mirror import MEMORY, SUMMARY
from clew.base import ids
from clew.engine.mirrors import MESSAGES, METADATA, SESSIONS, TRANSCRIPT
from clew.errors import ClewError, Invalid

_HASH = re.compile(r"[0-9a-f]{16}")


class SkippedFile(NamedTuple):
    """A skipped file or line: the path, the line number (from 1) if it is a line, and the reason."""

    path: str
    line: int | None
    why: str


class SkippedFiles(list[SkippedFile]):
    """Everything that was skipped."""

    def add(self, path: str, line: int | None, why: str) -> None:
        """Records a skipped item."""
        self.append(SkippedFile(path, line, why))

    def lines(self, path: str) -> Iterator[lines.JsonlLine]:
        """The usable lines of a file. Records the others as skipped."""
        try:
            for line in lines.read(path):
                if line.why:
                    self.add(path, line.number, line.why)
                else:
                    yield line
        except ClewError as error:
            self.add(path, None, error.message)


class SessionFolder(NamedTuple):
    """A session's folder and its metadata."""

    place: str
    id: str
    project: str | None
    about: dict[str, Any]
    active: float


class Finder:
    """Searches for sessions and records what cannot be read."""

    def __init__(self, skips: SkippedFiles) -> None:
        self._skips = skips

    def find(self, root: str) -> tuple[list[SessionFolder], dict[str, str]]:
        """The sessions below a folder, parents before their forks, and the memories by project."""
        found: list[SessionFolder] = []
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

    def _project(self, place: str, name: str, found: list[SessionFolder], memories: dict[str, str]) -> None:
        mine = [one for session in _folders(os.path.join(place, SESSIONS)) for one in self._session(session, name)]
        found += mine
        summary = os.path.join(place, MEMORY, SUMMARY)
        try:
            text = files.read(summary, LIMIT + 1)
            if text is not None and text.strip():
                memories[_project_of(name, mine)] = text.decode()
        except UnicodeDecodeError:
            self._skips.add(summary, None, "it is not UTF-8")
        except ClewError as error:
            self._skips.add(summary, None, error.message)

    def _session(self, place: str, project: str | None) -> Iterator[SessionFolder]:
        name = os.path.basename(place)
        try:
            id = ids.text(ids.parse(name))
        except Invalid:
            self._skips.add(place, None, "its name is not a session id")
            return
        about = self._about(os.path.join(place, METADATA), id)
        active = metadata._moment(about.get("updated_at"))
        yield SessionFolder(place, id, project, about, _last_modified(place) if active is None else active.timestamp())

    def _about(self, path: str, id: str) -> dict[str, Any]:
        """The metadata of a session; empty if it cannot be read."""
        try:
            raw = files.read(path, lines.LINE_LIMIT)
            if raw is None:
                self._skips.add(path, None, "missing")
                return {}
            found: dict[str, Any] = lines.decode(lines.compact(raw))
        except ClewError as error:
            self._skips.add(path, None, error.message)
            return {}
        if found.get("id") != id:
            self._skips.add(path, None, "its id differs from the name of its folder; using the folder's name")
        return found


def _project_of(name: str, sessions: list[SessionFolder]) -> str:
    """The hash of a folder's project: the folder's name, or the hash of the one directory that all its sessions used.

    Raises Invalid if the project cannot be determined, because then its memory could never be read.
    """
    hashes = {metadata.project_hash(cwd) for one in sessions if isinstance(cwd := one.about.get("cwd"), str) and cwd}
    if name in hashes or _HASH.fullmatch(name):
        return name
    if len(hashes) != 1:
        raise Invalid("neither the folder's name nor its sessions name the project directory")
    return hashes.pop()


def _folders(path: str) -> list[str]:
    """The subfolders by name; none if the folder does not exist. Does not follow links."""
    try:
        with os.scandir(path) as entries:
            return sorted(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []


def _last_modified(place: str) -> float:
    """When a session's files were last written."""
    times = []
    for name in (MESSAGES, TRANSCRIPT, METADATA):
        with suppress(OSError):
            times.append(os.lstat(os.path.join(place, name)).st_mtime)
    return max(times, default=0.0)


def _parents_first(found: list[SessionFolder]) -> list[SessionFolder]:
    """Sessions by last activity, but each after its parent."""
    by_id = {one.id: one for one in found}
    ordered: dict[str, SessionFolder] = {}
    for one in sorted(found, key=lambda one: one.active):
        line = [one]
        while (above := by_id.get(str(line[-1].about.get("parent_id")))) is not None and above not in line:
            line.append(above)
        for each in reversed(line):
            ordered.setdefault(each.id, each)
    return list(ordered.values())
