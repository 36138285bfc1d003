"""Messages of other programs in a session: `tests.adapters.foreign`."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("google.adk", reason="the framework is not installed")

from tests.adapters.foreign import check
from tests.adapters.google_adk.drivers import WHO, Ours


def forms(ours, session):
    found = []
    for event in asyncio.run(ours._service.get_session(**WHO, session_id=session)).events:
        role = {"model": "assistant", "user": "user"}[event.content.role]
        assert (event.author == "user") == (role == "user" and not event.get_function_responses())
        for part in event.content.parts:
            if part.function_call:
                found.append((role, "call", part.function_call.name))
            elif part.function_response:
                assert part.function_response.name == "weather"
                found.append(("tool", "result", part.function_response.response["result"]))
            else:
                found.append((role, "text", part.text))
    listed = asyncio.run(ours._service.list_sessions(app_name=WHO["app_name"], user_id=WHO["user_id"])).sessions
    assert listed[0].last_update_time > 0
    return found


def test_messages_of_other_programs(tmp_path):
    """They are events of the agent or the user, or left out with a warning."""
    check(Ours, str(tmp_path / "chats.db"), forms, {"system"})
