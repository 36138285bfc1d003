"""The Claude Agent SDK mirrors its transcripts into clew: ``ClaudeAgentOptions(session_store=ClewSessionStore(…))``.

A transcript is stored as the importer of Claude Code's files stores it: the same session, the same ids of messages,
every other entry in the log, with the order of all. So a file that is imported and a session that was mirrored are one.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import msgspec
from claude_agent_sdk import fold_session_summary
from claude_agent_sdk.types import (
    SessionKey,
    SessionListSubkeysKey,
    SessionStoreEntry,
    SessionStoreListEntry,
    SessionSummaryEntry,
)

from clew.adapters.keyed import Adapter, Keyed, Target
from clew.adapters.threads import in_thread
from clew.adapters.versions import check_version
from clew.errors import NotFound
from clew.sources.claude_code import NAME, ClaudeCode, LineReader
from clew.sources.contract import About, Entry, Part, Skip, derived_id, uuid_or_none
from clew.sources.importer import ConversationWriter, records, session_id
from clew.store.session import Session

MIRROR = "claude"
"""Where a session's free data has what the SDK asks for: project, session, subpath, time and summary."""
_AGENT = "subagents/agent-"
REMEMBERED = 64
"""Transcripts whose links are remembered, so that an append need not read them."""


class ClewSessionStore(Adapter):
    """Transcripts in a store: a path, a URL or an open `Store`. `options` are those of `clew.open`.

    An entry with a uuid is stored once, however often it is sent. A call returns when the entries are on disk.
    """

    def __init__(self, target: Target, **options: Any) -> None:
        check_version("claude-agent-sdk", "0.2.150", "0.3")
        self._keyed = Keyed(target, NAME, options)
        self._lock = threading.Lock()
        self._open: OrderedDict[tuple[str, str, str], _Transcript] = OrderedDict()

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Stores a batch of entries, all or none."""
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
        """The summaries that the SDK keeps of the transcripts of a project."""
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
        project, session, subpath = name = _names(key)
        with self._lock:
            try:
                with self.store.transaction():
                    owner = self._session_id(project, session)
                    transcript = self._open.get(name)
                    if transcript is None or transcript.owner != owner:
                        transcript = _Transcript(self._keyed, owner, subpath)
                    if subpath:
                        self._ensure(owner, project)
                    done = transcript.append(entries)
                    self._note(done, key, entries)
            except BaseException:
                self._open.pop(name, None)
                raise
            self._open[name] = transcript
            self._open.move_to_end(name)
            if len(self._open) > REMEMBERED:
                self._open.popitem(last=False)

    def _load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        found = self._find(key)
        entries = [] if found is None else [json.loads(line) for line in records(found, self.store)]
        return entries or None

    def _mirrored(self, project: str) -> list[dict[str, Any]]:
        found = [one.extra.get(MIRROR, {}) for one in self._keyed.labelled(_label(project))]
        return [one for one in found if "summary" in one]

    def _delete(self, key: SessionKey) -> None:
        found = self._find(key)
        with self._lock:
            self._open.clear()
        if found is not None:
            self._keyed.purge_session(found)

    def _list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        found = self._find({"project_key": key["project_key"], "session_id": key["session_id"]})
        return [] if found is None else [_subpath(one) for one in found.subagents()]

    # -- inside

    def _session_id(self, project: str, session: str) -> str:
        """The id of a main transcript: its own UUID, unless another project has it or it is none."""
        own = uuid_or_none(session)
        if own is not None:
            try:
                mirror = self.store.sessions.get(own).extra.get(MIRROR, {})
            except NotFound:
                return own
            if mirror.get("project", project) == project:
                return own
        return derived_id(NAME, f"{project}\0{session}")

    def _find(self, key: SessionKey) -> Session | None:
        project, session, subpath = _names(key)
        owner = self._session_id(project, session)
        try:
            return self.store.sessions.get(session_id(NAME, _conversation(owner, subpath)))
        except NotFound:
            return None

    def _ensure(self, owner: str, project: str) -> None:
        """Creates the session of a main transcript whose subagent wrote first."""
        try:
            self.store.sessions.get(owner)
        except NotFound:
            self.store.sessions.create(id=owner, extra={MIRROR: {"project": project}})

    def _note(self, session: Session, key: SessionKey, entries: Sequence[SessionStoreEntry]) -> None:
        """Keeps project, time and summary of a transcript in the session's free data."""
        project, name, subpath = _names(key)
        now = session.refresh()
        before = now.extra.get(MIRROR, {})
        mirror: dict[str, Any] = {"project": project, "session": name, "mtime": self._keyed.engine.clock() // 1000}
        if subpath:
            mirror["subpath"] = subpath
        else:
            summary: SessionSummaryEntry | None = None
            if "summary" in before:
                summary = {"session_id": name, "mtime": before["mtime"], "data": before["summary"]}
            mirror["summary"] = fold_session_summary(summary, key, list(entries))["data"]
        now = now.update(extra={**now.extra, MIRROR: mirror})
        if not subpath and _label(project) not in now.labels:
            now.label(_label(project))


class _Transcript:
    """One transcript: its links in memory, and the writer of its session."""

    def __init__(self, keyed: Keyed, owner: str, subpath: str) -> None:
        self.owner = owner
        self._store = keyed.store
        self._name = _conversation(owner, subpath)
        agent = self._name.partition("/")[2]
        self._reader = LineReader(f"{owner}/subagents/agent-{agent}.jsonl" if agent else f"{owner}.jsonl")
        self._writer = ConversationWriter(keyed.store, ClaudeCode(), self._name)
        self._count = 0
        self._uuids: set[str] = set()
        """The uuids of its entries: an entry that is sent again is the same one."""
        self._follow(0)

    def append(self, entries: Sequence[SessionStoreEntry]) -> Session:
        """Stores entries after those that are there, also those of other processes."""
        self._follow(self._writer.catch_up())
        for entry in entries:
            if (uuid := entry.get("uuid")) is not None:
                if uuid in self._uuids:
                    continue
                self._uuids.add(uuid)
            data = _encode(entry) + b"\n"
            self._count += 1
            for part in self._reader.line(self._count, data):
                self._writer.take(self._own(part, data))
        for part in self._reader.end():
            self._writer.take(self._own(part, b""))
        self._writer.finish()
        assert self._writer.session is not None
        return self._writer.session

    def _follow(self, start: int) -> None:
        """Reads the records that were stored since the log had `start` entries."""
        if self._writer.session is not None and start < self._writer.seen:
            for data in records(self._writer.session, self._store, start):
                self._count += 1
                if isinstance(uuid := json.loads(data).get("uuid"), str):
                    self._uuids.add(uuid)
                for _ in self._reader.line(self._count, data):
                    pass

    def _own(self, part: Part, data: bytes) -> About | Entry:
        """A part as one of this transcript: a line that belongs elsewhere, or cannot be read, is a record here."""
        if isinstance(part, About) and part.conversation == self._name:
            return part
        if isinstance(part, Entry) and part.conversation == self._name:
            return part
        if isinstance(part, About):
            return About(conversation=self._name)
        key = part.key if isinstance(part, Entry) else f"line {self._count}"
        return Entry(conversation=self._name, raw=data, key=key, note=part.why if isinstance(part, Skip) else None)


def _names(key: SessionKey) -> tuple[str, str, str]:
    return key["project_key"], key["session_id"], key.get("subpath") or ""


def _conversation(owner: str, subpath: str) -> str:
    """The name that the importer gives to a transcript."""
    return f"{owner}/{subpath.removeprefix(_AGENT)}" if subpath else owner


def _subpath(session: Session) -> str:
    mirror = session.extra.get(MIRROR, {})
    return str(mirror.get("subpath") or f"{_AGENT}{session.agent}")


def _label(project: str) -> str:
    return f"{MIRROR}:{project}"


def _encode(entry: SessionStoreEntry) -> bytes:
    """An entry as Claude Code writes it to a file."""
    try:
        return msgspec.json.encode(entry)
    except (UnicodeEncodeError, msgspec.EncodeError):  # a lone surrogate, which JSON has an escape for
        return json.dumps(entry, separators=(",", ":")).encode()
