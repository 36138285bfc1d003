"""Stores a transcript of Claude Code entry by entry, as the importer would store its file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from clew.backends import MAX_SEQ, RefRow
from clew.errors import Conflict
from clew.sources.claude_code import NAME, TranscriptReader
from clew.sources.claude_code_files import Place
from clew.sources.contract import About, Entry, Part, Skip
from clew.sources.conversation import ConversationImport
from clew.sources.layout import FileName, records
from clew.sources.writing import session_id
from clew.store.parts import Parts
from clew.store.session import Session, row_of
from clew.store.store import Store

T = TypeVar("T", bound=Mapping[str, Any])


class MirroredTranscript:
    """A transcript: the links between its entries in memory, and the import of its conversation.

    All calls are made within a transaction of the store.
    """

    def __init__(self, store: Store, owner: str, agent: str) -> None:
        self._store = store
        self._parts = Parts.of(store)
        self._name = f"{owner}/{agent}" if agent else owner
        where = Place(None, agent, owner, "") if agent else Place(owner, None, None, "")
        self._reader = TranscriptReader(where, {}, {}, None)
        file = FileName(f"agent-{agent}.jsonl" if agent else f"{owner}.jsonl", "")
        self._import = ConversationImport(
            store, NAME, self._name, file, session=session_id(NAME, self._name)
        )  # fmt: skip
        self._row: RefRow | None = None
        self._seen = 0
        """The length of the log that was read."""
        self._count = 0
        self._uuids: set[str] = set()
        """The uuids of its entries: an entry that is sent again is the same one."""

    def is_of(self, row: RefRow | None) -> bool:
        """True if this transcript belongs to this row, not to a deleted session of the same name."""
        mine = self._row
        if mine is None or row is None:
            return mine is row
        return (mine.ref, mine.created_at) == (row.ref, row.created_at)

    def catch_up(self, row: RefRow | None) -> None:
        """Reads entries that were stored since the last call, also by other processes and imports."""
        self._row = row
        if row is None:
            return
        length = self._length(row)
        if length > self._seen:
            for data in records(Session(self._parts, row), self._store, self._seen):
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
        self._row = row_of(done.session)
        self._seen = self._length(self._row)
        return fresh

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

    def _length(self, row: RefRow) -> int:
        return self._parts.engine.read(lambda tx: tx.log_next(row.ref)) & MAX_SEQ


def _encode(entry: Mapping[str, Any]) -> bytes:
    """An entry as Claude Code writes it to a file."""
    try:
        return msgspec.json.encode(entry)
    except (UnicodeEncodeError, msgspec.EncodeError):  # a lone surrogate: JSON can escape it
        return json.dumps(entry, separators=(",", ":")).encode()
