"""`clew import` of a database that ADK itself wrote."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("google.adk.sessions", reason="google-adk is not installed")

from google.adk.events.event import Event
from google.adk.runners import Runner
from google.adk.sessions.sqlite_session_service import SqliteSessionService

import clew
from clew.sources.importer import import_item
from clew.sources.items import items
from clew.sources.registry import find
from tests.adapters.google_adk.agents import agent, user
from tests.adapters.google_adk.test_contract import ONE


def test_moving_over(tmp_path):
    """A run in ADK's own service is read as a conversation, event by event as ADK wrote it."""

    async def run():
        theirs = SqliteSessionService(str(tmp_path / "theirs.db"))
        await theirs.create_session(**ONE, state={"user:a": 1, "b": 2})
        runner = Runner(app_name="app", agent=agent(), session_service=theirs)
        async for _ in runner.run_async(user_id="ada", session_id="s", new_message=user("Weather?")):
            pass
        return (await theirs.get_session(**ONE)).events

    written = asyncio.run(run())
    ((item,), (found,)) = items(str(tmp_path / "theirs.db")), find([str(tmp_path / "theirs.db")])
    assert found.source.name == "google-adk"
    with clew.open(tmp_path / "ours.db") as store:
        import_item(store, found.source, item)
        session = store.sessions.latest()
        assert [node.role for node in session.path()] == ["user", "assistant", "tool", "assistant"]
        assert [Event.model_validate_json(node.said.raw) for node in session.path()] == written
        assert session.title == "Weather?"
