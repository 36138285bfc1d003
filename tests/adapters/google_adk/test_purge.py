"""Erasing a user of ADK: sessions, state, artifacts and memory, by one label."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("google.adk", reason="the framework is not installed")

from google.adk.events.event import Event
from google.genai import types

from clew.adapters.google_adk import ClewArtifactService, ClewMemoryService, ClewSessionService


def test_erase_a_user(opened):
    """One purge deletes all that a user has; another user's data and the app's state stay."""
    with opened(ClewSessionService) as service:
        artifacts, memory = ClewArtifactService(service.store), ClewMemoryService(service.store)

        async def fill(user):
            who = {"app_name": "trip", "user_id": user}
            state = {"user:city": f"city of {user}", "app:season": "summer"}
            session = await service.create_session(**who, session_id="s", state=state)
            said = types.Content(role="user", parts=[types.Part(text=f"words of {user}")])
            await service.append_event(session, Event(author="user", content=said))
            part = types.Part(text=f"file of {user}")
            await artifacts.save_artifact(**who, session_id="s", filename="a.txt", artifact=part)
            await artifacts.save_artifact(**who, session_id="s", filename="user:b.txt", artifact=part)
            await memory.add_session_to_memory(session)

        async def all_of(user):
            who = {"app_name": "trip", "user_id": user}
            return (
                len((await service.list_sessions(**who)).sessions),
                await service.get_user_state(**who),
                await artifacts.list_artifact_keys(**who, session_id="s"),
                len((await memory.search_memory(**who, query="words")).memories),
            )

        for user in ("ada", "bob"):
            asyncio.run(fill(user))
        receipt = service.store.sessions.purge(label="google-adk:trip/ada")
        assert (receipt.failures, len(receipt.sessions)) == ((), 3)
        assert asyncio.run(all_of("ada")) == (0, {}, [], 0)
        assert asyncio.run(all_of("bob")) == (1, {"city": "city of bob"}, ["a.txt", "user:b.txt"], 1)
        assert service.store.verify().ok
