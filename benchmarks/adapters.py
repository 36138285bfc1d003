"""Adapters for agent frameworks, each beside the framework's own store, through the framework's own protocol."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any, ClassVar, NamedTuple

import clew.adapters
from benchmarks import peers
from benchmarks.bench import Bench, texts
from benchmarks.floor import Floor, session_id
from benchmarks.measure import Figure, Side, Times, each, interleave, missing, ratio, span

OWN = 60.0
"""Microseconds of processor time that an adapter may add to a write."""
TURNS = 1000
SLOW = 20.0
"""A framework's own store that takes so many times the floor: an adapter must take at most half of it."""
ROOM = os.sep.join(("clew", "adapters", ""))
CODE = os.path.dirname(os.path.dirname(clew.adapters.__file__)) + os.sep


def adapters(bench: Bench) -> Iterator[Figure]:
    """One message through each framework's protocol, beside its own store; bytes, and the adapter's own share."""
    for pair in PAIRS:
        if not all(peers.there(name) for name in pair.modules):
            if bench.peers:
                yield missing(pair.name, f"{pair.modules[-1]} is not installed")
            continue
        yield from _append(bench, pair)
        yield _own(bench, pair)
        yield from _last(bench, pair)
        yield _bytes(bench, pair)


# -- stores


class OurOpenAI(peers.OpenAI):
    """`ClewSession`."""

    def _opened(self, path: str) -> Any:
        from clew.adapters.openai_agents import ClewSession

        return ClewSession("bench", path)


class OurLangGraph(peers.LangGraph):
    """`ClewSaver`."""

    def _opened(self, path: str) -> Any:
        from clew.adapters.langgraph import ClewSaver

        return ClewSaver(path)


class _Async(peers.Peer):
    """A store whose calls are coroutines."""

    start: ClassVar[str] = ""
    store: Any

    def __init__(self, path: str) -> None:
        self._runner = asyncio.Runner()
        self.store = self._opened(path)

    def _opened(self, path: str) -> Any:
        raise NotImplementedError

    async def add(self, item: Any) -> None:
        raise NotImplementedError

    def append(self, items: list[Any]) -> list[float]:
        async def all_of_them() -> list[float]:
            took = []
            for item in items:
                begun = time.perf_counter()
                await self.add(item)
                took.append(time.perf_counter() - begun)
            return took

        return self._runner.run(all_of_them())

    def close(self) -> None:
        if hasattr(self.store, "close"):
            self.store.close()
        self._runner.close()


class PydanticInMemory(_Async):
    """`InMemoryConversationStore`: one conversation, an entry for each message."""

    label, package, module = "pydantic-ai InMemoryConversationStore", "pydantic-ai-slim", "pydantic_ai"

    def __init__(self, path: str) -> None:
        from pydantic_ai import conversation_store, messages

        self._types: Any = conversation_store
        self._messages: Any = messages
        self._head: str | None = None
        self._revision: str | None = None
        super().__init__(path)

    def _opened(self, path: str) -> Any:
        return self._types.InMemoryConversationStore()

    def say(self, text: str) -> Any:
        return self._messages.ModelRequest(parts=[self._messages.UserPromptPart(text)])

    async def add(self, item: Any) -> None:
        await self._save([item])

    def fill(self, texts: list[str]) -> None:
        self._runner.run(self._save([self.say(text) for text in texts]))

    async def _save(self, messages: list[Any]) -> None:
        entries = []
        for message in messages:
            entry = self._types.ConversationEntry(id=str(uuid.uuid4()), parent_id=self._head, message=message)
            entries.append(entry)
            self._head = entry.id
        now = str(uuid.uuid4())
        record = self._types.ConversationRecord(conversation_id="bench", head_id=self._head, revision=now)
        await self.store.write_record(record, new_entries=entries, expected_revision=self._revision)
        self._revision = now

    def load(self) -> int:
        return len(self._runner.run(self.store.read_history(self._head)))

    def last(self, count: int) -> int:
        return len(self._runner.run(self.store.read_history(self._head, limit=count)))


class OurPydantic(PydanticInMemory):
    """`ClewConversationStore`."""

    def _opened(self, path: str) -> Any:
        from clew.adapters.pydantic_ai import ClewConversationStore

        return ClewConversationStore(path)


