"""Stores a transcript of Claude Code entry by entry, as the importer would store its file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from clew.errors import Conflict
from clew.sources.claude_code import NAME, TranscriptReader
from clew.sources.claude_code_files import Place
from clew.sources.contract import About, Entry, Part, Skip
from clew.sources.conversation_import import ConversationImport
from clew.sources.layout import FileName, records
from clew.sources.writing import session_id
from clew.store.session import Session, is_same
from clew.store.store import Store

T = TypeVar("T", bound=Mapping[str, Any])


class MirroredTranscript:
    """A transcript: the links between its entries in memory, and the import of its conversation.

    All calls are made within a transaction of the store.
    """

    def __init__(self, store: Store, owner: str, agent: str) -> None:
        self._store = store
        self._name = f"{owner}/{agent}" if agent else owner
        where = Place(None, agent, owner, "") if agent else Place(owner, None, None, "")
        self._reader = TranscriptReader(where, {}, {}, None)
        file = FileName(f"agent-{agent}.jsonl" if agent else f"{owner}.jsonl", "")
        # Purged ids may come again: they are new entries of a running program, perhaps under another key.
        self._import = ConversationImport(
            store, NAME, self._name, file, session=session_id(NAME, self._name), again=True
        )  # fmt: skip
        self._session: Session | None = None
        self._seen = 0
        """The length of the log that was read."""
        self._last = ""
        """The id of the last entry of the log after `append`."""
        self._count = 0
        self._uuids: set[str] = set()
        """The uuids of its entries: an entry that is sent again is the same one."""

    def is_of(self, session: Session | None) -> bool:
        """True if this transcript belongs to this session, not to a deleted one of the same name."""
        mine = self._session
        return mine is session if mine is None or session is None else is_same(mine, session)

    def catch_up(self, session: Session | None) -> None:
        """Reads entries that were stored since the last call, also by other processes and imports."""
        self._session = session
        if session is None:
            return
        length = len(session.log)
        if length > self._seen:
            for data in records(session, self._store, self._seen):
                self._count += 1
                uuid = json.loads(data).get("uuid")
                if isinstance(uuid, str):
                    self._uuids.add(uuid)
                self._tell(self._reader.line(self._count, data if data.endswith(b"\n") else data + b"\n"))
            self._seen = length

    def append(self, entries: Sequence[T]) -> list[T]:
        """Stores the entries that are new, and returns these. Conflict if the session is in the trash."""
        fresh = []
        for entry in entries:
            uuid = entry.get("uuid")
            if isinstance(uuid, str):
                if uuid in self._uuids:
                    continue
                self._uuids.add(uuid)
            fresh.append(entry)
            self._count += 1
            self._take(_encode(entry) + b"\n")
        if not fresh:
            return []
        self._tell(self._reader.end())
        self._import.prepare({})
        if self._import.trashed:
            raise Conflict(f"session {self._import.id} is in the trash", hint="Restore it or purge it, then try again.")
        done = self._store.write(lambda unit: self._import.store(unit, last=True))
        self._import.take_over(done, last=True)
        assert done.session is not None
        self._session = done.session
        self._seen = len(done.session.log)
        self._last = next(iter(done.session.log.read(self._seen - 1))).id
        return fresh

    def is_stored(self) -> bool:
        """True if the store has what `append` has stored, also after a commit whose answer was lost."""
        mine = self._session
        return mine is not None and bool(self._store.read(lambda unit: unit.logged(mine, [self._last])))

    def _take(self, data: bytes) -> None:
        """Adds an entry. An entry of another conversation, or an unreadable one, becomes a record of this one."""
        *facts, part = self._reader.line(self._count, data)
        self._tell(facts)
        if isinstance(part, Entry) and part.conversation == self._name:
            self._import.take(self._count, part)
        else:
            key = part.key if isinstance(part, Entry) else f"line {self._count}"
            note = part.why if isinstance(part, Skip) else None
            self._import.take(self._count, Entry(conversation=self._name, raw=data, key=key, note=note))

    def _tell(self, parts: Iterable[Part]) -> None:
        """Takes the facts about this conversation."""
        for part in parts:
            if isinstance(part, About) and part.conversation == self._name:
                self._import.tell(part)


def _encode(entry: Mapping[str, Any]) -> bytes:
    """An entry as Claude Code writes it to a file."""
    try:
        return msgspec.json.encode(entry)
    except (UnicodeEncodeError, msgspec.EncodeError):  # a lone surrogate: JSON can escape it
        return json.dumps(entry, separators=(",", ":")).encode()
