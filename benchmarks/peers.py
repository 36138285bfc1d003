"""Other stores of conversations, through their public faces, as their documentation has them used.

Each is given what it wants (its own message type, made before the clock runs) and is asked for what clew is asked for.
"""

from __future__ import annotations

import asyncio
import importlib.util
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any, ClassVar

from benchmarks.bench import Bench
from benchmarks.measure import clock, each

SYNCHRONOUS = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}


class Peer(ABC):
    """One session in another store."""

    label: ClassVar[str]
    package: ClassVar[str]
    module: ClassVar[str]
    notes: ClassVar[dict[str, str]] = {}
    start: ClassVar[str]
    """A program that loads a session of `count` messages from `path`."""

    @abstractmethod
    def __init__(self, path: str) -> None: ...
    @abstractmethod
    def say(self, text: str) -> Any:
        """A message as this store takes it."""

    @abstractmethod
    def append(self, items: list[Any]) -> list[float]:
        """Appends one after another, each durable before the next, and returns the seconds that each took."""

    def fill(self, texts: list[str]) -> None:
        """Appends many as fast as its API allows."""
        self.append([self.say(text) for text in texts])

    @abstractmethod
    def load(self) -> int: ...
    def last(self, count: int) -> int:
        return self.load()

    def make_sessions(self, count: int) -> bool:
        """Makes sessions to be listed; False if this store cannot list them."""
        return False

    def newest(self, count: int) -> int:
        """Lists the newest sessions and returns how many there were; asked only if `make_sessions` made some."""
        return 0

    @abstractmethod
    def close(self) -> None: ...


class OpenAI(Peer):
    label, package, module = "openai-agents SQLiteSession", "openai-agents", "agents"
    start = """
import asyncio
from agents import SQLiteSession
session = SQLiteSession("bench", {path!r})
assert len([item["content"] for item in asyncio.run(session.get_items())]) == {count}
"""

    def __init__(self, path: str) -> None:
        self._runner = asyncio.Runner()
        self._session = self._opened(path)

    def _opened(self, path: str) -> Any:
        from agents import SQLiteSession

        return SQLiteSession("bench", path)

    def say(self, text: str) -> Any:
        return {"role": "user", "content": text}

    def append(self, items: list[Any]) -> list[float]:
        return self._runner.run(_awaited(lambda item: self._session.add_items([item]), items))

    def fill(self, texts: list[str]) -> None:
        self._runner.run(self._session.add_items([self.say(text) for text in texts]))

    def load(self) -> int:
        return len(self._runner.run(self._session.get_items()))

    def last(self, count: int) -> int:
        return len(self._runner.run(self._session.get_items(limit=count)))

    def close(self) -> None:
        self._session.close()
        self._runner.close()


class LLM(Peer):
    label, package, module = "llm LogStore", "llm", "llm"
    notes: ClassVar = {"last": "loads the whole chain: it has no other way"}
    start = """
import sqlite_utils
from llm.logs import LogStore
store = LogStore(sqlite_utils.Database({path!r}))
assert len([part.text for message in store.thread_messages("bench") for part in message.parts]) == {count}
"""

    def __init__(self, path: str) -> None:
        import llm
        import sqlite_utils
        from llm.logs import LogStore

        self._user = llm.user
        self._store = LogStore(sqlite_utils.Database(path))
        self._store.ensure_thread("bench")

    def say(self, text: str) -> Any:
        return self._user(text)

    def append(self, items: list[Any]) -> list[float]:
        return [*each(lambda item: self._store.append("bench", [item]), items)()]

    def fill(self, texts: list[str]) -> None:
        self._store.append("bench", [self.say(text) for text in texts])

    def load(self) -> int:
        return len(self._store.thread_messages("bench"))

    def close(self) -> None:
        self._store.db.close()


class LangGraph(Peer):
    label, package, module = "langgraph SqliteSaver", "langgraph-checkpoint-sqlite", "langgraph.checkpoint.sqlite"
    notes: ClassVar = {"load": "filled as one checkpoint", "last": "loads the whole state: it has no other way"}
    start = """
from langgraph.checkpoint.sqlite import SqliteSaver
with SqliteSaver.from_conn_string({path!r}) as saver:
    found = saver.get_tuple({{"configurable": {{"thread_id": "bench", "checkpoint_ns": ""}}}})
assert len([one["content"] for one in found.checkpoint["channel_values"]["messages"]]) == {count}
"""

    def __init__(self, path: str) -> None:
        from langgraph.checkpoint.base import empty_checkpoint

        self._empty = empty_checkpoint
        self._open = self._opened(path)
        self._saver = self._open.__enter__()
        self._set_up()
        self._thread: Any = {"configurable": {"thread_id": "bench", "checkpoint_ns": ""}}
        self._config = self._thread
        found = self._saver.get_tuple(self._thread)
        self._said: list[Any] = [] if found is None else found.checkpoint["channel_values"]["messages"]

    def _opened(self, path: str) -> Any:
        from langgraph.checkpoint.sqlite import SqliteSaver

        return SqliteSaver.from_conn_string(path)

    def _set_up(self) -> None:
        """Makes its tables, where it does not by itself."""

    def say(self, text: str) -> Any:
        return {"role": "user", "content": text}

    def append(self, items: list[Any]) -> list[float]:
        return [*each(lambda item: self._put([item]), items)()]

    def fill(self, texts: list[str]) -> None:
        self._put([self.say(text) for text in texts])

    def _put(self, items: list[Any]) -> None:
        """A checkpoint is the whole state, so it is written whole each time."""
        self._said = [*self._said, *items]
        version = str(len(self._said))
        state = self._empty()
        state["channel_values"] = {"messages": self._said}
        state["channel_versions"] = {"messages": version}
        step: Any = {"source": "loop", "step": len(self._said), "parents": {}}
        self._config = self._saver.put(self._config, state, step, {"messages": version})

    def load(self) -> int:
        found = self._saver.get_tuple(self._thread)
        assert found is not None
        return len(found.checkpoint["channel_values"]["messages"])

    def close(self) -> None:
        self._open.__exit__(None, None, None)


