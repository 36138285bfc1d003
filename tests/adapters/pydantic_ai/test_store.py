"""`ClewConversationStore`: a state machine against Pydantic AI's own store in memory, and what that one cannot show."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import tempfile

import pytest

pytest.importorskip("pydantic_ai.conversation_store", reason="pydantic-ai-slim is not installed")

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict, ConversationEntry, InMemoryConversationStore
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel

from clew.adapters.pydantic_ai import ClewConversationStore
from tests.adapters.commands import QUESTION, expect_weather
from tests.adapters.processes import run_together

NAMES = st.sampled_from(["a", "b", "c"])
SCOPES = st.sampled_from([None, "x", "y"])


def request(text):
    return ModelRequest(parts=[UserPromptPart(text)])


def response(text):
    return ModelResponse(parts=[TextPart(text)])


class SameAsInMemory(RuleBasedStateMachine):
    """Every call has the same outcome in both stores, and both have the same conversations after it."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.ours = ClewConversationStore(os.path.join(self.folder.name, "c.db"))
        self.theirs = InMemoryConversationStore()
        self.count = 0

    def both(self, call):
        """Calls both stores. A record of ours is written to theirs with its ids, which are made by the base class."""
        done = []
        for store in (self.theirs, self.ours):
            try:
                done.append(asyncio.run(call(store)))
            except UserError as error:
                done.append(type(error))
        return done

    def say(self, name):
        """Loads or begins a conversation, adds a turn and saves it."""

        async def call(store):
            found = await store.load(name) or Conversation(conversation_id=name)
            found.messages.extend([request(f"q{self.count}"), response(f"a{self.count}")])
            return len(await store.save(found))

        self.count += 1
        return self.both(call)

    @rule(name=NAMES)
    def add(self, name):
        theirs, ours = self.say(name)
        assert theirs == ours
        self.check()

    @rule(name=NAMES, scope=SCOPES)
    def scoped(self, name, scope):
        async def call(store):
            found = await store.load(name, scope=scope) or Conversation(conversation_id=name)
            found.messages.append(request("scoped"))
            return len(await store.save(found, scope=scope))

        theirs, ours = self.both(call)
        assert theirs == ours
        self.check()

    @rule(name=NAMES, keep=st.integers(0, 5))
    def branch(self, name, keep):
        async def call(store):
            found = await store.load(name)
            revision = None if found is None else found.revision
            done = await store.branch(name, at=keep, expected_revision=revision)
            done.messages.append(request("branched"))
            await store.save(done)
            return len(done.messages)

        theirs, ours = self.both(call)
        assert theirs == ours
        self.check()

    @rule(name=NAMES, new=NAMES, keep=st.none() | st.integers(0, 4))
    def fork(self, name, new, keep):
        async def call(store):
            return len((await store.fork(name, at=keep, new_conversation_id=new)).messages)

        theirs, ours = self.both(call)
        assert theirs == ours
        self.check()

    @rule(name=NAMES)
    def rewrite(self, name):
        async def call(store):
            found = await store.load(name)
            if found is None:
                return None
            fresh = Conversation(
                messages=[*found.messages[: len(found.messages) // 2], request("rewritten")],
                conversation_id=name,
                revision=found.revision,
            )
            return len(await store.save(fresh))

        theirs, ours = self.both(call)
        assert theirs == ours
        self.check()

    @rule(name=NAMES)
    def stale(self, name):
        async def call(store):
            await store.save(Conversation(conversation_id=name, messages=[request("x")], revision="old"))

        assert self.both(call) == [ConversationConflict, ConversationConflict]

    @rule(name=NAMES)
    def delete(self, name):
        self.both(lambda store: store.delete(name))
        self.check()

    def check(self):
        """Both stores have the same conversations, histories and branches."""

        async def state(store):
            found = {}
            for record in await store.list_conversations():
                lines = [await store.read_history(tip) for tip in (record.head_id, *record.branches)]
                texts = [[entry.message.parts[0].content for entry in line] for line in lines]
                for line in lines:
                    assert [entry.parent_id for entry in line] == [None, *(entry.id for entry in line)][: len(line)]
                    for entry in line:
                        assert await store.read_entry(entry.id) == entry
                found[record.conversation_id] = (record.scope, record.forked_from, texts)
            return found

        theirs, ours = self.both(state)
        assert theirs == ours

    def teardown(self):
        assert self.ours.store.verify().ok
        self.ours.close()
        self.folder.cleanup()


SameAsInMemory.TestCase.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
TestSameAsInMemory = SameAsInMemory.TestCase


@pytest.fixture
def store(opened):
    with opened(ClewConversationStore) as store:
        yield store


def test_a_conversation_with_tools(store):
    """A run is a session with roles, calls and results; loaded, its messages are equal."""
    agent = Agent(TestModel())

    @agent.tool_plain
    def weather() -> str:
        return "sunny"

    async def run():
        first = await agent.run("How is it?", conversation=Conversation(conversation_id="c1"))
        await store.save(first)
        return first.all_messages(), (await store.load("c1")).messages

    said, loaded = asyncio.run(run())
    assert loaded == said
    session = store.store.sessions.latest()
    assert [node.role for node in session.path()] == ["user", "assistant", "tool", "assistant"]
    assert session.extra["source"] == {"tool": "pydantic-ai", "id": "c1"}
    assert any(isinstance(part, ToolCallPart) for message in loaded for part in message.parts)
    assert len(store.store.search("sunny")) >= 1
    assert store.store.verify().ok


def test_an_old_revision_is_a_conflict(store):
    """A record that somebody else has written meanwhile is not overwritten."""

    async def run():
        await store.save(Conversation(conversation_id="c", messages=[request("a")]))
        record = await store.read_record("c")
        theirs, mine = (dataclasses.replace(record, revision=name) for name in ("theirs", "mine"))
        await store.write_record(theirs, expected_revision=record.revision)
        with pytest.raises(ConversationConflict):
            await store.write_record(mine, expected_revision=record.revision)
        with pytest.raises(ConversationConflict):
            await store.write_record(mine, expected_revision=None)
        return (await store.read_record("c")).revision

    assert asyncio.run(run()) == "theirs"


def test_an_unknown_head_is_a_conflict(store):
    """A record whose head nobody has is not stored, and its entries are not stored either."""

    async def run():
        await store.save(Conversation(conversation_id="c", messages=[request("a")]))
        record = await store.read_record("c")
        entry = ConversationEntry(parent_id=record.head_id, message=request("b"))
        broken = dataclasses.replace(record, head_id="nobody", revision="new")
        with pytest.raises(ConversationConflict):
            await store.write_record(broken, new_entries=[entry], expected_revision=record.revision)
        with pytest.raises(LookupError):
            await store.read_entry(entry.id)
        return await store.read_record("c") == record

    assert asyncio.run(run())


def test_ids_that_are_no_uuids(store):
    """Entries may have any id."""

    async def run():
        await store.save(Conversation(conversation_id="c", messages=[request("a")]))
        record = await store.read_record("c")
        entries = [
            ConversationEntry(id="one", parent_id=record.head_id, message=request("b")),
            ConversationEntry(id="two", parent_id="one", message=request("c")),
        ]
        changed = dataclasses.replace(record, head_id="two", revision="r2")
        await store.write_record(changed, new_entries=entries, expected_revision=record.revision)
        assert (await store.read_history("two"))[1:] == entries
        assert await store.read_record("c") == changed

    asyncio.run(run())


def test_deleted_conversations_leave_nothing(tmp_path):
    """After a deletion no file beside the store has a word of the conversation; a fork keeps what it shares."""
    with ClewConversationStore(tmp_path / "c.db") as store:

        async def run():
            await store.save(Conversation(conversation_id="c", messages=[request("shared"), request("needle")]))
            await store.fork("c", at=1, new_conversation_id="f")
            await store.delete("c")
            return [message.parts[0].content for message in (await store.load("f")).messages]

        assert asyncio.run(run()) == ["shared"]
        assert not [one for one in tmp_path.iterdir() if b"needle" in one.read_bytes()]


def race(path, name):
    async def run():
        with ClewConversationStore(path) as store:
            for number in range(15):
                while True:
                    found = await store.load("c") or Conversation(conversation_id="c")
                    found.messages.append(request(f"{name} {number}"))
                    try:
                        await store.save(found)
                    except ConversationConflict:
                        continue
                    break

    asyncio.run(run())


def test_two_processes(tmp_path):
    """Two processes that retry after a conflict lose nothing."""
    path = run_together(race, tmp_path / "c.db")
    with ClewConversationStore(path) as store:
        said = [message.parts[0].content for message in asyncio.run(store.load("c")).messages]
        for name in ("a", "b"):
            assert [one for one in said if one.startswith(name)] == [f"{name} {number}" for number in range(15)]
        assert store.store.verify().ok


def test_in_the_command_line(opened):
    """A conversation with a tool call is listed, found, shown, redacted and purged."""

    def answer(messages, _):
        if len(messages) == 1:
            return ModelResponse(parts=[ToolCallPart("weather", {"city": "Turin"}, "1")])
        return ModelResponse(parts=[TextPart("It is sunny.")])

    agent = Agent(FunctionModel(answer))

    @agent.tool_plain
    def weather(city: str) -> str:
        return "sunny"

    with opened(ClewConversationStore) as store:
        asyncio.run(store.save(asyncio.run(agent.run(QUESTION, conversation=Conversation(conversation_id="c")))))
    expect_weather(opened)
