"""Files around a log of Claude Code: titles in other logs, facts about a subagent, results kept beside the log."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import IO, Any, NamedTuple

import msgspec

from clew.errors import ClewError
from clew.sources.contract import Attachment, FileCopies, moment, uuid_or_none
from clew.sources.items import Item

_SUMMARY = b'{"type":"summary"'
_LONGEST = 1 << 14
"""Bytes of a summary's line at most; it is one sentence."""
_LARGEST_META = 1 << 20
_RESULT = re.compile(rb"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})[/\\]+tool-results[/\\]+([\w.-]+)")
_COPY = re.compile(r"[\w-]+@v\d+").fullmatch

_any = msgspec.json.Decoder(dict[str, Any]).decode


class Place(NamedTuple):
    """What the path of a log says."""

    session: str | None
    """The session; None for a subagent and for a file under another name."""
    agent: str | None
    owner: str | None
    """The session that a subagent belongs to, if the path says so."""
    folder: str
    """The folder of the project."""


def place(path: str) -> Place:
    """What a path says: ``PROJECT/SESSION.jsonl``, or ``PROJECT/SESSION/subagents/…/agent-ID.jsonl``."""
    name = os.path.basename(path).removesuffix(".jsonl")
    folder = os.path.dirname(path)
    if not name.startswith("agent-"):
        return Place(uuid_or_none(name), None, None, folder)
    above, found, _ = folder.rpartition(f"{os.sep}subagents")
    owner = uuid_or_none(os.path.basename(above)) if found else None
    return Place(None, name.removeprefix("agent-"), owner, os.path.dirname(above) if found else folder)


def agent_facts(item: Item) -> dict[str, str]:
    """What ``agent-ID.meta.json`` says of a subagent: agentType, description, toolUseId; empty without that file."""
    if item.member is not None:
        return {}
    beside = item.at(f"{item.path.removesuffix('.jsonl')}.meta.json")
    with suppress(ClewError, OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError), beside.open() as file:
        found = _any(file.read(_LARGEST_META))
        return {name: value for name, value in found.items() if isinstance(value, str) and value}
    return {}


def results(log: Item, folder: str, raw: bytes) -> tuple[Attachment, ...]:
    """The files of results that were too large for the log and are named in a message."""
    found: dict[str, Attachment] = {}
    if b"tool-results" not in raw:
        return ()
    for match in _RESULT.finditer(raw):
        session, name = match[1].decode(), match[2].decode()
        path = os.path.join(folder, session, "tool-results", name)
        if os.path.lexists(path):
            mime = "text/plain" if name.endswith(".txt") else None
            found[name] = Attachment(f"tool-results/{name}", name, mime, log.at(path).open)
    return tuple(found.values())


def copies(log: Item, folder: str, session: str, raw: bytes) -> FileCopies | None:
    """The copies that a line of type ``file-history-snapshot`` names; they are in ``file-history/SESSION``.

    None if it names no message, or if `folder` is not a project's folder of the program.
    """
    projects = os.path.dirname(folder)
    snapshot: Any = None
    with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        snapshot = _any(raw).get("snapshot")
    if os.path.basename(projects) != "projects" or not isinstance(snapshot, dict):
        return None
    message, at = uuid_or_none(snapshot.get("messageId")), moment(snapshot.get("timestamp"))
    named = snapshot.get("trackedFileBackups")
    if message is None or at is None or not isinstance(named, dict):
        return None
    place = os.path.join(os.path.dirname(projects), "file-history", session)
    files: dict[str, Callable[[], IO[bytes]] | None] = {}
    for path, backup in named.items():
        name = backup.get("backupFileName", "") if isinstance(backup, dict) else ""
        if name is None:
            files[path] = None
        elif isinstance(name, str) and _COPY(name):
            files[path] = log.at(os.path.join(place, name)).open
    return FileCopies(message, at, files) if files else None


class Summaries:
    """Titles that stand at the beginning of other logs of a project, by the message that they end with.

    Older versions wrote the summary of a conversation into the file of the next one. Each file is looked at once.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._seen: set[str] = set()
        self._changed = -1
        self._titles: dict[str, str] = {}

    def titles(self) -> dict[str, str]:
        """The titles known now."""
        with suppress(OSError):
            changed = os.stat(self._folder).st_mtime_ns
            if changed != self._changed:
                self._changed = changed
                for entry in os.scandir(self._folder):
                    if (
                        entry.name.endswith(".jsonl")
                        and entry.name not in self._seen
                        and entry.is_file(follow_symlinks=False)
                    ):
                        self._seen.add(entry.name)
                        self._titles.update(self._read(entry.path))
        return self._titles

    def _read(self, path: str) -> Iterator[tuple[str, str]]:
        with suppress(ClewError, OSError), Item(path, 0, 0, root=self._folder).open() as file:
            while (line := file.readline(_LONGEST)).startswith(_SUMMARY):
                with suppress(msgspec.MsgspecError, UnicodeDecodeError):
                    found = _any(line)
                    if isinstance(found.get("leafUuid"), str) and isinstance(found.get("summary"), str):
                        yield found["leafUuid"], found["summary"]
