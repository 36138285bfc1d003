"""`ClewCheckpointStorage`: a state machine against the framework's storage in memory, and a workflow that is killed."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import tempfile

import pytest

pytest.importorskip("agent_framework", reason="agent-framework-core is not installed")

from agent_framework import (
    InMemoryCheckpointStorage,
    WorkflowBuilder,
    WorkflowCheckpoint,
    WorkflowCheckpointException,
    WorkflowContext,
    executor,
)
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from clew.adapters.agent_framework import ClewCheckpointStorage

IDS = st.sampled_from(["c1", "c2", "c3"])
NAMES = st.sampled_from(["w1", "w2"])
STATES = st.dictionaries(st.text(max_size=3), st.none() | st.integers() | st.text() | st.tuples(st.booleans()))


class SameAsInMemory(RuleBasedStateMachine):
    """Every call has the same outcome in both storages."""

    def __init__(self):
        super().__init__()
        self.ours = ClewCheckpointStorage(os.path.join(tempfile.mkdtemp(), "c.db"))
        self.theirs = InMemoryCheckpointStorage()
        self.runner = asyncio.Runner()
        self.count = 0

    def same(self, method, *args, **given):
        done = []
        for one in (self.theirs, self.ours):
            try:
                done.append(self.runner.run(getattr(one, method)(*args, **given)))
            except WorkflowCheckpointException as error:
                done.append(type(error))
        assert done[0] == done[1]

    @rule(id=IDS, state=STATES)
    def save(self, id, state):
        self.count += 1
        checkpoint = WorkflowCheckpoint(
            workflow_name="w1" if id == "c1" else "w2",
            graph_signature_hash="g",
            checkpoint_id=id,
            timestamp=f"2026-11-18T04:00:{self.count % 60:02}+00:00",
            state=state,
        )
        self.same("save", checkpoint)

    @rule(id=IDS)
    def load(self, id):
        self.same("load", id)

    @rule(id=IDS)
    def delete(self, id):
        self.same("delete", id)

    @rule(name=NAMES)
    def list(self, name):
        for method in ("list_checkpoints", "list_checkpoint_ids", "get_latest"):
            self.same(method, workflow_name=name)

    def teardown(self):
        assert self.ours.store.verify().ok
        self.ours.close()
        self.runner.close()


SameAsInMemory.TestCase.settings = settings(
    max_examples=25, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
TestSameAsInMemory = SameAsInMemory.TestCase


@pytest.fixture
def storage(opened):
    with opened(ClewCheckpointStorage) as storage:
        yield storage


@executor(id="double")
async def double(number: int, ctx: WorkflowContext[int]) -> None:
    await ctx.send_message(number * 2)


@executor(id="done")
async def done(number: int, ctx: WorkflowContext[None, int]) -> None:
    await ctx.yield_output(number)


def workflow(storage):
    builder = WorkflowBuilder(start_executor=double, checkpoint_storage=storage, name="sum", output_from=[done])
    return builder.add_edge(double, done).build()


def test_a_workflow_resumes(storage):
    """A workflow continues from a stored checkpoint, in another object, with the same result."""

    async def run():
        assert (await workflow(storage).run(21)).get_outputs() == [42]
        first, *_ = await storage.list_checkpoints(workflow_name="sum")
        again = await workflow(storage).run(checkpoint_id=first.checkpoint_id)
        return again.get_outputs()

    assert asyncio.run(run()) == [42]
    assert storage.store.verify().ok


@dataclasses.dataclass
class Own:
    """A type that the framework does not know."""

    value: int


def test_unknown_types_are_refused(opened):
    """An object of a type that is not allowed is neither stored nor created; one that is allowed comes back."""
    checkpoint = WorkflowCheckpoint("w", "g", state={"own": Own(1)})
    with opened(ClewCheckpointStorage) as strict:
        with pytest.raises(WorkflowCheckpointException):
            asyncio.run(strict.save(checkpoint))
        assert asyncio.run(strict.list_checkpoint_ids(workflow_name="w")) == []
        name = f"{Own.__module__}:{Own.__qualname__}"
        lax = ClewCheckpointStorage(strict.store, allowed_checkpoint_types=[name])
        asyncio.run(lax.save(checkpoint))
        assert asyncio.run(lax.load(checkpoint.checkpoint_id)) == checkpoint
        with pytest.raises(WorkflowCheckpointException):
            asyncio.run(strict.load(checkpoint.checkpoint_id))
        assert asyncio.run(strict.list_checkpoints(workflow_name="w")) == []


def test_deleted_checkpoints_leave_nothing(tmp_path):
    """After a deletion no file beside the store has a word of the checkpoint."""
    with ClewCheckpointStorage(tmp_path / "c.db") as storage:
        checkpoint = WorkflowCheckpoint("w", "g", state={"n": "needle" * 100})
        asyncio.run(storage.save(checkpoint))
        assert asyncio.run(storage.delete(checkpoint.checkpoint_id))
        assert not [one for one in tmp_path.iterdir() if b"needle" in one.read_bytes()]
