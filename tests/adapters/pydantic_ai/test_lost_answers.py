"""P12 for an adapter: what it has written when the answer of its commit is lost is stored once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

pytest.importorskip("pydantic_ai.conversation_store", reason="pydantic-ai is not installed")

from pydantic_ai.conversation_store import ConversationConflict, ConversationEntry, ConversationRecord
from pydantic_ai.messages import ModelRequest, UserPromptPart

from clew.adapters.pydantic_ai import ClewConversationStore
from tests.backends.postgres.proxy import Cut, Proxy

NOW = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.fixture
def proxy(pg_server: Any) -> Iterator[Proxy]:
    """A proxy to the server whose connections can be cut."""
    proxy = Proxy(pg_server)
    yield proxy
    proxy.close()


def entry(id: str, parent: str | None) -> ConversationEntry:
    return ConversationEntry(id=id, parent_id=parent, message=ModelRequest(parts=[UserPromptPart(id, timestamp=NOW)]))


def record(name: str, head: str | None, revision: str) -> ConversationRecord:
    return ConversationRecord(conversation_id=name, head_id=head, revision=revision, updated_at=NOW)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_record_whose_answer_is_lost(proxy: Proxy, when: Cut) -> None:
    """A new record, more entries, a head that moves, also to another conversation, and a deletion happen once.

    No caller hears of the lost answer: a write that is repeated would find its own revision, and raise a conflict.
    """
    with ClewConversationStore(proxy.url(), timeout=10) as store:

        async def run() -> None:
            await store.write_record(record("other", "o", "1"), new_entries=[entry("o", None)], expected_revision=None)
            steps = [
                (record("a", "2", "1"), [entry("1", None), entry("2", "1")], None),
                (record("a", "3", "2"), [entry("3", "2")], "1"),
                (record("a", "1", "3"), [], "2"),
                (record("a", "o", "4"), [], "3"),
            ]
            for cuts, (one, new, expected) in enumerate(steps, 1):
                proxy.cut_at(b"COMMIT", when)
                await store.write_record(one, new_entries=new, expected_revision=expected)
                assert proxy.cuts == cuts
                assert (await store.read_record("a")) == one
            assert [one.id for one in await store.read_history("3")] == ["1", "2", "3"]
            with pytest.raises(ConversationConflict):
                await store.write_record(record("a", "3", "5"), expected_revision="3")
            proxy.cut_at(b"COMMIT", when)
            await store.delete_record("a", expected_revision="4")
            assert proxy.cuts == len(steps) + 1
            assert await store.read_record("a") is None

        asyncio.run(run())
        (session,) = store.store.sessions.list().items
        assert len(session.path()) == 1
        assert len(store.store.nodes.list().items) == 1
        assert store.store.verify().ok
