"""A page that runs: a real server on a free port, and a client that can lie about its headers."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

import clew
from clew.base.messages import Text, ToolCall
from clew.web.server import Server, listen
from tests.reliability.tools import need

Opener = Callable[..., clew.Store]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A Chromium; without one the test is skipped."""
    from tools.screenshots import browser as chromium

    need("chromium")
    with chromium() as opened:
        yield opened


class Answer(NamedTuple):
    """What a server answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """Sends requests as a browser with the cookie would, unless told otherwise."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.port = server.port
        self.origin = f"http://127.0.0.1:{self.port}"

    @property
    def cookie(self) -> str:
        return f"{self.server.guard.cookie}={self.server.guard.secret}"

    def ask(
        self, path: str, method: str = "GET", *, headers: Mapping[str, str | None] | None = None, body: bytes = b""
    ) -> Answer:
        given: dict[str, str | None] = {"Host": f"127.0.0.1:{self.port}", "Cookie": self.cookie, **(headers or {})}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in given.items():
            if value is not None:
                connection.putheader(name, value)
        if body:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body or None)
        answer = connection.getresponse()
        found = Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        connection.close()
        return found

    def get(self, path: str) -> Answer:
        found = self.ask(path)
        assert found.status == 200, found.text
        return found

    def write(self, path: str, values: Any = None, **headers: str | None) -> Answer:
        given = {
            "Origin": self.origin,
            "Content-Type": "application/json",
            "X-Clew-Token": self.server.guard.page_token,
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        return self.ask(path, "POST", headers=given, body=json.dumps(values or {}).encode())


def filled(store: clew.Store) -> clew.Session:
    """A conversation with tools, a branch, a fork and hostile text."""
    session = store.sessions.create(
        title="Webhook <b>retries</b>", cwd="/src/tidepool", model="model-1", labels=["bug"],
        extra={"source": {"tool": "claude-code", "id": "5b0e2f7c-91d4-4c55-a1f6-2f0be3c7d018", "branch": "main"}},
    )  # fmt: skip
    session.append(clew.user("Why do webhooks retry? <script>alert(1)</script>"))
    session.append(
        clew.assistant(
            Text(text="The **handler** answers late. [docs](https://example.test/x)"),
            ToolCall(id="c1", name="Bash", arguments={"command": "pytest -q"}),
            ToolCall(id="c2", name="Edit", arguments={"file_path": "a.py", "old_string": "x", "new_string": "y"}),
            model="model-1",
        )
    )
    session.append(clew.tool("\x1b[31m1 failed\x1b[0m", call_id="c1", is_error=True))
    session.append(clew.tool("done", call_id="c2"))
    at = session.append(clew.user("Let the database refuse the second one"))
    session.append(clew.assistant("A unique constraint", usage=clew.Usage(input=10, output=5, cost=120_000)))
    session.append(clew.user("Abandoned question"))
    session.rewind(at.id)
    session.append(clew.assistant("Another way: an advisory lock"))
    fork = session.fork(at=at.parent_id, title="Fork of it")
    fork.append(clew.user("What about a queue?"))
    return session


@pytest.fixture
def key() -> bytes | None:
    """The key of the store. Modules that run the same tests on a sealed store have one."""
    return None


@pytest.fixture
def address(path: Path) -> Path | str:
    """Where the store is. Modules that run the same tests on a server have a URL."""
    return path


@pytest.fixture
def opener(address: Path | str, key: bytes | None) -> Opener:
    """Opens the store once more."""
    return lambda **how: clew.open(address, key=key, **how)


@pytest.fixture
def store(opener: Opener) -> Iterator[clew.Store]:
    with opener() as store:
        yield store


@pytest.fixture
def session(store: clew.Store) -> clew.Session:
    return filled(store)


@pytest.fixture
def client(opener: Opener, session: clew.Session) -> Iterator[Client]:
    server = Server(lambda _: opener(), listen(0))
    with server.in_background():
        yield Client(server)


@pytest.fixture
def writer(opener: Opener, session: clew.Session) -> Iterator[Client]:
    server = Server(lambda _: opener(), listen(0), allow_write=True)
    with server.in_background():
        yield Client(server)


FIXTURES = {"opener": opener, "store": store, "session": session, "client": client, "writer": writer}


def same_tests(*modules: ModuleType, without: Collection[str] = ()) -> dict[str, Any]:
    """The tests of these modules, and their fixtures, for a module with another `address` or `key`."""
    return FIXTURES | {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if name not in without and (name.startswith("test_") or name == "other")
    }
