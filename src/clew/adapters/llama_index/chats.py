"""Chats of LlamaIndex as conversations.

A chat is a list of messages, each active or archived: a slice of a session's path, whose free data has the slice and
the statuses as runs, ``[["archived", 120], ["active", 20]]``. Every change is one transaction. Messages that a change
removes stay as a branch.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import msgspec

from clew.adapters.keyed import Keyed
from clew.adapters.lists import Slice, load_list, raw_message, store_list
from clew.base.messages import Native
from clew.store.session import Session
from clew.store.unit import Unit

TOOL = "llama-index"
"""Also the key of the chat in a session's free data, and the label of all chats."""


class Entry(NamedTuple):
    """A message of a chat, as JSON, and its status."""

    raw: bytes
    status: str


class _Chat(msgspec.Struct, frozen=True):
    """Where the messages of a chat are, and how many of each status, in their order."""

    at: Slice = Slice()
    runs: tuple[tuple[str, int], ...] = ()


class Chats:
    """The chats of a store, by key."""

    def __init__(self, keyed: Keyed) -> None:
        self._keyed = keyed

    def read(self, key: str) -> list[Entry]:
        """The messages of a chat; none if there is no such chat."""

        def work(unit: Unit) -> list[Entry]:
            session = self._keyed.session(unit, key)
            return [] if session is None else self._entries(unit, self._chat(session))

        return self._keyed.read(work)

    def count(self, key: str) -> Counter[str]:
        """How many messages of each status a chat has, without reading them."""
        session = self._keyed.find(key)
        found: Counter[str] = Counter()
        for status, count in () if session is None else self._chat(session).runs:
            found[status] += count
        return found

    def add(self, key: str, messages: Sequence[bytes], status: str) -> None:
        """Adds messages, all or none."""
        drafts = [self._keyed.draft(Native(TOOL, raw)) for raw in messages]

        def work(unit: Unit) -> None:
            session = self._keyed.ensure(unit, key, labels=[TOOL])
            chat = self._chat(session)
            nodes = unit.append(session, drafts, after=chat.at.last)
            at = Slice(nodes[-1].id, chat.at.count + len(nodes))
            self._set(unit, session, _Chat(at, _extend(chat.runs, status, len(nodes))))

        if drafts:
            self._keyed.write(work)

    def change(self, key: str, change: Callable[[list[Entry]], list[Entry]], *, create: bool = False) -> None:
        """Replaces the messages of a chat by what `change` makes of them; messages that stay are not stored again."""

        def work(unit: Unit) -> None:
            session = self._keyed.ensure(unit, key, labels=[TOOL]) if create else self._keyed.session(unit, key)
            if session is None:
                change([])  # or it keeps what it saw in a run that was undone
                return
            chat = self._chat(session)
            new = change(self._entries(unit, chat))
            natives = [Native(TOOL, one.raw) for one in new]
            # An empty list has no last message: the next message becomes a new root.
            at = store_list(unit, session, chat.at, natives)
            runs: tuple[tuple[str, int], ...] = ()
            for status, group in groupby(new, key=lambda one: one.status):
                runs = _extend(runs, status, len(list(group)))
            self._set(unit, session, _Chat(at, runs))

        self._keyed.write(work)

    def keys(self) -> list[str]:
        """The keys of chats that have messages, the oldest chat first."""
        found = [one for one in self._keyed.labelled(TOOL) if (one.extra.get(TOOL) or {}).get("runs")]
        return [one.extra["source"]["id"] for one in sorted(found, key=lambda one: one.created_at)]

    def purge(self, key: str) -> None:
        """Deletes a chat with its branches, and clears every trace of it. Conflict if it is on hold."""
        self._keyed.purge(key)

    # -- inside

    def _chat(self, session: Session) -> _Chat:
        data: Any = (session.data.extra or {}).get(TOOL)
        return _Chat() if data is None else msgspec.convert(data, _Chat)

    def _entries(self, unit: Unit, chat: _Chat) -> list[Entry]:
        statuses = [status for status, count in chat.runs for _ in range(count)]
        nodes = load_list(unit, chat.at)
        return [Entry(raw_message(node), status) for node, status in zip(nodes, statuses, strict=True)]

    def _set(self, unit: Unit, session: Session, chat: _Chat) -> None:
        extra = {**session.extra, TOOL: json.loads(msgspec.json.encode(chat))}
        unit.save(session, msgspec.structs.replace(session.data, extra=extra))


def _extend(runs: tuple[tuple[str, int], ...], status: str, count: int) -> tuple[tuple[str, int], ...]:
    if runs and runs[-1][0] == status:
        return (*runs[:-1], (status, runs[-1][1] + count))
    return (*runs, (status, count))
