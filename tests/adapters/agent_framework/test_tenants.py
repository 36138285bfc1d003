"""Agent Framework: histories and checkpoints keep to their own key and workspace."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("agent_framework", reason="agent-framework-core is not installed")

from agent_framework import Content, Message, WorkflowCheckpoint, WorkflowCheckpointException

from clew.adapters.agent_framework import ClewCheckpointStorage, ClewHistoryProvider
from tests.adapters.tenants import check, workspaces


class Histories:
    """Histories by provider and session. All tenants have the same ids of messages."""

    def __init__(self, store):
        self._store = store

    def write(self, key, text, *, new):
        message = Message("user", [Content.from_text(text)], message_id=text.partition(" ")[0])
        asyncio.run(ClewHistoryProvider(self._store, key[0]).save_messages(key[1], [message]))

    def read(self, key):
        return [one.text for one in asyncio.run(ClewHistoryProvider(self._store, key[0]).get_messages(key[1]))]

    def delete(self, key):
        asyncio.run(ClewHistoryProvider(self._store, key[0]).purge(key[1]))


class Checkpoints:
    """One checkpoint under each id."""

    def __init__(self, store):
        self._checkpoints = ClewCheckpointStorage(store)

    def write(self, key, text, *, new):
        texts = [*(self.read(key) or ()), text]
        one = WorkflowCheckpoint(
            workflow_name=key[0], graph_signature_hash="x", checkpoint_id=key[0], state={"texts": texts}
        )
        asyncio.run(self._checkpoints.save(one))

    def read(self, key):
        try:
            found = asyncio.run(self._checkpoints.load(key[0]))
        except WorkflowCheckpointException:
            found = None
        listed = asyncio.run(self._checkpoints.list_checkpoint_ids(workflow_name=key[0]))
        assert listed == ([] if found is None else [key[0]])
        return None if found is None else found.state["texts"]

    def delete(self, key):
        asyncio.run(self._checkpoints.delete(key[0]))


@pytest.mark.parametrize(("kind", "arity"), [(Histories, 2), (Checkpoints, 1)])
def test_tenants(opened, kind, arity):
    """No call for one key reaches another one, in any workspace."""
    stores = workspaces(opened)
    check(stores, kind, arity, seed=1, steps=80)
    for store in stores.values():
        store.close()


def test_a_checkpoint_of_another_workflow(opened):
    """A checkpoint that is stored again by another workflow is listed by that one alone."""
    with opened(ClewCheckpointStorage) as checkpoints:

        async def run():
            for name in ("a", "b"):
                await checkpoints.save(
                    WorkflowCheckpoint(workflow_name=name, graph_signature_hash="x", checkpoint_id="1")
                )
            assert await checkpoints.list_checkpoint_ids(workflow_name="a") == []
            assert await checkpoints.list_checkpoint_ids(workflow_name="b") == ["1"]
            assert (await checkpoints.get_latest(workflow_name="b")).workflow_name == "b"

        asyncio.run(run())
