"""`clew import` of a database that ADK itself wrote."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("google.adk.sessions", reason="google-adk is not installed")

from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.runners import Runner
from google.adk.sessions.sqlite_session_service import SqliteSessionService

import clew
from clew.adapters.google_adk import ClewSessionService
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
        await theirs.create_session(app_name="app", user_id="bob", session_id="empty", state={"app:c": 3})
        listed = [one.id for one in (await theirs.list_sessions(app_name="app")).sessions]
        return await theirs.get_session(**ONE), listed, await theirs.get_user_state(app_name="app", user_id="ada")

    theirs, listed, of_user = asyncio.run(run())
    written = theirs.events
    ((item,), (found,)) = items(str(tmp_path / "theirs.db")), find([str(tmp_path / "theirs.db")])
    assert found.source.name == "google-adk"
    with clew.open(tmp_path / "ours.db") as store:
        import_item(store, found.source, item)
        session = store.sessions.list(title="Weather?").items[0]
        assert [node.role for node in session.path()] == ["user", "assistant", "tool", "assistant"]
        assert [Event.model_validate_json(node.said.raw) for node in session.path()] == written
        assert session.title == "Weather?"
        asyncio.run(continues(store, theirs, listed, of_user))


async def continues(store, theirs, listed, of_user):
    """Our service has what ADK's own returned: events, state of all scopes and the list. The run continues."""
    service = ClewSessionService(store)
    found = await service.get_session(**ONE)
    assert (found.events, found.state) == (theirs.events, theirs.state)
    assert found.last_update_time == theirs.last_update_time
    assert {one.id for one in (await service.list_sessions(app_name="app")).sessions} == {*listed}
    assert await service.get_user_state(app_name="app", user_id="ada") == of_user
    with pytest.raises(AlreadyExistsError):
        await service.create_session(**ONE)
    runner = Runner(app_name="app", agent=agent(), session_service=service)
    async for _ in runner.run_async(user_id="ada", session_id="s", new_message=user("And now?")):
        pass
    change = Event(author="user", actions=EventActions(state_delta={"b": 9, "user:a": 8, "app:d": 7}))
    await service.append_event(await service.get_session(**ONE), change)
    after = await service.get_session(**ONE)
    assert after.events[: len(theirs.events)] == theirs.events
    assert after.state == {**theirs.state, "b": 9, "user:a": 8, "app:d": 7}
    other = await service.get_session(app_name="app", user_id="bob", session_id="empty")
    assert other.state == {"app:c": 3, "app:d": 7}
    assert await service.get_session(app_name="app/ada", user_id="s", session_id="") is None
    assert {one.id for one in (await service.list_sessions(app_name="app")).sessions} == {*listed}
    assert store.verify().ok
