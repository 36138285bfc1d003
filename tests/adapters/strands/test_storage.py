"""`ClewStorage`: a state machine against the storage in memory, and snapshots as conversations."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile

import pytest

pytest.importorskip("strands.session", reason="strands-agents is not installed")

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from strands.agent.conversation_manager import SlidingWindowConversationManager
from strands.session import SnapshotSessionManager
from strands.storage import InMemoryStorage, Storage
from strands.types.exceptions import StorageError

from clew.adapters.strands import ClewStorage
from tests.adapters.commands import QUESTION, expect_weather
from tests.adapters.strands.agents import agent

SNAPSHOT = "session/s{}/scopes/agent/a/snapshots/{}.json"
KEYS = st.sampled_from(
    ["a", "a/b", "a//b/c", "/x/", "x/y/z/w", "", "a/../b", "a\\b"]
    + [SNAPSHOT.format(number, name) for number in (1, 2) for name in ("snapshot_latest", "immutable_history/x")]
)
MESSAGES = st.lists(
    st.sampled_from(["one", "two", "three", "n\u0000ul"]).map(
        lambda text: {"role": "user", "content": [{"text": text}]}
    ),
    max_size=5,
)
VALUES = st.one_of(
    st.binary(max_size=20),
    st.text(max_size=20).map(str.encode),
    MESSAGES.map(lambda said: json.dumps({"data": {"messages": said, "n": 0.1}}, ensure_ascii=False).encode()),
    MESSAGES.map(lambda said: json.dumps({"data": {"messages": said}}, indent=1).encode()),
    st.just(b'{"data": {"messages": [1]}}'),
    st.just(b'{"data": {"messages": [{"role": "user", "content": [NaN]}]}}'),
)


class SameAsInMemory(RuleBasedStateMachine):
    """Every call has the same outcome in both storages."""

    def __init__(self):
        super().__init__()
        self.ours = ClewStorage(os.path.join(tempfile.mkdtemp(), "c.db"))
        self.theirs = InMemoryStorage()
        self.runner = asyncio.Runner()

    def same(self, method, *args):
        done = []
        for one in (self.theirs, self.ours, self.theirs.namespace("n"), self.ours.namespace("n")):
            try:
                done.append(self.runner.run(getattr(one, method)(*args)))
            except StorageError as error:
                done.append(type(error))
        assert done[0] == done[1]
        assert done[2] == done[3]

    @rule(key=KEYS, data=VALUES)
    def write(self, key, data):
        self.same("write", key, data)
        self.same("read", key)

    @rule(key=KEYS)
    def read(self, key):
        self.same("read", key)

    @rule(key=KEYS)
    def delete(self, key):
        self.same("delete", key)
        self.same("read", key)

    @rule(prefix=st.sampled_from(["", "a", "a/", "session/s1/", "session/s1/scopes/agent", "n/a", "x/y/z", "../"]))
    def list(self, prefix):
        self.same("list", prefix)

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
    with opened(ClewStorage) as storage:
        yield storage


def test_snapshots_are_a_conversation(storage):
    """A session of snapshots is a conversation with roles, calls and results, each message stored once."""
    assert isinstance(storage, Storage)
    first = agent(agent_id="main", session_manager=SnapshotSessionManager("trip", storage=storage))
    for _ in range(3):
        first("How is it?")
    session = storage.store.sessions.latest()
    assert [node.role for node in session.path()] == ["user", "assistant", "tool", "assistant"] * 3
    assert session.branches() == []
    second = agent(agent_id="main", session_manager=SnapshotSessionManager("trip", storage=storage))
    assert second.messages == first.messages
    assert len(storage.store.search("Turin")) >= 3
    assert storage.store.verify().ok


def test_a_window_shares_its_messages(storage):
    """A conversation manager that drops old messages does not make new ones: the conversation has them all."""
    window = SlidingWindowConversationManager(window_size=10)
    one = agent(
        agent_id="main",
        conversation_manager=window,
        session_manager=SnapshotSessionManager("trip", storage=storage),
    )
    for _ in range(6):
        one("How is it?")
    assert len(one.messages) <= 10
    session = storage.store.sessions.latest()
    assert len(session.path()) == 24
    assert session.branches() == []


def test_time_travel(storage):
    """An earlier snapshot is read as it was; continuing from it makes a branch."""
    manager = SnapshotSessionManager("trip", storage=storage, snapshot_trigger=lambda **_: True)
    first = agent(agent_id="main", session_manager=manager)
    first("How is it?")
    early = list(first.messages)
    first("And now?")

    async def back():
        (oldest, *_) = await manager.list_snapshot_ids(first)
        await manager.restore_snapshot(first, snapshot_id=oldest)

    asyncio.run(back())
    assert first.messages == early
    first("Really?")
    session = storage.store.sessions.latest()
    assert [node.text for node in session.path() if node.role == "user"] == ["How is it?", "Really?"]
    assert len(session.branches()) == 1
    assert storage.store.verify().ok


def test_deletion_leaves_nothing(tmp_path):
    """Deleting a session through its manager deletes the conversation, and clears every trace."""
    with ClewStorage(tmp_path / "c.db") as storage:
        manager = SnapshotSessionManager("trip", storage=storage, snapshot_trigger=lambda **_: True)
        one = agent(agent_id="main", session_manager=manager)
        one("needle")
        asyncio.run(storage.write("other", b"kept"))
        asyncio.run(manager.delete_session())
        assert storage.store.sessions.list().items == []
        assert asyncio.run(storage.list("")) == ["other"]
        assert not [one for one in tmp_path.iterdir() if b"needle" in one.read_bytes()]


def test_a_snapshot_that_is_stored_while_the_last_one_is_deleted(tmp_path):
    """The conversation of an agent stays if another program stores a snapshot of it before the deletion is done."""
    key = SNAPSHOT.format(1, "{}")
    data = json.dumps({"data": {"messages": [{"role": "user", "content": [{"text": "needle"}]}]}}).encode()

    class Between(ClewStorage):
        """Lets the other program write once no snapshot is left."""

        def _list(self, prefix):
            found = super()._list(prefix)
            if not found:
                asyncio.run(other.write(key.format("new"), data))
            return found

    with Between(tmp_path / "c.db") as storage, ClewStorage(tmp_path / "c.db") as other:
        asyncio.run(storage.write(key.format("old"), data))
        asyncio.run(storage.delete(key.format("old")))
        assert asyncio.run(other.list("")) == [key.format("new")]
        assert asyncio.run(other.read(key.format("new"))) == data
        assert len(other.store.sessions.list().items) == 1


def test_in_the_command_line(opened):
    """A session of snapshots with a tool call is listed, found, shown, redacted and purged."""
    with opened(ClewStorage) as storage:
        agent(agent_id="main", session_manager=SnapshotSessionManager("trip", storage=storage))(QUESTION)
    expect_weather(opened)
