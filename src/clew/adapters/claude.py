"""The Claude Agent SDK mirrors its transcripts into clew: ``ClaudeAgentOptions(session_store=ClewSessionStore(…))``.

A transcript is stored as the importer of Claude Code's files stores it: the same session, the same ids of messages,
every other entry in the log, and the order of all entries. So importing the file of a mirrored session adds nothing.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from clew.adapters.framework import framework
from clew.adapters.keyed import Adapter, Keyed, Target, check_version
from clew.adapters.threads import in_thread
from clew.adapters.transcripts import MirroredTranscript
from clew.engine.session_data import SOURCE, SessionData, label_set
from clew.errors import Conflict, Unavailable
from clew.sources.claude_code import NAME
from clew.sources.contract import uuid_or_none
from clew.sources.layout import records
from clew.sources.writing import session_id
from clew.store.session import Session
from clew.store.unit import Unit

with framework("claude"):
    from claude_agent_sdk import fold_session_summary, project_key_for_directory
    from claude_agent_sdk.types import (
        SessionKey,
        SessionListSubkeysKey,
        SessionStoreEntry,
        SessionStoreListEntry,
        SessionSummaryEntry,
    )

MIRROR = "claude"
"""Key of the SDK's fields in a session's free data: project, session, subpath, time and summary."""
_AGENT = "subagents/agent-"
REMEMBERED = 64
"""Transcripts whose links are remembered, so that an append need not read them."""
TRIES = 5
"""How often a batch is stored whose commits are lost."""


class TranscriptName(NamedTuple):
    """A transcript: its key in the SDK, and the names that the importer gives to it."""

    project: str
    session: str
    subpath: str
    owner: str
    """The id of the main transcript's session."""
    agent: str
    """The name of the subagent; empty for the main transcript."""

    @property
    def conversation(self) -> str:
        """The importer's name for it."""
        return f"{self.owner}/{self.agent}" if self.agent else self.owner


