"""`ClewHistoryProvider`: a state machine against the framework's own provider in files, and what that one lacks."""

from __future__ import annotations

import asyncio
import os
import tempfile
import warnings

import pytest

pytest.importorskip("agent_framework", reason="agent-framework-core is not installed")

from agent_framework import Content, FileHistoryProvider, InMemoryHistoryProvider, Message
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

import clew
from clew import redaction
from clew.adapters.agent_framework import ClewHistoryProvider
from tests.adapters.agent_framework.agents import agent
from tests.adapters.commands import QUESTION, expect_weather
from tests.adapters.processes import run_together


def said(text, role="user", **fields):
    return Message(role, [Content.from_text(text)], **fields)


MESSAGES = st.lists(
    st.builds(
        lambda text, role, name: said(text, role, message_id=name),
        st.sampled_from(["a", "b"]),
        st.sampled_from(["user", "assistant"]),
        st.sampled_from([None, None, "1", "2"]),
    ),
    max_size=4,
)
SESSIONS = st.sampled_from(["s", "t", None])


class SameAsInFiles(RuleBasedStateMachine):
    """After every call both providers have the same messages, whatever was sent again."""

    def __init__(self):
        super().__init__()
        folder = tempfile.mkdtemp()
        self.ours = ClewHistoryProvider(os.path.join(folder, "c.db"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is experimental
            self.theirs = FileHistoryProvider(folder)
        self.runner = asyncio.Runner()

    def both(self, method, *args):
        return [self.runner.run(getattr(one, method)(*args)) for one in (self.theirs, self.ours)]

    @rule(session=SESSIONS, messages=MESSAGES)
    def save(self, session, messages):
        self.both("save_messages", session, messages)
        self.check()

    @rule(session=SESSIONS, messages=MESSAGES, count=st.integers(0, 6))
    def save_again(self, session, messages, count):
        """The end of the history, or all of it, with new messages after it."""
        before = self.runner.run(self.theirs.get_messages(session))
        self.both("save_messages", session, [*before[max(0, len(before) - count) :], *messages])
        self.check()

    def check(self):
        for session in ("s", "t", None):
            theirs, ours = self.both("get_messages", session)
            assert [one.to_dict() for one in theirs] == [one.to_dict() for one in ours]

    def teardown(self):
        assert self.ours.store.verify().ok
        self.ours.close()
        self.runner.close()


SameAsInFiles.TestCase.settings = settings(
    max_examples=40, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck)
)
TestSameAsInFiles = SameAsInFiles.TestCase


@pytest.fixture
def provider(opened):
    with opened(ClewHistoryProvider) as provider:
        yield provider


def test_a_run_is_a_conversation(provider):
    """A run is a session with roles, calls and results; another agent continues it; nothing is stored twice."""

    async def run(text):
        one = agent(provider)
        return (await one.run(text, session=one.create_session(session_id="trip"))).text

    assert asyncio.run(run("Weather?")) == "It is sunny in Turin."
    asyncio.run(run("Again?"))
    session = provider.store.sessions.latest()
    assert [node.role for node in session.path()] == ["user", "assistant", "tool", "assistant"] * 2
    assert session.extra["source"] == {"tool": "agent-framework", "id": "clew_history/trip"}
    assert len(provider.store.search("Turin")) >= 2
    assert provider.store.verify().ok


def test_contents_come_back_equal(provider):
    """Messages of every kind come back as they were."""
    messages = [
        Message("user", [Content.from_data(b"\x00\xff", "image/png"), Content.from_text("é\u2028")], author_name="Ada"),
        Message("assistant", [Content.from_text_reasoning(text="hm"), Content.from_function_call("c", "f")]),
        Message("tool", [Content.from_function_result("c", result={"a": [1, None]})], additional_properties={"x": 1}),
    ]
    asyncio.run(provider.save_messages("s", messages))
    found = asyncio.run(provider.get_messages("s"))
    assert [one.to_dict() for one in found] == [one.to_dict() for one in messages]
    blocks = [block for node in provider.store.sessions.latest().path() for block in node.message.blocks]
    assert [type(block).__name__ for block in blocks] == ["Media", "Text", "Thinking", "ToolCall", "ToolResult"]


def test_providers_are_apart(provider):
    """Two providers on one store, with one session id, do not mix, and a purge of one leaves the other."""
    audit = ClewHistoryProvider(provider.store, "audit", load_messages=False)
    asyncio.run(provider.save_messages("s", [said("one")]))
    asyncio.run(audit.save_messages("s", [said("two")]))
    asyncio.run(audit.purge("s"))
    assert [one.text for one in asyncio.run(provider.get_messages("s"))] == ["one"]
    assert asyncio.run(audit.get_messages("s")) == []


def test_excluded_messages(opened):
    """Messages that a compaction has excluded are left out on request, as in the framework's own providers."""
    with opened(ClewHistoryProvider, skip_excluded=True) as provider:
        hidden = said("hidden", additional_properties={"_excluded": True})
        asyncio.run(provider.save_messages("s", [hidden, said("shown", "assistant")]))
        theirs, state = InMemoryHistoryProvider(skip_excluded=True), {}
        asyncio.run(theirs.save_messages("s", [hidden, said("shown", "assistant")], state=state))
        found = [one.text for one in asyncio.run(provider.get_messages("s"))]
        assert found == ["shown"] == [one.text for one in asyncio.run(theirs.get_messages("s", state=state))]


def test_a_cancelled_save_is_whole(provider):
    """A save that is cancelled has stored its messages when the task learns of it."""

    async def cancel():
        task = asyncio.create_task(provider.save_messages("s", [said("a"), said("b", "assistant")]))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return [one.text for one in await provider.get_messages("s")]

    assert asyncio.run(cancel()) == ["a", "b"]


def test_redaction_is_refused(tmp_path):
    """A store that redacts is refused: messages would not come back as they were."""
    with pytest.raises(clew.Invalid, match="redacts"):
        ClewHistoryProvider(tmp_path / "c.db", redact=redaction.Rules(redaction.builtin()))


def fill(path, name):
    async def work():
        with ClewHistoryProvider(path) as provider:
            for number in range(30):
                await provider.save_messages("s", [said(f"{name} {number}"), said(f"{name} {number}", "assistant")])

    asyncio.run(work())


def test_two_processes(tmp_path):
    """Two processes that save to one session lose nothing, and keep what belongs together."""
    path = run_together(fill, tmp_path / "c.db")
    with ClewHistoryProvider(path) as provider:
        found = [one.text for one in asyncio.run(provider.get_messages("s"))]
        assert found[::2] == found[1::2]
        for name in ("a", "b"):
            assert [one for one in found[::2] if one.startswith(name)] == [f"{name} {number}" for number in range(30)]


def test_in_the_command_line(opened):
    """A session with a tool call is listed, found, shown, redacted and purged."""

    async def run(history):
        one = agent(history)
        await one.run(QUESTION, session=one.create_session(session_id="trip"))

    with opened(ClewHistoryProvider) as history:
        asyncio.run(run(history))
    expect_weather(opened)
