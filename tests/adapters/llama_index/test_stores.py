"""The chat stores: state machines against LlamaIndex's own stores, and what those cannot show."""

from __future__ import annotations

import asyncio
import os
import tempfile

import pytest

pytest.importorskip("llama_index.core", reason="llama-index-core is not installed")

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ThinkingBlock, ToolCallBlock
from llama_index.core.llms import ChatMessage, ImageBlock, TextBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM, MockLLM
from llama_index.core.memory import ChatMemoryBuffer, Memory
from llama_index.core.storage.chat_store import SimpleChatStore
from llama_index.core.storage.chat_store.base_db import MessageStatus
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

from clew.adapters.llama_index import ClewChatStore, ClewDBChatStore
from tests.adapters.commands import QUESTION, expect_weather
from tests.adapters.processes import run_together

KEYS = st.sampled_from(["a", "b"])
TEXTS = st.sampled_from(["one", "two", "three"])
MESSAGES = st.builds(ChatMessage, role=st.sampled_from(["user", "assistant"]), content=TEXTS)
STATUS = st.sampled_from(list(MessageStatus))


class SameAsSimple(RuleBasedStateMachine):
    """Every call has the same outcome in our store and in LlamaIndex's store in memory."""

    def __init__(self):
        super().__init__()
        self.ours = ClewChatStore(os.path.join(tempfile.mkdtemp(), "c.db"))
        self.theirs = SimpleChatStore()

    def same(self, method, *args):
        done = [getattr(one, method)(*args) for one in (self.theirs, self.ours)]
        assert (done[0] or None) == (done[1] or None)
        for key in ("a", "b"):
            assert self.theirs.get_messages(key) == self.ours.get_messages(key)
        assert {key for key in self.theirs.get_keys() if self.theirs.get_messages(key)} == {*self.ours.get_keys()}

    @rule(key=KEYS, messages=st.lists(MESSAGES, max_size=4))
    def set(self, key, messages):
        for one in (self.theirs, self.ours):
            one.set_messages(key, list(messages))
        self.same("get_messages", key)

    @rule(key=KEYS, message=MESSAGES, idx=st.none() | st.integers(0, 3))
    def add(self, key, message, idx):
        self.same("add_message", key, message, idx)

    @rule(key=KEYS)
    def delete_all(self, key):
        self.same("delete_messages", key)

    @rule(key=KEYS, idx=st.integers(0, 4))
    def delete(self, key, idx):
        self.same("delete_message", key, idx)

    @rule(key=KEYS)
    def delete_last(self, key):
        if self.theirs.get_messages(key):  # theirs raises if it has an empty list
            self.same("delete_last_message", key)

    def teardown(self):
        assert self.ours.store.verify().ok
        self.ours.close()


class SameAsSQL(RuleBasedStateMachine):
    """Every call has the same outcome in our store and in LlamaIndex's store on SQLite."""

    def __init__(self):
        super().__init__()
        folder = tempfile.mkdtemp()
        self.runner = asyncio.Runner()
        self.ours = ClewDBChatStore(os.path.join(folder, "c.db"))
        self.theirs = SQLAlchemyChatStore("chats", f"sqlite+aiosqlite:///{folder}/theirs.db")

    def same(self, method, *args):
        done = [self.runner.run(getattr(one, method)(*args)) for one in (self.theirs, self.ours)]
        assert done[0] == done[1]
        for key in ("a", "b"):
            for status in (None, *MessageStatus):
                found = [self.runner.run(one.get_messages(key, status)) for one in (self.theirs, self.ours)]
                assert found[0] == found[1]
                assert self.runner.run(self.ours.count_messages(key, status)) == len(found[0])
        keys = [self.runner.run(one.get_keys()) for one in (self.theirs, self.ours)]
        assert {*keys[0]} == {*keys[1]}

    @rule(key=KEYS, message=MESSAGES, status=STATUS)
    def add(self, key, message, status):
        self.same("add_message", key, message, status)

    @rule(key=KEYS, messages=st.lists(MESSAGES, min_size=1, max_size=4), status=STATUS)
    def add_many(self, key, messages, status):
        self.same("add_messages", key, messages, status)

    @rule(key=KEYS, messages=st.lists(MESSAGES, max_size=4), status=STATUS)
    def set(self, key, messages, status):
        self.same("set_messages", key, messages, status)

    @rule(key=KEYS, status=st.none() | STATUS)
    def delete(self, key, status):
        self.same("delete_messages", key, status)

    @rule(key=KEYS, count=st.integers(0, 4), archive=st.booleans())
    def oldest(self, key, count, archive):
        self.same("archive_oldest_messages" if archive else "delete_oldest_messages", key, count)

    @rule(key=KEYS, limit=st.none() | st.integers(0, 3), offset=st.none() | st.integers(0, 3))
    def page(self, key, limit, offset):
        if limit is None and offset:  # SQLite has no OFFSET without LIMIT there
            offset = None
        self.same("get_messages", key, None, limit, offset)

    def teardown(self):
        assert self.ours.store.verify().ok
        self.ours.close()
        self.runner.run(self.theirs._async_engine.dispose() if self.theirs._async_engine else asyncio.sleep(0))
        self.runner.close()


for machine in (SameAsSimple, SameAsSQL):
    machine.TestCase.settings = settings(
        max_examples=20, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck)
    )
