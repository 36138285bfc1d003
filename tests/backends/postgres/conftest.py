"""One server for all tests of a run; each test has a schema of its own in it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.backends.postgres.proxy import Proxy
from tests.backends.postgres.server import Server, started


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A server of this run's own."""
    server = started()
    yield server
    server.stop()


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    """A link to the server that can be cut."""
    proxy = Proxy(server)
    yield proxy
    proxy.close()


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    """Where a test may make a store: on the server of this run, or on the one that CLEW_TEST_PG names."""
    given = os.environ.get("CLEW_TEST_PG")
    if given:
        return f"{given}{'&' if '?' in given else '?'}schema=t{uuid.uuid4().hex}"
    make: Callable[[], str] = request.getfixturevalue("server").url
    return make()