class ClaudeInMemory(_Async):
    """`InMemorySessionStore`: one transcript, an entry for each message."""

    label, package, module = "claude-agent-sdk InMemorySessionStore", "claude-agent-sdk", "claude_agent_sdk"

    def __init__(self, path: str) -> None:
        self._key = {"project_key": "bench", "session_id": str(uuid.uuid4())}
        self._above: str | None = None
        super().__init__(path)

    def _opened(self, path: str) -> Any:
        from claude_agent_sdk import InMemorySessionStore

        return InMemorySessionStore()

    def say(self, text: str) -> Any:
        above, self._above = self._above, str(uuid.uuid4())
        return {
            "parentUuid": above, "sessionId": self._key["session_id"], "type": "user", "cwd": "/src/app",
            "message": {"role": "user", "content": text}, "uuid": self._above, "timestamp": "2026-11-01T10:00:00.000Z",
        }  # fmt: skip

    async def add(self, item: Any) -> None:
        await self.store.append(self._key, [item])

    def fill(self, texts: list[str]) -> None:
        self._runner.run(self.store.append(self._key, [self.say(text) for text in texts]))

    def load(self) -> int:
        return len(self._runner.run(self.store.load(self._key)))


class OurClaude(ClaudeInMemory):
    """`ClewSessionStore`."""

    def _opened(self, path: str) -> Any:
        from clew.adapters.claude import ClewSessionStore

        return ClewSessionStore(path)


class Pair(NamedTuple):
    """A framework: our store and its own, and the modules that they need."""

    name: str
    ours: type[peers.Peer]
    theirs: type[peers.Peer]
    modules: tuple[str, ...]
    adapter: str
    """The module that calls `in_thread`."""
    on_disk: bool = True
    """True if its own store is on a disk."""


PAIRS = [
    Pair("langgraph", OurLangGraph, peers.LangGraph, ("langgraph.checkpoint.sqlite",), "langgraph.saver"),
    Pair("openai-agents", OurOpenAI, peers.OpenAI, ("agents",), "openai_agents"),
    Pair("pydantic-ai", OurPydantic, PydanticInMemory, ("pydantic_ai",), "pydantic_ai", on_disk=False),
    Pair("claude-agent-sdk", OurClaude, ClaudeInMemory, ("claude_agent_sdk",), "claude", on_disk=False),
]

# -- measures


def _append(bench: Bench, pair: Pair) -> Iterator[Figure]:
    """A write, on disk and where syncing is free: against the framework's own store, or the floor if it has none."""
    for place, where in ((bench.disk, "on disk"), (bench.memory, "software path")):
        times = _beside(bench, place, pair)
        own = times.ratio("theirs")
        name = f"{pair.name} append, {where}"
        told = {pair.theirs.label: f"{own:6.1f}x of the floor   {span(times.median('theirs'))}"}
        more = f"; ours {times.ratio('ours'):.1f}x of the floor"
        if not pair.on_disk:
            yield ratio(f"{name}, against the floor", times, side="ours", peers=told)
            continue
        limit = 1.0 if where == "on disk" else 0.5 if own >= SLOW else None
        yield ratio(f"{name}, against its own", times, side="ours", base="theirs", at_most=limit, peers=told, more=more)