class ADK(Peer):
    label, package, module = "google-adk SqliteSessionService", "google-adk", "google.adk"
    start = """
import asyncio
from google.adk.sessions.sqlite_session_service import SqliteSessionService
service = SqliteSessionService({path!r})
found = asyncio.run(service.get_session(app_name="bench", user_id="u", session_id="bench"))
assert len([event.content.parts[0].text for event in found.events]) == {count}
"""

    def __init__(self, path: str) -> None:
        from google.adk.events import Event
        from google.adk.sessions.base_session_service import GetSessionConfig
        from google.genai import types

        self._event, self._types, self._config = Event, types, GetSessionConfig
        self._service = self._opened(path)
        self._runner = asyncio.Runner()
        self._who: Any = {"app_name": "bench", "user_id": "u", "session_id": "bench"}
        find = self._service.get_session(**self._who, config=GetSessionConfig(num_recent_events=1))
        self._session = self._runner.run(find) or self._runner.run(self._service.create_session(**self._who))

    def _opened(self, path: str) -> Any:
        from google.adk.sessions.sqlite_session_service import SqliteSessionService

        return SqliteSessionService(path)

    def say(self, text: str) -> Any:
        content = self._types.Content(role="user", parts=[self._types.Part(text=text)])
        return self._event(author="user", invocation_id="i", content=content)

    def append(self, items: list[Any]) -> list[float]:
        return self._runner.run(_awaited(lambda item: self._service.append_event(self._session, item), items))

    def load(self) -> int:
        return len(self._runner.run(self._service.get_session(**self._who)).events)

    def last(self, count: int) -> int:
        config = self._config(num_recent_events=count)
        return len(self._runner.run(self._service.get_session(**self._who, config=config)).events)

    def make_sessions(self, count: int) -> bool:
        async def work() -> None:
            for number in range(count):
                await self._service.create_session(app_name="list", user_id="u", session_id=str(number))

        self._runner.run(work())
        return True

    def newest(self, count: int) -> int:
        """It lists all, oldest first; the newest are cut off outside."""
        found = self._runner.run(self._service.list_sessions(app_name="list", user_id="u"))
        return len(found.sessions[-count:])

    def close(self) -> None:
        self._runner.close()


ALL: tuple[type[Peer], ...] = (OpenAI, LLM, LangGraph, ADK)


def installed(bench: Bench) -> list[type[Peer]]:
    """The peers that can be measured here."""
    return [peer for peer in ALL if bench.peers and there(peer.module)]


def described(bench: Bench) -> Iterator[tuple[str, str]]:
    """Each peer with its version and how durable its writes are, as found on its own connections when it writes."""
    for peer in ALL:
        if not there(peer.module):
            yield peer.label, "not installed"
        elif bench.peers:
            with watched() as found:
                one = peer(bench.file(bench.disk))
                one.append([one.say("hello")])
                one.close()
            yield peer.label, f"{version(peer.package)}, {', '.join(sorted(found))}"


@contextmanager
def watched() -> Iterator[set[str]]:
    """Collects journal_mode and synchronous of every connection that writes meanwhile, asked in its own thread."""
    found: set[str] = set()
    connect = sqlite3.connect

    class Watched(sqlite3.Connection):
        def commit(self) -> None:
            self._note()
            super().commit()

        def __exit__(self, *error: Any) -> Any:  # noqa: PYI036
            self._note()
            return super().__exit__(*error)

        def close(self) -> None:
            self._note()
            super().close()

        def _note(self) -> None:
            if self.total_changes:
                (mode,) = sqlite3.Connection.execute(self, "PRAGMA journal_mode").fetchone()
                (level,) = sqlite3.Connection.execute(self, "PRAGMA synchronous").fetchone()
                found.add(f"journal_mode={mode} synchronous={SYNCHRONOUS[level]}")

    def open(*args: Any, **options: Any) -> sqlite3.Connection:
        conn: sqlite3.Connection = connect(*args, **{"factory": Watched, **options})
        return conn

    sqlite3.connect = open  # type: ignore[assignment]
    try:
        yield found
    finally:
        sqlite3.connect = connect


async def _awaited(operation: Callable[[Any], Awaitable[object]], items: list[Any]) -> list[float]:
    """`each`, awaited, on a loop that runs already."""
    took = []
    for item in items:
        start = clock()
        await operation(item)
        took.append(clock() - start)
    return took


def there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
