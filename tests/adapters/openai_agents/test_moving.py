"""`clew import` of a database that the SDK itself wrote."""

from __future__ import annotations

import asyncio
import json

import pytest

pytest.importorskip("agents.memory", reason="openai-agents is not installed")

from agents.testing import ScriptedModel, assistant_message, function_call

import clew
from agents import Agent, Runner, SQLiteSession, function_tool
from clew.adapters.openai_agents import ClewSession
from clew.sources.importer import import_item
from clew.sources.items import items
from clew.sources.registry import find


def test_moving_over(tmp_path):
    """A run in the SDK's own session is read item by item as the SDK wrote it, and continues in ours."""

    @function_tool
    def weather(city: str) -> str:
        return f"sunny in {city}"

    model = ScriptedModel(
        steps=[[function_call("weather", {"city": "Turin"}, call_id="c")], [assistant_message("It is sunny.")]]
    )
    theirs = SQLiteSession("ada", tmp_path / "theirs.db")
    asyncio.run(Runner.run(Agent(name="a", model=model, tools=[weather]), "Weather?", session=theirs))
    written = asyncio.run(theirs.get_items())
    theirs.close()
    ((item,), (found,)) = items(str(tmp_path / "theirs.db")), find([str(tmp_path / "theirs.db")])
    assert found.source.name == "openai-agents"
    with clew.open(tmp_path / "ours.db") as store:
        import_item(store, found.source, item)
        session = store.sessions.latest()
        assert [node.role for node in session.path()] == ["user", "assistant", "tool", "assistant"]
        assert [json.loads(node.said.raw) for node in session.path()] == written
        ours = ClewSession("ada", store)
        assert asyncio.run(ours.get_items()) == written
        more = {"role": "user", "content": "And tomorrow?"}
        asyncio.run(ours.add_items([more]))
        assert asyncio.run(ours.get_items()) == [*written, more]
        assert asyncio.run(ours.pop_item()) == more
        assert [one.id for one in store.sessions.list().items] == [session.id]
        assert asyncio.run(ClewSession("other", store).get_items()) == []
        asyncio.run(ours.purge())
        assert store.sessions.list().items == []
