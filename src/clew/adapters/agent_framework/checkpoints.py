"""The checkpoint storage of Agent Framework's workflows: ``WorkflowBuilder(checkpoint_storage=…)``.

A checkpoint is a document, as the framework encodes it: JSON, with pickles of objects that JSON cannot represent. Only
types that the framework considers safe, and types that the caller allows, are unpickled.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from agent_framework import WorkflowCheckpoint, WorkflowCheckpointException
from agent_framework._workflows._checkpoint_encoding import decode_checkpoint_value, encode_checkpoint_value

from clew.adapters.agent_framework.history import TOOL
from clew.adapters.documents import Documents
from clew.adapters.keyed import Adapter, Keyed, Target, check_version, unchanged
from clew.adapters.threads import in_thread
from clew.store.unit import Unit


class ClewCheckpointStorage(Adapter):
    """Checkpoints in a store: a path, a URL or an open `Store`. `options` are those of `clew.open`.

    `allowed_checkpoint_types` are types beyond the framework's own that checkpoints may have, as ``module:name``.
    Deleting a checkpoint clears every trace of it.
    """

    def __init__(self, target: Target, *, allowed_checkpoint_types: Iterable[str] = (), **options: Any) -> None:
        check_version("agent-framework-core", "1.20", "2")
        self._keyed = Keyed(target, TOOL, options)
        unchanged(self._keyed)
        self._documents = Documents(self._keyed)
        self._allowed = frozenset(allowed_checkpoint_types)

    async def save(self, checkpoint: WorkflowCheckpoint) -> str:
        """Stores a checkpoint. WorkflowCheckpointException if it could not be loaded again."""
        encoded = encode_checkpoint_value(checkpoint.to_dict())
        self._decode(encoded)
        about = {
            "id": checkpoint.checkpoint_id,
            "workflow": checkpoint.workflow_name,
            "timestamp": checkpoint.timestamp,
        }
        await in_thread(self._save, about, json.dumps(encoded))
        return str(checkpoint.checkpoint_id)

    async def load(self, checkpoint_id: str) -> WorkflowCheckpoint:
        """A checkpoint. WorkflowCheckpointException if it does not exist or has a type that is not allowed."""
        found = await in_thread(self._load, checkpoint_id)
        if found is None:
            raise WorkflowCheckpointException(f"No checkpoint found with ID {checkpoint_id}")
        return self._decode(json.loads(found))

    async def list_checkpoints(self, *, workflow_name: str) -> list[WorkflowCheckpoint]:
        """The checkpoints of a workflow, oldest first. Skips checkpoints with a type that is not allowed."""
        found = []
        for one in await in_thread(self._list, workflow_name):
            try:
                found.append(await self.load(one["id"]))
            except WorkflowCheckpointException:
                continue
        return found

    async def delete(self, checkpoint_id: str) -> bool:
        """Deletes a checkpoint, and clears every trace of it. False if it does not exist."""
        return await in_thread(self._documents.purge, "checkpoint", checkpoint_id)

    async def get_latest(self, *, workflow_name: str) -> WorkflowCheckpoint | None:
        """The checkpoint with the latest time; of several, the one that was stored last."""
        found = await in_thread(self._list, workflow_name)
        if not found:
            return None
        latest = max(enumerate(found), key=lambda one: (datetime.fromisoformat(one[1]["timestamp"]), one[0]))[1]
        return await self.load(latest["id"])

    async def list_checkpoint_ids(self, *, workflow_name: str) -> list[str]:
        """The ids of a workflow's checkpoints, oldest first."""
        return [one["id"] for one in await in_thread(self._list, workflow_name)]

    # -- on a thread

    def _save(self, about: dict[str, str], data: str) -> None:
        def work(unit: Unit) -> None:
            names, groups = ("checkpoint", about["id"]), [("workflow", about["workflow"])]
            before = self._documents.value(self._documents.find(*names), about)
            checkpoint = self._documents.put(unit, names, about, groups=groups)
            if before["workflow"] != about["workflow"]:
                self._documents.set_groups(unit, checkpoint, groups)
            self._documents.put(unit, ("content", about["id"]), data, owner=checkpoint)

        self._keyed.write(work)

    def _load(self, id: str) -> str | None:
        found: str | None = self._documents.value(self._documents.find("content", id))
        return found

    def _list(self, workflow: str) -> list[dict[str, str]]:
        """Facts about a workflow's checkpoints, oldest first, without reading the checkpoints themselves."""
        found = [self._documents.value(one) for one in self._documents.group("workflow", workflow)]
        return [one for one in reversed(found) if one["workflow"] == workflow]

    def _decode(self, encoded: Any) -> WorkflowCheckpoint:
        return WorkflowCheckpoint.from_dict(decode_checkpoint_value(encoded, allowed_types=self._allowed))
