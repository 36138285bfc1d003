"""Forks and rewinds that are made in clew, as ADK has them."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("google.adk", reason="the framework is not installed")

from google.adk.errors import StaleSessionError
from google.adk.events.event import Event
from google.genai import types

from clew.adapters.google_adk import ClewSessionService

WHO = {"app_name": "trip", "user_id": "ada"}


def event(text):
    return Event(author="user", content=types.Content(role="user", parts=[types.Part(text=text)]))


def texts(session):
    return [one.content.parts[0].text for one in session.events]


def listed(service, **who):
    return sorted(one.id for one in asyncio.run(service.list_sessions(**(who or WHO))).sessions)


@pytest.fixture
def service(opened):
    with opened(ClewSessionService) as service:

        async def begin():
            session = await service.create_session(**WHO, session_id="s", state={"city": "Turin"})
            for text in ("a", "b"):
                await service.append_event(session, event(text))

        asyncio.run(begin())
        yield service


def test_a_fork_has_an_id_of_its_own(service):
    """It is listed once under its own id, continues, and is deleted alone, as the session that it was forked from."""
    fork = service.store.sessions.latest().fork()
    assert listed(service) == sorted(["s", fork.id])
    theirs = asyncio.run(service.get_session(**WHO, session_id=fork.id))
    assert (theirs.id, texts(theirs), theirs.state) == (fork.id, ["a", "b"], {"city": "Turin"})
    asyncio.run(service.append_event(theirs, event("c")))
    assert texts(asyncio.run(service.get_session(**WHO, session_id=fork.id))) == ["a", "b", "c"]
    assert texts(asyncio.run(service.get_session(**WHO, session_id="s"))) == ["a", "b"]
    again = fork.fork()
    assert listed(service) == sorted(["s", fork.id, again.id])
    asyncio.run(service.delete_session(**WHO, session_id="s"))
    assert listed(service) == sorted([fork.id, again.id])
    asyncio.run(service.delete_session(**WHO, session_id=fork.id))
    asyncio.run(service.delete_session(**WHO, session_id=again.id))
    assert listed(service) == []
    assert service.store.sessions.list().items == []


def test_a_fork_belongs_to_its_user(service):
    """Another user or app cannot read, list or delete it by its id; nor is the original found by its own."""
    original = service.store.sessions.latest()
    fork = original.fork()
    for who in ({"app_name": "trip", "user_id": "bob"}, {"app_name": "other", "user_id": "ada"}):
        assert asyncio.run(service.get_session(**who, session_id=fork.id)) is None
        assert listed(service, **who) == []
        asyncio.run(service.delete_session(**who, session_id=fork.id))
    assert asyncio.run(service.get_session(**WHO, session_id=original.id)) is None
    assert listed(service) == sorted(["s", fork.id])


def test_a_rewind_in_clew_reaches_the_session(service):
    """The session is read without the events after it; one that was read before is stale. Its state stays."""
    before = asyncio.run(service.get_session(**WHO, session_id="s"))
    kept = service.store.sessions.latest()
    kept.rewind(kept.path()[0].id)
    after = asyncio.run(service.get_session(**WHO, session_id="s"))
    assert (texts(after), after.state) == (["a"], {"city": "Turin"})
    with pytest.raises(StaleSessionError):
        asyncio.run(service.append_event(before, event("c")))
    asyncio.run(service.append_event(after, event("d")))
    assert texts(asyncio.run(service.get_session(**WHO, session_id="s"))) == ["a", "d"]
