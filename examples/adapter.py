"""An adapter: the sessions of a made-up agent framework, kept in clew by public names alone.

Items are dicts; `add` takes several, `get` returns the last ones, `pop` removes the last. A session has two names.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import clew

TOOL = "made-up"


class Memory:
    """One session of the framework. Its calls can be made from any thread and any number of processes."""

    def __init__(self, store: clew.Store, user: str, name: str) -> None:
        self._store = store
        self._key = (TOOL, user, name)
        self._state = store.derived_id(*self._key, "state")

    def _session(self) -> clew.Session:
        return self._store.sessions.open(*self._key, labels=[TOOL])

    def _draft(self, item: dict[str, Any]) -> clew.Draft:
        """An item as a message, byte for byte. With the framework's id, a second call with it stores nothing."""
        id = None if "id" not in item else self._store.derived_id(*self._key, item["id"])
        return self._store.draft(clew.native("openai", item), id=id)

    def add(self, items: list[dict[str, Any]]) -> None:
        """Stores items after the last one: all or none, durable when this returns."""
        session, drafts = self._session(), [self._draft(item) for item in items]

        def work(unit: clew.Unit) -> None:  # may run again, so it only calls verbs
            unit.append(session, [draft for draft in drafts if unit.stored(draft, session) is None])

        self._store.write(work)

    def get(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The last items, oldest first."""
        return [item_of(node) for node in self._session().path(last=limit)]

    def pop(self) -> dict[str, Any] | None:
        """Removes the last item and returns it. In clew it stays as a branch, as after a rewind."""
        session = self._session()

        def work(unit: clew.Unit) -> clew.Node | None:
            for last in unit.path(session, last=1):
                unit.move(session, last.parent_id)
                return last
            return None

        last = self._store.write(work)
        return None if last is None else item_of(last)

    @property
    def state(self) -> Any:
        """The value that belongs to the session; None at first."""
        found = self._store.read(lambda unit: unit.document("document", self._state))
        return None if found is None else json.loads(found.data)

    @state.setter
    def state(self, value: Any) -> None:
        session, data = self._session(), json.dumps(value).encode()
        self._store.write(lambda unit: unit.put("document", self._state, data, owner=session))

    def delete(self) -> None:
        """Deletes the session with its state, and clears every trace of them. Conflict if it is on hold."""
        for failure in self._session().purge().failures:
            raise clew.Conflict(failure.error)


def item_of(node: clew.Node) -> dict[str, Any]:
    """The item that a message was."""
    assert isinstance(node.said, clew.Native)
    item: dict[str, Any] = json.loads(node.said.raw)
    return item


class Driver:
    """How `clew.testing.adapters` drives an adapter: texts stand for items."""

    deduplicates = True

    def __init__(self, path: str) -> None:
        self._store = clew.open(path)

    async def append(self, session: str, texts: list[str], ids: list[str]) -> None:
        items = [{"id": id, "role": "user", "content": text} for id, text in zip(ids, texts, strict=True)]
        Memory(self._store, "someone", session).add(items)

    async def read(self, session: str) -> list[str]:
        return [item["content"] for item in Memory(self._store, "someone", session).get()]

    async def delete(self, session: str) -> None:
        Memory(self._store, "someone", session).delete()

    def close(self) -> None:
        self._store.close()


def main() -> None:
    """Two turns, one of which is sent twice."""
    question = {"id": "1", "role": "user", "content": "Where to?"}
    answer = {"id": "2", "role": "assistant", "content": "To the sea."}
    with tempfile.TemporaryDirectory() as folder, clew.open(Path(folder, "memory.db")) as store:
        memory = Memory(store, "alice", "trip")
        memory.add([question, answer])
        memory.add([answer])  # sent again: stored once
        memory.state = {"budget": 300}
        print(memory.get(), memory.pop(), len(memory.get()), memory.state)
        memory.delete()


if __name__ == "__main__":
    main()
