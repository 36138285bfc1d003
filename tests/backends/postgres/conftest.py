"""One server for all tests of a run. Each test uses its own schema."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.backends.postgres.proxy import Proxy
from tests.backends.postgres.server import Server, started


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """The server of this test run."""
    server = started()
    yield server
    server.stop()


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    """A proxy to the server whose connections can be cut."""
    proxy = Proxy(server)
    yield proxy
    proxy.close()


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    """A URL for a new store, on the server of this run or on the one in CLEW_TEST_PG."""
    given = os.environ.get("CLEW_TEST_PG")
    if given:
        return f"{given}{'&' if '?' in given else '?'}schema=t{uuid.uuid4().hex}"
    make: Callable[[], str] = request.getfixturevalue("server").url
    return make()
