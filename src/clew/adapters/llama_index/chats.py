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

from clew.adapters.chains import place
from clew.adapters.lists import Slice, raw_message
from clew.adapters.rows import Keyed, load_list, store_list
from clew.backends import RefRow, Tx
from clew.base import ids
from clew.base.messages import Native

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

        def work(tx: Tx) -> list[Entry]:
            row = self._keyed.row(tx, key)
            return [] if row is None else self._entries(tx, self._chat(row))

        return self._keyed.engine.read(work)

    def count(self, key: str) -> Counter[str]:
        """How many messages of each status a chat has, without reading them."""
        row = self._keyed.engine.read(lambda tx: self._keyed.row(tx, key), single=True)
        found: Counter[str] = Counter()
        for status, count in () if row is None else self._chat(row).runs:
            found[status] += count
        return found

    def add(self, key: str, messages: Sequence[bytes], status: str) -> None:
        """Adds messages, all or none."""
        drafts = [self._keyed.engine.draft(Native(TOOL, raw)) for raw in messages]

        def work(tx: Tx) -> RefRow:
            row = self._keyed.ensure(tx, key, labels=[TOOL])
            chat = self._chat(row)
            after = None if chat.at.last is None else ids.parse(chat.at.last)
            place(self._keyed, tx, row, after, drafts)
            at = Slice(ids.text(drafts[-1].id), chat.at.count + len(drafts))
            return self._set(tx, row, _Chat(at, _extend(chat.runs, status, len(drafts))))

        if drafts:
            self._keyed.refs.write_one(work)

    def change(self, key: str, change: Callable[[list[Entry]], list[Entry]], *, create: bool = False) -> None:
        """Replaces the messages of a chat by what `change` makes of them; messages that stay are not stored again."""

        def work(tx: Tx) -> bool:
            row = self._keyed.ensure(tx, key, labels=[TOOL]) if create else self._keyed.row(tx, key)
            if row is None:
                return False
            chat = self._chat(row)
            new = change(self._entries(tx, chat))
            natives = [Native(TOOL, one.raw) for one in new]
            # An empty list has no last message: the next message becomes a new root.
            at = store_list(self._keyed, tx, row, chat.at, natives)
            runs: tuple[tuple[str, int], ...] = ()
            for status, group in groupby(new, key=lambda one: one.status):
                runs = _extend(runs, status, len(list(group)))
            self._set(tx, self._keyed.refs.get(tx, row.kind, row.key), _Chat(at, runs))
            return True

        self._keyed.engine.write(work)

    def keys(self) -> list[str]:
        """The keys of chats that have messages, the oldest chat first."""
        found = [one for one in self._keyed.labelled(TOOL) if (one.extra.get(TOOL) or {}).get("runs")]
        return [one.extra["source"]["id"] for one in sorted(found, key=lambda one: one.created_at)]

    def purge(self, key: str) -> None:
        """Deletes a chat with its branches, and clears every trace of it. Conflict if it is on hold."""
        self._keyed.purge(key)

    # -- inside

    def _chat(self, row: RefRow) -> _Chat:
        data: Any = (self._keyed.parts.table.data(row).extra or {}).get(TOOL)
        return _Chat() if data is None else msgspec.convert(data, _Chat)

    def _entries(self, tx: Tx, chat: _Chat) -> list[Entry]:
        statuses = [status for status, count in chat.runs for _ in range(count)]
        nodes = load_list(self._keyed, tx, chat.at)
        return [Entry(raw_message(node), status) for node, status in zip(nodes, statuses, strict=True)]

    def _set(self, tx: Tx, row: RefRow, chat: _Chat) -> RefRow:
        row = self._keyed.refs.get(tx, row.kind, row.key)
        data = self._keyed.parts.table.data(row)
        extra = {**(data.extra or {}), TOOL: json.loads(msgspec.json.encode(chat))}
        return self._keyed.parts.table.change(tx, row, msgspec.structs.replace(data, extra=extra))


def _extend(runs: tuple[tuple[str, int], ...], status: str, count: int) -> tuple[tuple[str, int], ...]:
    if runs and runs[-1][0] == status:
        return (*runs[:-1], (status, runs[-1][1] + count))
    return (*runs, (status, count))
