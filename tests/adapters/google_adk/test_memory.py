"""`ClewMemoryService`: a state machine against ADK's service in memory, and what that one cannot show."""

from __future__ import annotations

import asyncio
import os
import tempfile

import pytest

pytest.importorskip("google.adk.sessions", reason="google-adk is not installed")

from google.adk.events.event import Event
from google.adk.memory import InMemoryMemoryService
from google.adk.sessions import Session
from google.genai import types
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from clew.adapters.google_adk import ClewMemoryService, ClewSessionService

WORDS = ["Turin", "rain", "sunny", "私はPythonを使う", "Ärger", "the"]
USERS = st.sampled_from(["ada", "bob"])
IDS = st.sampled_from(["s1", "s2"])


def remark(number, text):
    """An event whose id says its number, at a time that does."""
    content = types.Content(parts=[types.Part(text=text)]) if text else None
    return Event(id=f"e{number}", author="user", timestamp=1_800_000_000.0 + number, content=content)


class SameAsInMemory(RuleBasedStateMachine):
    """After every call both services find the same."""

    def __init__(self):
        super().__init__()
        self.ours = ClewMemoryService(os.path.join(tempfile.mkdtemp(), "c.db"))
        self.theirs = InMemoryMemoryService()
        self.events = {}
        self.count = 0
        self.runner = asyncio.Runner()

    def both(self, method, *args, **given):
        return [self.runner.run(getattr(one, method)(*args, **given)) for one in (self.theirs, self.ours)]

    @rule(name=USERS, id=IDS, texts=st.lists(st.lists(st.sampled_from(WORDS), max_size=3).map(" ".join), max_size=3))
    def add_session(self, name, id, texts):
        """A session grows, and is added again."""
        events = self.events.setdefault((name, id), [])
        for text in texts:
            self.count += 1
            events.append(remark(self.count, text))
        session = Session(app_name="app", user_id=name, id=id, events=list(events))
        self.both("add_session_to_memory", session)
        self.check()

    @rule(name=USERS, text=st.sampled_from(WORDS))
    def add_events(self, name, text):
        self.count += 1
        events = [remark(self.count, text)]
        for _ in range(2):
            self.both("add_events_to_memory", app_name="app", user_id=name, events=events)
        self.check()

    @rule(name=USERS, number=st.integers(1, 10))
    def delete(self, name, number):
        self.both("delete_memory", app_name="app", user_id=name, memory_id=f"e{number}")
        self.check()

    def check(self):
        for name in ("ada", "bob", "eve"):
            for query in ("turin", "python rain", "ärger Sunny the", "使う", "tur", ""):
                theirs, ours = self.both("search_memory", app_name="app", user_id=name, query=query)
                assert theirs == ours

    def teardown(self):
        assert self.ours.store.verify().ok
        self.ours.close()
        self.runner.close()


SameAsInMemory.TestCase.settings = settings(
    max_examples=20, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck)
)
TestSameAsInMemory = SameAsInMemory.TestCase


def test_nothing_is_copied(opened):
    """Memory of a session that the store has adds no message; it is deleted with the session."""

    async def work():
        with opened(ClewSessionService) as sessions:
            memory = ClewMemoryService(sessions.store)
            who = {"app_name": "app", "user_id": "ada"}
            session = await sessions.create_session(**who, session_id="s")
            for number in range(3):
                await sessions.append_event(session, remark(number, f"Turin {number}"))
            await memory.add_session_to_memory(session)
            await sessions.append_event(session, remark(9, "Turin later"))
            found = (await memory.search_memory(**who, query="turin")).memories
            assert [one.content.parts[0].text for one in found] == ["Turin 0", "Turin 1", "Turin 2"]
            assert len(sessions.store.sessions.list().items) == 1
            assert len(sessions.store.sessions.latest().path()) == 4
            await sessions.delete_session(**who, session_id="s")
            assert (await memory.search_memory(**who, query="turin")).memories == []
            assert sessions.store.verify().ok

    asyncio.run(work())