def _beside(bench: Bench, place: str, pair: Pair) -> Times:
    sizes = bench.sizes
    with ExitStack() as stack:
        floor = stack.enter_context(closing(Floor(bench.file(place))))
        name, bodies = session_id(), [text.encode() for text in texts(sizes.ops)]
        sides: dict[str, Side] = {"floor": lambda: each(lambda body: floor.append(name, body), bodies)}
        for side, kind in (("ours", pair.ours), ("theirs", pair.theirs)):
            sides[side] = _side(stack.enter_context(closing(kind(bench.file(place)))), sizes.ops)
        return interleave(sides, rounds=sizes.blocks // 4 or 1)


def _side(store: peers.Peer, count: int) -> Side:
    def ready() -> Callable[[], list[float]]:
        items = [store.say(text) for text in texts(count)]
        return lambda: store.append(items)

    return ready


def _own(bench: Bench, pair: Pair) -> Figure:
    """The processor time of a write that is the adapter's own: not in the engine, and without the thread hop.

    While blocks of writes run, each to a new conversation, the program is looked at in steps of its processor time. A
    look counts for the adapter if the innermost function of clew is one of `clew.adapters`: its own code, and the
    serialisation that it asks the framework for. The figure is that share of the fastest block.
    """
    looks = {"own": 0, "all": 0}

    def look(_: int, frame: Any) -> None:
        looks["all"] += 1
        while frame is not None:
            file = frame.f_code.co_filename
            if file.startswith(CODE):
                looks["own"] += ROOM in file
                return
            frame = frame.f_back

    with ExitStack() as stack:
        stack.enter_context(_inline(pair.adapter))
        stack.callback(signal.signal, signal.SIGPROF, signal.signal(signal.SIGPROF, look))
        fastest, blocks = float("inf"), max(2, bench.sizes.blocks)
        for number in range(blocks):
            store = stack.enter_context(closing(pair.ours(bench.file(bench.memory))))
            store.fill(texts(1))
            items = [store.say(text) for text in texts(bench.sizes.ops * 5)]
            gc.collect()
            begun = time.process_time()
            signal.setitimer(signal.ITIMER_PROF, 0.001 if number else 0, 0.001)
            store.append(items)
            signal.setitimer(signal.ITIMER_PROF, 0)
            if number:
                fastest = min(fastest, (time.process_time() - begun) / len(items))
    share = looks["own"] / looks["all"] if looks["all"] else 0.0
    detail = f"{share:.0%} of {fastest * 1e6:.0f} µs of processor time for a write; {looks['all']:,} looks"
    return Figure(f"{pair.name} adapter's own", share * fastest * 1e6, " µs", at_most=OWN, detail=detail)


def _inline(adapter: str) -> Any:
    """The adapter's calls run where they are made, not on a thread."""
    from importlib import import_module
    from unittest.mock import patch

    async def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return patch.object(import_module(f"clew.adapters.{adapter}"), "in_thread", call)


def _last(bench: Bench, pair: Pair) -> Iterator[Figure]:
    """The last twenty messages of a long session, as the protocol allows: some load all of it."""
    count = bench.sizes.path
    with ExitStack() as stack:
        sides: dict[str, Side] = {}
        for side, kind in (("ours", pair.ours), ("theirs", pair.theirs)):
            store = stack.enter_context(closing(kind(bench.file(bench.memory))))
            store.fill(texts(count))
            sides[side] = lambda store=store: each(lambda _: store.last(20), range(5))  # type: ignore[misc]
        times = interleave(sides, rounds=bench.sizes.rounds // 4 or 1)
    yield ratio(f"{pair.name} last 20 of {count:,}, against its own", times, side="ours", base="theirs")


def _bytes(bench: Bench, pair: Pair) -> Figure:
    """Bytes on disk for a message of about 450 bytes, at the end of a session of a thousand."""
    count = min(TURNS, bench.sizes.path)
    found: dict[str, list[float]] = {}
    for side, kind in (("ours", pair.ours), ("theirs", pair.theirs)):
        path = bench.file(bench.memory)
        sizes = []
        with closing(kind(path)) as store:
            for part in (count // 4, count // 4, count // 2):
                store.append([store.say(text) for text in texts(part)])
                sizes.append(_size(path))
        found[side] = [(sizes[1] - sizes[0]) / (count // 4), (sizes[2] - sizes[1]) / (count // 2)]
        for name in os.listdir(os.path.dirname(path)):
            if name.startswith(os.path.basename(path)):
                os.remove(os.path.join(os.path.dirname(path), name))
    early, late = found["theirs"]
    told = {pair.theirs.label: f"{late:,.0f} bytes; before {count // 2:,} {early:,.0f}"} if pair.on_disk else {}
    early, late = found["ours"]
    detail = f"before {count // 2:,} {early:,.0f}"
    return Figure(f"{pair.name} bytes a message at {count:,}", late, " B", detail=detail, peers=told)


def _size(path: str) -> int:
    """Bytes of a database and its log, without what is reserved."""
    return sum(os.stat(path + end).st_size for end in ("", "-wal") if os.path.exists(path + end))
