"""Pydantic AI: entries and records keep to their workspace and conversation."""

from __future__ import annotations

import asyncio
import uuid
from datetime import UTC, datetime

import pytest

pytest.importorskip("pydantic_ai.conversation_store", reason="pydantic-ai is not installed")

from pydantic_ai.conversation_store import ConversationConflict, ConversationEntry, ConversationRecord
from pydantic_ai.messages import ModelRequest, UserPromptPart

import clew
from clew.adapters.pydantic_ai import ClewConversationStore
from tests.adapters.tenants import check, workspaces

NOW = datetime(2026, 11, 1, tzinfo=UTC)


def record(name, head, revision, scope=None):
    return ConversationRecord(conversation_id=name, head_id=head, revision=revision, updated_at=NOW, scope=scope)


def entry(id, parent, text):
    return ConversationEntry(id=id, parent_id=parent, message=ModelRequest(parts=[UserPromptPart(text, timestamp=NOW)]))


class Conversations:
    """Conversations with a scope: all tenants name their entries alike."""

    def __init__(self, store):
        self._store = ClewConversationStore(store)

    def _record(self, key):
        return asyncio.run(self._store.read_record(key[1]))

    def write(self, key, text, *, new):
        before = self._record(key)
        assert (before is None) == new
        number = 0 if new else int(before.revision) + 1
        id = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{key} {number}")) if number % 2 else f"{key} {number}"
        head = None if new else before.head_id
        asyncio.run(
            self._store.write_record(
                record(key[1], id, str(number), key[0]),
                new_entries=[entry(id, head, text)],
                expected_revision=None if new else before.revision,
            )
        )

    def read(self, key):
        found = self._record(key)
        if found is None:
            return None
        scoped = asyncio.run(self._store.read_records(scope=found.scope))
        assert found in scoped
        assert {one.scope for one in scoped} == {found.scope}
        assert asyncio.run(self._store.read_entry(found.head_id)).id == found.head_id
        entries = asyncio.run(self._store.read_history(found.head_id))
        assert [one.parent_id for one in entries] == [None, *(one.id for one in entries[:-1])]
        return [one.message.parts[0].content for one in entries]

    def delete(self, key):
        found = self._record(key)
        if found is not None:
            asyncio.run(self._store.delete_record(key[1], expected_revision=found.revision))


class Unscoped(Conversations):
    """Conversations by their id alone."""

    def write(self, key, text, *, new):
        super().write((key[0], key[0]), text, new=new)

    def read(self, key):
        return super().read((key[0], key[0]))

    def delete(self, key):
        super().delete((key[0], key[0]))


def test_tenants(opened):
    """Two workspaces with the same conversations and the same ids of entries see their own only."""
    stores = workspaces(opened)
    check(stores, Unscoped, 1, seed=7, steps=60)
    for store in stores.values():
        store.close()


@pytest.mark.parametrize("seed", range(10))
def test_tenants_at_length(opened, seed):
    """Two workspaces with the same conversations and the same ids of entries see their own only: many runs."""
    stores = workspaces(opened)
    check(stores, Unscoped, 1, seed=seed, steps=300)
    for store in stores.values():
        store.close()


@pytest.mark.parametrize("where", ["head", "parent"])
def test_an_entry_of_another_workspace_is_unknown(opened, where):
    """An entry of another workspace is neither a head nor a parent: no text crosses, and nothing is damaged."""
    stores = workspaces(opened, ("tenant-a", "tenant-b"))
    a, b = (ClewConversationStore(one) for one in stores.values())
    secret, mine = str(uuid.uuid4()), str(uuid.uuid4())

    async def run():
        await a.write_record(
            record("a", secret, "1"), new_entries=[entry(secret, None, "SECRET")], expected_revision=None
        )
        head = secret if where == "head" else mine
        new = [] if where == "head" else [entry(mine, secret, "stolen")]
        with pytest.raises(ConversationConflict):
            await b.write_record(record("b", head, "1"), new_entries=new, expected_revision=None)
        for unknown in (b.read_entry(secret), b.read_history(secret)):
            with pytest.raises(LookupError):
                await unknown
        assert await b.read_record("b") is None
        # The same id is free for this workspace.
        await b.write_record(
            record("b", secret, "1"), new_entries=[entry(secret, None, "mine")], expected_revision=None
        )
        assert [one.id for one in await b.read_history(secret)] == [secret]
        assert (await a.read_entry(secret)).message.parts[0].content == "SECRET"

    asyncio.run(run())
    for store in stores.values():
        assert len(store.sessions.list().items) == 1
        assert store.verify().ok
        store.close()


def test_a_message_of_another_program_is_no_entry(opened):
    """A message that Pydantic AI did not write is neither read as an entry nor continued."""
    with opened(ClewConversationStore) as store:
        chat = store.store.sessions.create()
        id = chat.append(clew.user("private")).id

        async def run():
            with pytest.raises(ConversationConflict):
                await store.write_record(record("c", id, "1"), expected_revision=None)
            with pytest.raises(LookupError):
                await store.read_entry(id)

        asyncio.run(run())
        assert len(store.store.sessions.list().items) == 1


@pytest.mark.parametrize("where", ["head", "parent"])
def test_a_conversation_moves_to_entries_of_another(opened, where):
    """A stored conversation can continue at an entry of another one, as in Pydantic AI's own store; a new one forks it.

    Its own entries stay, and can be its head again, also after the other conversation was deleted.
    """
    with opened(ClewConversationStore) as store:

        async def run():
            for name in "ab":
                new = [entry(name, None, f"text of {name}")]
                await store.write_record(record(name, name, "1"), new_entries=new, expected_revision=None)
            head, new = ("a", []) if where == "head" else ("c", [entry("c", "a", "more")])
            await store.write_record(record("b", head, "2"), new_entries=new, expected_revision="1")
            await store.write_record(record("fork", head, "1"), expected_revision=None)
            await store.write_record(
                record("b", "d", "3"), new_entries=[entry("d", head, "last")], expected_revision="2"
            )
            await store.delete_record("a", expected_revision="1")
            await store.delete_record("fork", expected_revision="1")
            assert (await store.read_record("b")).head_id == "d"
            history = [one.id for one in await store.read_history("d")]
            assert history == ["a", "d"] if where == "head" else ["a", "c", "d"]
            assert [one.id for one in await store.read_history("b")] == ["b"]
            await store.write_record(record("b", "b", "4"), expected_revision="3")

        asyncio.run(run())
        (session,) = store.store.sessions.list().items
        assert [node.message.text for node in session.path()] == ["text of b"]
        assert len(session.branches()) == 1
        assert store.store.verify().ok


def test_a_held_conversation_stays(opened):
    """A conversation on hold does not move to an entry of another one: what it has must stay."""
    with opened(ClewConversationStore) as store:

        async def run():
            for name in "ab":
                new = [entry(name, None, f"text of {name}")]
                await store.write_record(record(name, name, "1"), new_entries=new, expected_revision=None)
            for one in store.store.sessions.list().items:
                one.hold()
            with pytest.raises(clew.Conflict):
                await store.write_record(record("b", "a", "2"), expected_revision="1")
            assert (await store.read_record("b")).revision == "1"

        asyncio.run(run())