TestSameAsSimple, TestSameAsSQL = SameAsSimple.TestCase, SameAsSQL.TestCase


@pytest.fixture
def store(opened):
    with opened(ClewDBChatStore) as store:
        yield store


def test_messages_come_back_equal(store):
    """Messages of every kind come back as they were, and have a view."""
    messages = [
        ChatMessage(role="user", blocks=[ImageBlock(image=b"abc", image_mimetype="image/png"), TextBlock(text="é")]),
        ChatMessage(
            role="assistant",
            blocks=[
                ThinkingBlock(content="hm"),
                ToolCallBlock(tool_call_id="c", tool_name="weather", tool_kwargs={"city": "Turin"}),
            ],
        ),
        ChatMessage(role="tool", content="sunny", additional_kwargs={"tool_call_id": "c"}),
    ]
    asyncio.run(store.add_messages("k", messages))
    asyncio.run(store.add_messages("k", []))
    assert asyncio.run(store.get_messages("k")) == messages
    nodes = store.store.sessions.latest().path()
    assert [node.role for node in nodes] == ["user", "assistant", "tool"]
    blocks = [type(block).__name__ for node in nodes for block in node.message.blocks]
    assert blocks == ["Media", "Text", "Thinking", "ToolCall", "ToolResult"]


async def talk(store, text):
    """One turn of an agent with a tool."""

    def weather(city: str) -> str:
        """The weather of a city."""
        return f"sunny in {city}"

    def answer(messages, **_):
        if messages[-1].role == "tool":
            return ChatMessage(role="assistant", content=f"It is {messages[-1].content}.")
        call = ToolCallBlock(tool_call_id="c", tool_name="weather", tool_kwargs={"city": "Turin"})
        return ChatMessage(role="assistant", blocks=[call])

    memory = Memory.from_defaults("trip", chat_store=store, tokenizer_fn=str.split)
    model = MockFunctionCallingLLM(response_generator=answer, is_chat_model=True)
    agent = FunctionAgent(tools=[weather], llm=model, streaming=False)
    return str(await agent.run(text, memory=memory))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the framework's own
def test_an_agent_is_a_conversation(store):
    """An agent with a tool is a conversation with roles, calls and results; another memory continues it."""

    assert asyncio.run(talk(store, "Weather?")) == "It is sunny in Turin."
    asyncio.run(talk(store, "Again?"))
    session = store.store.sessions.latest()
    assert [node.role for node in session.path()] == ["user", "assistant", "tool", "assistant"] * 2
    assert session.extra["source"] == {"tool": "llama-index", "id": "trip"}
    assert len(store.store.search("Turin")) >= 2
    assert store.store.verify().ok


def test_archived_messages_stay_in_the_conversation(store):
    """A memory that archives old messages stores none of them again."""

    async def work():
        memory = Memory.from_defaults(
            "trip", chat_store=store, tokenizer_fn=str.split, token_limit=20, token_flush_size=5
        )
        for number in range(20):
            await memory.aput(ChatMessage(role="user" if number % 2 == 0 else "assistant", content=f"w w w {number}"))
        return await store.count_messages("trip", MessageStatus.ARCHIVED)

    assert asyncio.run(work()) > 0
    session = store.store.sessions.latest()
    assert len(session.path()) == 20
    assert session.branches() == []


def test_a_set_leaves_a_branch(opened):
    """Replaced messages stay as a branch; messages that both lists begin with are shared."""
    with opened(ClewChatStore) as store:
        buffer = ChatMemoryBuffer.from_defaults(chat_store=store, chat_store_key="k", llm=MockLLM())
        for text in ("one", "two"):
            buffer.put(ChatMessage(content=text))
        buffer.set([ChatMessage(content="one"), ChatMessage(content="three")])
        assert [message.content for message in buffer.get_all()] == ["one", "three"]
        session = store.store.sessions.latest()
        (branch,) = session.branches()
        left, last = store.store.nodes.get(branch.head_id)[0], session.path()[-1]
        assert (left.text, left.parent_id) == ("two", last.parent_id)
        buffer.reset()
        assert store.get_keys() == []
        assert store.store.verify().ok


def test_purged_chats_leave_nothing(tmp_path):
    """After a purge no file beside the store has a word of the chat, nor of what was deleted before."""
    with ClewChatStore(tmp_path / "c.db") as store:
        store.add_message("k", ChatMessage(content="needle"))
        store.delete_messages("k")
        store.purge("k")
        assert not [one for one in tmp_path.iterdir() if b"needle" in one.read_bytes()]


def fill(path, name):
    with ClewChatStore(path) as store:
        for number in range(30):
            store.add_message("k", ChatMessage(content=f"{name} {number}"))


def test_two_processes(tmp_path):
    """Two processes that add to one chat lose nothing."""
    path = run_together(fill, tmp_path / "c.db")
    with ClewChatStore(path) as store:
        found = [message.content for message in store.get_messages("k")]
        for name in ("a", "b"):
            assert [one for one in found if one.startswith(name)] == [f"{name} {number}" for number in range(30)]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the framework's own
def test_in_the_command_line(opened):
    """A chat with a tool call is listed, found, shown, redacted and purged."""
    with opened(ClewDBChatStore) as store:
        asyncio.run(talk(store, QUESTION))
    expect_weather(opened)
