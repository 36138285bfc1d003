"""A provider on this machine, and clients of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from clew import chat
from clew.testing.providers import ProviderServer

PERSISTENT = ["claude", "openai", "openai-responses", "openai-compatible", "gemini"]
TOKEN = "sk-canary-0123456789"
Connect = Callable[..., chat.Client]


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    with ProviderServer() as server:
        yield server


@pytest.fixture(params=PERSISTENT)
def provider(request: pytest.FixtureRequest) -> str:
    """Each provider that is spoken to over the network."""
    return str(request.param)


@pytest.fixture
def connect(server: ProviderServer) -> Iterator[Connect]:
    """Makes clients of the server on this machine."""
    made: list[chat.Client] = []

    def one(provider: str, **settings: Any) -> chat.Client:
        given = {"token": TOKEN, "max_retries": 0, "base_url": server.base_url(provider), "allow_insecure": True}
        client = chat.connect(provider, "a-model", **{**given, **settings})
        assert isinstance(client, chat.Client)
        made.append(client)
        return client

    yield one
    for client in made:
        client.close()
