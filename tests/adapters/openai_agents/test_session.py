"""`ClewSession`: what the SDK's tests do not have."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

pytest.importorskip("agents.memory", reason="openai-agents is not installed")

from agents.memory import OpenAIResponsesCompactionSession, Session
from agents.testing import ScriptedModel, assistant_message, function_call

from agents import Agent, Runner, function_tool
from clew.adapters.openai_agents import ClewSession
from tests.adapters.commands import QUESTION, expect_weather
from tests.adapters.processes import run_together


def user(text):
    return {"role": "user", "content": text}


@pytest.fixture
def session(opened):
    def make(target, **options):
        return ClewSession("s", target, **options)

    with opened(make) as session:
        yield session


def test_protocol(session):
    """It is a session of the SDK, and items come back as they were added, the latest ones with a limit."""
    assert isinstance(session, Session)
    items = [user("a"), {"type": "reasoning", "id": "r", "summary": []}, {"role": "assistant", "content": "é\n"}]
    assert asyncio.run(session.get_items()) == []
    asyncio.run(session.add_items(items))
    assert asyncio.run(session.get_items()) == items
    assert asyncio.run(session.get_items(limit=2)) == items[1:]
    assert asyncio.run(session.get_items(limit=0)) == []


def test_pop_and_clear_leave_a_branch(session):
    """What is popped or cleared stays as a branch, and the session continues."""
    asyncio.run(session.add_items([user("a"), user("b"), user("c")]))
    assert asyncio.run(session.pop_item()) == user("c")
    assert asyncio.run(session.pop_item()) == user("b")
    asyncio.run(session.add_items([user("d")]))
    assert asyncio.run(session.get_items()) == [user("a"), user("d")]
    asyncio.run(session.clear_session())
    assert asyncio.run(session.get_items()) == []
    assert asyncio.run(session.pop_item()) is None
    kept = session.store.sessions.latest()
    ends = {session.store.nodes.get(branch.head_id)[0].message.text for branch in kept.branches()}
    assert ends == {"c", "d"}
    assert session.store.verify().ok


def test_a_run_is_a_conversation(session):
    """The items of a run are a session with roles, calls and results, and the words are found."""

    @function_tool
    def weather(city: str) -> str:
        return f"sunny in {city}"

    model = ScriptedModel(
        steps=[[function_call("weather", {"city": "Turin"}, call_id="c")], [assistant_message("It is sunny.")]]
    )
    asyncio.run(Runner.run(Agent(name="a", model=model, tools=[weather]), "Weather?", session=session))
    kept = session.store.sessions.latest()
    assert [node.role for node in kept.path()] == ["user", "assistant", "tool", "assistant"]
    assert kept.extra["source"] == {"tool": "openai-agents", "id": "s"}
    assert len(session.store.search("Turin")) >= 1


def test_cancelled_writes_are_stored(session):
    """A task cancelled while it adds items has stored them when it learns of the cancellation."""

    async def cancel():
        task = asyncio.create_task(session.add_items([user("a")]))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await session.get_items()

    assert asyncio.run(cancel()) == [user("a")]


def test_it_can_be_wrapped(session):
    """The SDK's compaction session takes it as the session below."""
    wrapped = OpenAIResponsesCompactionSession("s", session, client=object())
    asyncio.run(wrapped.add_items([user("a")]))
    assert asyncio.run(session.get_items()) == [user("a")]


def test_purged_sessions_leave_nothing(tmp_path):
    """After a purge no file beside the store has a word of the session."""
    with ClewSession("s", tmp_path / "c.db") as session:
        asyncio.run(session.add_items([user(f"needle {number}") for number in range(50)]))
        asyncio.run(session.clear_session())
        asyncio.run(session.purge())
        assert not [one for one in tmp_path.iterdir() if b"needle" in one.read_bytes()]
        asyncio.run(session.add_items([user("again")]))
        assert asyncio.run(session.get_items()) == [user("again")]


def fill(path, name):
    with ClewSession("s", path) as session:
        for number in range(50):
            asyncio.run(session.add_items([user(f"{name} {number}")]))


def test_two_processes(tmp_path):
    """Two processes that add to one session, the first time a store is made, lose nothing."""
    path = run_together(fill, tmp_path / "c.db")
    with ClewSession("s", path) as session:
        said = [item["content"] for item in asyncio.run(session.get_items())]
        for name in ("a", "b"):
            assert [one for one in said if one.startswith(name)] == [f"{name} {number}" for number in range(50)]


KILLED = """
import asyncio, os, signal, sys
from clew.adapters.openai_agents import ClewSession
from tests.adapters.commands import expect_weather
session = ClewSession("s", sys.argv[1])
async def main():
    await session.add_items([{"role": "user", "content": "first"}])
    asyncio.get_running_loop().call_later(0.01, os.kill, os.getpid(), signal.SIGKILL)
    for number in range(10000):
        await session.add_items([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])
        print(number, flush=True)
asyncio.run(main())
"""


def test_killed_between_writes(killed, tmp_path):
    """Of a killed program every acknowledged batch is there, each batch whole."""
    acknowledged = len(killed(KILLED).split())
    with ClewSession("s", tmp_path / "chats.db") as session:
        found = asyncio.run(session.get_items())
        assert len(found) % 2 == 1
        assert len(found) >= 1 + 2 * acknowledged
        assert session.store.verify().ok


def test_in_the_command_line(opened):
    """A session with a tool call is listed, found, shown, redacted and purged."""

    @function_tool
    def weather(city: str) -> str:
        return "sunny"

    steps = [[function_call("weather", {"city": "Turin"}, call_id="1")], [assistant_message("It is sunny.")]]
    agent = Agent(name="A", model=ScriptedModel(steps=steps), tools=[weather])
    with opened(partial(ClewSession, "s")) as session:
        asyncio.run(Runner.run(agent, QUESTION, session=session))
    expect_weather(opened)