class ClewSessionStore(Adapter):
    """Transcripts in a store: a path, a URL or an open `Store`. `options` are those of `clew.open`.

    An entry with a uuid is stored once, however often it is sent. A call returns when the entries are on disk.
    """

    def __init__(self, target: Target, **options: Any) -> None:
        check_version("claude-agent-sdk", "0.2.150", "0.3")
        self._keyed = Keyed(target, NAME, options)
        self._lock = threading.Lock()
        self._open: OrderedDict[TranscriptName, MirroredTranscript] = OrderedDict()
        self._time = 0
        """When the last batch was stored, in milliseconds; later for each one, as the SDK sorts transcripts by it."""

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Stores a batch of entries, all or none. Conflict if the session is in the trash."""
        if entries:
            await in_thread(self._append, key, entries)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """The entries of a transcript, in their order; None if there are none."""
        return await in_thread(self._load, key)

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """The transcripts of a project that were mirrored here."""
        found = await in_thread(self._mirrored, project_key)
        return [{"session_id": one["session"], "mtime": one["mtime"]} for one in found]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """The SDK's summaries of the transcripts of a project."""
        found = await in_thread(self._mirrored, project_key)
        return [{"session_id": one["session"], "mtime": one["mtime"], "data": one["summary"]} for one in found]

    async def delete(self, key: SessionKey) -> None:
        """Purges a transcript, with those of its subagents. Conflict if it is on hold."""
        await in_thread(self._delete, key)

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """The subpaths of a session's subagents."""
        return await in_thread(self._list_subkeys, key)

    # -- on a thread

    def _append(self, key: SessionKey, entries: Sequence[SessionStoreEntry]) -> None:
        with self._lock:
            for left in reversed(range(TRIES)):
                if self._store(key, entries, is_last=not left):
                    return

    def _store(self, key: SessionKey, entries: Sequence[SessionStoreEntry], *, is_last: bool) -> bool:
        """Stores a batch. False if the connection was lost during the commit, and the batch is not stored."""
        written: MirroredTranscript | None = None
        # One transaction, because entries of other processes decide which entries are new, and their order.
        try:
            with self.store.transaction():
                name = self._keyed.read(lambda unit: self._name(unit, key))
                self._keyed.write(lambda unit: self._ensure_owner(unit, name))
                transcript = self._transcript(name)
                fresh = transcript.append(entries)
                if fresh:
                    self._time = max(self.store.clock() // 1000, self._time + 1)
                    self._keyed.write(lambda unit: self._note(unit, name, key, fresh))
                    written = transcript
        except Unavailable:
            self._open.clear()
            is_stored = written is not None and written.is_stored()
            if not is_stored and (written is None or is_last):
                raise
            return is_stored
        except BaseException:
            self._open.clear()
            raise
        self._open[name] = transcript
        self._open.move_to_end(name)
        if len(self._open) > REMEMBERED:
            self._open.popitem(last=False)
        return True

    def _load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        session = self._find(key)
        if session is None:
            return None
        entries, seen = list[SessionStoreEntry](), set[str]()
        for line in records(session, self.store):
            entry = json.loads(line)
            uuid = entry.get("uuid")
            if not isinstance(uuid, str) or uuid not in seen:  # an imported copy may have other bytes
                entries.append(entry)
                seen.add(uuid)
        return entries or None

    def _mirrored(self, project: str) -> list[dict[str, Any]]:
        found = [one.extra.get(MIRROR, {}) for one in self._keyed.labelled(_label(project))]
        return [one for one in found if "summary" in one and one["project"] == project]  # anybody can set a label

    def _delete(self, key: SessionKey) -> None:
        found = self._find(key)
        with self._lock:
            self._open.clear()
        if found is not None:
            self._keyed.purge_session(found)

    def _list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        found = self._find({"project_key": key["project_key"], "session_id": key["session_id"]})
        return [] if found is None else [_subpath(one.extra, one.agent) for one in found.subagents()]

    # -- names

    def _name(self, unit: Unit, key: SessionKey) -> TranscriptName:
        """The importer's names for a key: its own, unless a session of another key has them."""
        project, session, subpath = key["project_key"], key["session_id"], key.get("subpath") or ""
        owner = self._owner(unit, project, session)
        return TranscriptName(project, session, subpath, owner, self._agent(unit, owner, subpath) if subpath else "")

    def _owner(self, unit: Unit, project: str, session: str) -> str:
        """The id of a main transcript's session: the one that has it, else one that no session has."""
        own = uuid_or_none(session)
        candidates = [*([] if own is None else [own]), self._keyed.id(project, session)]
        data = {id: self._data(unit, id) for id in candidates}
        return _choose(data, lambda one: _is_of(one, project, session, own))

    def _agent(self, unit: Unit, owner: str, subpath: str) -> str:
        """The name of a subagent: that in its path, unless another path has it."""
        short = subpath.rpartition("/")[2].removeprefix("agent-") if _is_agent(subpath) else subpath
        names = (short, subpath, self._keyed.id(owner, subpath, "agent"))
        data = {name: self._data(unit, session_id(NAME, f"{owner}/{name}"), subagent=True) for name in names}
        return _choose(data, lambda one: _subpath(one.extra or {}, one.agent) == subpath)

    def _data(self, unit: Unit, id: str, *, subagent: bool = False) -> SessionData | None:
        found = unit.session(id, subagent=subagent, trashed=True)
        return None if found is None else found.data

    def _session(self, unit: Unit, name: TranscriptName) -> Session | None:
        """The session of a transcript, in the trash or not."""
        return unit.session(session_id(NAME, name.conversation), subagent=bool(name.agent), trashed=True)

    def _find(self, key: SessionKey) -> Session | None:
        found = self._keyed.read(lambda unit: self._session(unit, self._name(unit, key)))
        return None if found is None or found.trashed_at is not None else found

    # -- writing

    def _ensure_owner(self, unit: Unit, name: TranscriptName) -> None:
        """Creates the session of a main transcript whose subagent writes first."""
        found = unit.session(name.owner, trashed=True)
        if found is not None and found.trashed_at is not None:
            raise Conflict(f"session {name.owner} is in the trash", hint="Restore it or purge it, then try again.")
        if found is None and name.agent:
            origin = {
                SOURCE: {"tool": NAME, "id": name.owner},
                MIRROR: {"project": name.project, "session": name.session},
            }
            unit.create(SessionData(extra=origin), name.owner)

    def _transcript(self, name: TranscriptName) -> MirroredTranscript:
        transcript = self._open.get(name)
        session = self._keyed.read(lambda unit: self._session(unit, name))
        if transcript is None or not transcript.is_of(session):
            transcript = MirroredTranscript(self.store, name.owner, name.agent)
        transcript.catch_up(session)
        return transcript

    def _note(self, unit: Unit, name: TranscriptName, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Keeps project, time and summary of a transcript in the session's free data."""
        session = self._session(unit, name)
        assert session is not None
        data = session.data
        before = (data.extra or {}).get(MIRROR, {})
        mirror: dict[str, Any] = {"project": name.project, "session": name.session, "mtime": self._time}
        labels = set(data.labels)
        if name.subpath:
            mirror["subpath"] = name.subpath
        else:
            summary: SessionSummaryEntry | None = None
            if "summary" in before:
                summary = {"session_id": name.session, "mtime": before["mtime"], "data": before["summary"]}
            mirror["summary"] = fold_session_summary(summary, key, entries)["data"]
            labels.add(_label(name.project))
        extra = {**(data.extra or {}), MIRROR: mirror}
        unit.save(session, msgspec.structs.replace(data, labels=label_set(sorted(labels)), extra=extra))


def _choose(sessions: dict[str, SessionData | None], is_own: Callable[[SessionData], bool]) -> str:
    """Of several names with the data of their sessions: that of the key's own session, else the first free one.

    The last name is a keyed hash of the key, so no other key can take it. A free name does not end the search: the
    session that had it may have been deleted.
    """
    own = [name for name, data in sessions.items() if data is not None and is_own(data)]
    free = [name for name, data in sessions.items() if data is None]
    if not own and not free:
        raise Conflict(f"session {next(reversed(sessions))} belongs to another transcript")
    return (own or free)[0]


def _is_of(data: SessionData, project: str, session: str, own: str | None) -> bool:
    """True if a session is the transcript of this key: mirrored under it, or imported from the project's folder."""
    extra = data.extra or {}
    mirror, origin = extra.get(MIRROR), extra.get(SOURCE)
    if isinstance(mirror, dict):
        return mirror.get("project") == project and mirror.get("session") == session
    if not isinstance(origin, dict) or (origin.get("tool"), origin.get("id")) != (NAME, own) or data.cwd is None:
        return False
    return session == own and project_key_for_directory(data.cwd) == project


def _is_agent(subpath: str) -> bool:
    """True for the path of a subagent's transcript, as Claude Code names its files."""
    name = subpath.rpartition("/")[2]
    return subpath.startswith("subagents/") and name.startswith("agent-") and name != "agent-"


def _subpath(extra: dict[str, Any], agent: str | None) -> str:
    return str(extra.get(MIRROR, {}).get("subpath") or f"{_AGENT}{agent}")


def _label(project: str) -> str:
    return f"{MIRROR}:{project}"
