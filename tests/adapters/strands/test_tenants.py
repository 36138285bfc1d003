"""Strands: sessions, agents and messages keep to their own."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("strands.session", reason="strands-agents is not installed")

from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

from clew.adapters.strands import ClewSessionRepository, ClewStorage
from tests.adapters.tenants import PARTS, check, workspaces


class Agents:
    """Agents of sessions."""

    def __init__(self, store):
        self._repository = ClewSessionRepository(store)
        self._agents = set()

    def write(self, key, text, *, new):
        session, agent = key
        if new:
            if not any(one == session for one, _ in self._agents):
                assert self._repository.read_session(session) is None
                self._repository.create_session(Session(session_id=session, session_type=SessionType.AGENT))
            assert self._repository.read_agent(session, agent) is None
            about = SessionAgent(agent_id=agent, state={}, conversation_manager_state={})
            self._repository.create_agent(session, about)
            self._agents.add(key)
        number = len(self._repository.list_messages(session, agent))
        message = {"role": "user", "content": [{"text": text}]}
        self._repository.create_message(session, agent, SessionMessage(message, number))
        assert self._repository.read_message(session, agent, number).to_message() == message

    def read(self, key):
        if key not in self._agents:
            assert self._repository.read_agent(*key) is None
            with pytest.raises(SessionException):
                self._repository.list_messages(*key)
            return None
        return [one.to_message()["content"][0]["text"] for one in self._repository.list_messages(*key)]


class Sessions(Agents):
    """Sessions of one agent."""

    def write(self, key, text, *, new):
        super().write((key[0], "main"), text, new=new)

    def read(self, key):
        return super().read((key[0], "main"))

    def delete(self, key):
        if (key[0], "main") in self._agents:
            self._repository.delete_session(key[0])
            self._agents.discard((key[0], "main"))
        else:
            with pytest.raises(SessionException):
                self._repository.delete_session(key[0])


class Values:
    """Values under keys of a storage."""

    def __init__(self, store):
        self._storage = ClewStorage(store)

    def write(self, key, text, *, new):
        before = asyncio.run(self._storage.read(key[0]))
        assert (before is None) == new
        asyncio.run(self._storage.write(key[0], (before or b"") + f"{text}\n".encode()))

    def read(self, key):
        found = asyncio.run(self._storage.read(key[0]))
        assert (key[0] in asyncio.run(self._storage.list(key[0]))) == (found is not None)
        return None if found is None else found.decode().splitlines()

    def delete(self, key):
        asyncio.run(self._storage.delete(key[0]))


@pytest.mark.parametrize("seed", range(2))
def test_tenants(opened, seed):
    """No call for one session reaches another one, in any workspace."""
    stores = workspaces(opened)
    check(stores, Sessions, 1, seed=seed, steps=60)
    for store in stores.values():
        store.close()


def test_values(opened):
    """No call for one key of a storage reaches another one, in any workspace."""
    stores = workspaces(opened)
    parts = [
        one for one in PARTS if not one.startswith("/") and not one.endswith("/") and "\\" not in one and one != ".."
    ]
    check(stores, Values, 1, seed=1, steps=60, parts=parts)
    for store in stores.values():
        store.close()


def test_agents(opened):
    """Agents whose session and name give the same text when joined have their own messages."""
    stores = workspaces(opened, ("", "two"))
    for name, store in stores.items():
        agents = Agents(store)
        keys = [("a", "b/c"), ("a/b", "c"), ("a", "b"), ("a/b", "/c")]
        for key in keys:
            agents.write(key, f"{key} of {name}", new=True)
        assert [agents.read(key) for key in keys] == [[f"{key} of {name}"] for key in keys]
    for store in stores.values():
        assert store.verify().ok
        store.close()
