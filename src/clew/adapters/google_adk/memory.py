"""The memory service of ADK: ``Runner(…, memory_service=ClewMemoryService("chats.db"))``.

Memory points at events of sessions; nothing is copied. Events of a session that the store does not have, because
another service keeps it, are stored as a session. A search finds events that share words with the query, best first,
as ADK's service in memory does. It reads every session in the user's memory.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.platform import time as platform_time
from google.adk.sessions import Session

from clew.adapters.google_adk.service import Service, events, message_id, session_data, to_native
from clew.adapters.threads import in_thread
from clew.base import ids
from clew.engine.node import Node
from clew.store.session import Session as Conversation
from clew.store.unit import Document, Draft, Unit

UNKNOWN_SESSION = "__unknown_session_id__"
"""The session of events that are added without one, as in ADK's own services."""
RESULTS = 10
_LATIN = re.compile("[0-9A-Za-z_\u00c0-\u024f]+")


class ClewMemoryService(Service, BaseMemoryService):
    """Memory in a store. See `Service` for the arguments. Deleting a session deletes its memory."""

    async def add_session_to_memory(self, session: Session) -> None:
        names = (session.app_name, session.user_id, session.id)
        await in_thread(self._add, names, list(session.events), whole=True)

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        await in_thread(self._add, (app_name, user_id, session_id or UNKNOWN_SESSION), list(events), whole=False)

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        found = await in_thread(self._search, app_name, user_id, query)
        return SearchMemoryResponse(memories=found)

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        if memory_id:
            await in_thread(self._delete, app_name, user_id, memory_id)

    # -- on a thread

    def _add(self, names: tuple[str, str, str], events: list[Event], *, whole: bool) -> None:
        keyed = self._keyed
        drafts = [
            (event.id, keyed.draft(to_native(event), id=message_id(keyed, names, event.id)))
            for event in events
            if not event.partial
        ]

        def work(unit: Unit) -> None:
            session = keyed.session(unit, *names)
            if session is None:
                session = unit.create(
                    session_data(names, {}, platform_time.get_time(), keyed.labels), keyed.key(*names)
                )
            stored = self._store_missing(unit, session, drafts)
            document = ("memory", *names)
            value = self._documents.value(
                self._documents.get(unit, *document), {"session": names[2], "events": [], "deleted": []}
            )
            if whole:
                value |= {"until": stored[-1] if stored else None, "events": []}
            else:
                value["events"] = list(dict.fromkeys([*value["events"], *stored]))
            self._documents.put(unit, document, value, groups=[("memory", *names[:2])], owner=session)

        keyed.write(work)

    def _store_missing(self, unit: Unit, session: Conversation, drafts: list[tuple[str, Draft]]) -> list[str]:
        """Appends the events that the session does not have. Returns the ids of the messages of all of them."""
        stored = [ids.text(draft.id) for _, draft in drafts]
        known = unit.known(draft.id for _, draft in drafts)
        missing = [at for at, id in enumerate(stored) if id not in known]
        if missing:  # imported events have ids of their own
            imported = {event.id: one.node.id for one in events.pairs(unit.path(session)) for event in one.values}
            for at in missing:
                stored[at] = imported.get(drafts[at][0], stored[at])
        new = [draft for at, (_, draft) in enumerate(drafts) if at in missing and stored[at] == ids.text(draft.id)]
        if new:
            unit.append(session, new)
        return stored

    def _search(self, app: str, user: str, query: str) -> list[MemoryEntry]:
        asked = _words(query)
        scored = []
        for event in self._events(app, user):
            text = " ".join(part.text for part in (event.content.parts or []) if part.text) if event.content else ""
            if matches := _count_matches(asked, text):
                scored.append((matches, event))
        scored.sort(key=lambda one: -one[0])
        return [
            MemoryEntry(
                id=event.id,
                content=event.content,
                author=event.author,
                timestamp=datetime.fromtimestamp(event.timestamp).isoformat(),  # noqa: DTZ006  as ADK writes it
            )
            for _, event in scored[:RESULTS]
        ]

    def _events(self, app: str, user: str) -> Iterator[Event]:
        """The events that a user has in memory, in the order in which their sessions were added."""
        for document in self._memories(app, user):
            value: dict[str, Any] = self._documents.value(document)
            for event in events.values(self._keyed.read(partial(self._nodes, value=value))):
                if event.id not in value["deleted"] and event.content and event.content.parts:
                    yield event

    def _nodes(self, unit: Unit, value: dict[str, Any]) -> list[Node]:
        """The messages of a document: the path to the last one that was added, and others."""
        until = value.get("until")
        end = None if until is None else unit.node(until)
        nodes = [] if end is None else unit.path(end)
        seen = {node.id for node in nodes}
        others = (unit.node(id) for id in value["events"] if id not in seen)
        return nodes + [node for node in others if node is not None]

    def _delete(self, app: str, user: str, event: str) -> None:
        names = [("memory", app, user, self._documents.value(one)["session"]) for one in self._memories(app, user)]

        def work(unit: Unit) -> None:
            for one in names:
                value = self._documents.value(self._documents.get(unit, *one))
                if value is None or event in value["deleted"]:
                    continue
                if any(one.id == event for one in events.values(self._nodes(unit, value))):
                    value["deleted"].append(event)
                    self._documents.put(unit, one, value, groups=[("memory", app, user)])

        self._keyed.write(work)

    def _memories(self, app: str, user: str) -> list[Document]:
        """The documents of a user's sessions, in the order in which they were added."""
        return list(self._documents.group("memory", app, user))[::-1]


def _words(text: str) -> set[str]:
    return {word.lower() for word in re.findall(r"\w+", unicodedata.normalize("NFC", text))}


def _count_matches(asked: set[str], text: str) -> int:
    """How many words of a query a text has. Latin words inside text without spaces count, too."""
    words, lower = _words(text), unicodedata.normalize("NFC", text).lower()
    words.update(run for word in list(words) if not word.isascii() for run in _LATIN.findall(word))
    return sum(word in words or (not word.isascii() and word in lower) for word in asked)
