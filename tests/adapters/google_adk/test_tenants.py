"""ADK: apps, users and sessions are compared whole, imported ones included."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing, suppress

import pytest

pytest.importorskip("google.adk.sessions", reason="google-adk is not installed")

from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

from clew.adapters.google_adk import ClewArtifactService, ClewMemoryService, ClewSessionService
from clew.sources.importer import import_item
from clew.sources.items import items
from clew.sources.registry import find
from tests.adapters.tenants import PARTS, check, workspaces

SPLITS = [("app", "alice", "bob/1"), ("app", "alice/bob", "1"), ("app/alice", "bob", "1"), ("app", "alice", "1")]


def names(key):
    return {"app_name": key[0], "user_id": key[1], "session_id": key[2]}


def event(number, text):
    part = types.Content(role="user", parts=[types.Part(text=text)])
    return Event(id=f"e{number}", author="user", content=part, actions=EventActions(state_delta={"user:last": text}))


class Services:
    """Sessions, a user's state, memory and artifacts. All tenants have the same ids of events."""

    def __init__(self, store):
        self._sessions, self._memory = ClewSessionService(store), ClewMemoryService(store)
        self._artifacts = ClewArtifactService(store)
        self._of_user = {}

    def write(self, key, text, *, new):
        asyncio.run(self._write(key, text, new))

    async def _write(self, key, text, new):
        try:
            found = await self._sessions.create_session(**names(key))
            assert new
        except AlreadyExistsError:
            assert not new
            found = await self._sessions.get_session(**names(key))
        await self._sessions.append_event(found, event(len(found.events), text))
        self._of_user[key[:2]] = text
        await self._memory.add_session_to_memory(found)
        with suppress(InputValidationError):  # ADK itself refuses some names
            await self._artifacts.save_artifact(**names(key), filename="last", artifact=types.Part(text=text))

    def read(self, key):
        return asyncio.run(self._read(key))

    async def _read(self, key):
        found = await self._sessions.get_session(**names(key))
        user = {"app_name": key[0], "user_id": key[1]}
        listed = (await self._sessions.list_sessions(**user)).sessions
        assert (key in [(one.app_name, one.user_id, one.id) for one in listed]) == (found is not None)
        assert {(one.app_name, one.user_id) for one in listed} <= {key[:2]}
        texts = [] if found is None else [one.content.parts[0].text for one in found.events]
        if key[:2] in self._of_user:
            assert await self._sessions.get_user_state(**user) == {"last": self._of_user[key[:2]]}
        memories = (await self._memory.search_memory(**user, query="of")).memories
        assert {one.content.parts[0].text for one in memories} <= {
            one.content.parts[0].text
            for session in listed
            for one in (await self._sessions.get_session(**user, session_id=session.id)).events
        }
        with suppress(InputValidationError):
            saved = await self._artifacts.load_artifact(**names(key), filename="last")
            assert saved is None or saved.text == texts[-1]
        return texts

    def delete(self, key):
        asyncio.run(self._sessions.delete_session(**names(key)))


@pytest.mark.parametrize("seed", range(3))
def test_tenants(opened, seed):
    """No call for one app, user and session reaches those of another one, in any workspace."""
    stores = workspaces(opened)
    parts = [one for one in PARTS if one.strip() == one]
    check(stores, Services, 3, seed=seed, steps=60, parts=parts)
    for store in stores.values():
        store.close()


def imported(store, path, keys=SPLITS):
    """Imports a database that ADK's own service wrote."""

    async def run():
        theirs = SqliteSessionService(str(path))
        for number, key in enumerate(keys):
            session = await theirs.create_session(**names(key))
            await theirs.append_event(session, event(number, f"text of {key}"))

    asyncio.run(run())
    ((item,), (found,)) = items(str(path)), find([str(path)])
    import_item(store, found.source, item)
    return [("", key, [f"text of {key}"]) for key in keys]


def test_imported_sessions(opened, tmp_path):
    """Imported sessions whose names give the same text when joined are read, extended and deleted apart."""
    stores = workspaces(opened, ("", "two"))
    stored = imported(stores[""], tmp_path / "theirs.db")
    assert len(stores[""].sessions.list().items) == len(SPLITS)
    check(stores, Imported, 3, seed=1, steps=80, parts=["app", "alice", "bob/1", "alice/bob", "1"], stored=stored)
    for store in stores.values():
        store.close()


class Imported(Services):
    """Services of which others have written the states."""

    async def _write(self, key, text, new):
        await super()._write(key, text, new)
        self._of_user = {}


def test_a_user_does_not_delete_the_session_of_another(opened, tmp_path):
    """Deleting or creating session "bob/1" of alice leaves session "1" of alice/bob alone, and does not reveal it."""
    stores = workspaces(opened, ("",))
    imported(stores[""], tmp_path / "theirs.db", [("app", "alice/bob", "1")])
    service = ClewSessionService(stores[""])

    async def run():
        await service.delete_session(app_name="app", user_id="alice", session_id="bob/1")
        await service.create_session(app_name="app", user_id="alice", session_id="bob/1")
        found = await service.get_session(app_name="app", user_id="alice/bob", session_id="1")
        assert [one.id for one in found.events] == ["e0"]

    asyncio.run(run())
    stores[""].close()


def test_a_session_imported_by_an_older_version(opened, tmp_path):
    """A session that was imported under its joined names is found by its own names alone, and not imported again."""
    stores = workspaces(opened, ("",))
    store, key = stores[""], ("app", "alice/bob", "1")
    imported(store, tmp_path / "theirs.db", [key])
    (session,) = store.sessions.list().items
    from clew.sources.writing import session_id

    old = session_id("google-adk", "/".join(key))
    source = {**session.extra["source"], "id": "/".join(key)}
    made = store.sessions.create(id=old, extra={**session.extra, "source": source}, labels=session.labels)
    made.append(clew_message(session))
    session.purge()
    service = ClewSessionService(store)
    asyncio.run(service.delete_session(app_name="app", user_id="alice", session_id="bob/1"))
    assert asyncio.run(service.get_session(**names(key))) is not None
    with closing(sqlite3.connect(tmp_path / "theirs.db")) as db, db:
        db.execute("UPDATE sessions SET update_time = update_time + 1")
    ((item,), (found,)) = items(str(tmp_path / "theirs.db")), find([str(tmp_path / "theirs.db")])
    import_item(store, found.source, item)
    assert [one.id for one in store.sessions.list().items] == [old]
    store.close()


def clew_message(session):
    return session.path()[0].said
