"""Traces how many files of `src/clew` an operation runs through: what a reader opens to follow it.

    python tools/walks.py             prints a table; exit 1 if a walk is longer than its limit
    python tools/walks.py --list      also names the files of each walk

Each operation runs once before it is traced, so a walk has no imports and no first-time set-up. Functions on all
threads of the process count; helper processes do not. `langgraph_put` needs LangGraph and is left out without it.
"""

from __future__ import annotations

import http.client
import json
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

import clew

SOURCE = str(Path(clew.__file__).parent) + "/"
LIMITS = {"append": 20, "search": 21, "import": 52, "page": 39, "purge": 35, "langgraph_put": 28}
"""The files of each walk, at most. They may only shrink."""

Operation = Callable[[], object]


@contextmanager
def tracing() -> Iterator[set[str]]:
    """The files of the package whose functions run meanwhile, on any thread that starts now or did so in `tracing`."""
    files: set[str] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(SOURCE) and name.endswith(".py") and frame.f_code.co_name != "<module>":
            files.add(name.removeprefix(SOURCE))

    before, before_threads = sys.getprofile(), threading.getprofile()
    sys.setprofile(note)
    threading.setprofile(note)
    try:
        yield files
    finally:
        sys.setprofile(before)
        threading.setprofile(before_threads)


def trace(prepare: Callable[[], Operation]) -> set[str]:
    """The files of the second run of an operation; `prepare` makes a new one for each run."""
    prepare()()
    operation = prepare()
    with tracing() as files:
        operation()
    return files


def append(folder: Path) -> set[str]:
    """One message to an open session."""
    with clew.open(folder / "append.db") as store:
        session = store.sessions.create()
        return trace(lambda: lambda: session.append(clew.user("Hello")))


def search(folder: Path) -> set[str]:
    """One word, with the text and the session of each hit."""
    with clew.open(folder / "search.db") as store:
        store.sessions.create().append(clew.user("A word"))
        return trace(lambda: lambda: [(hit.snippet, hit.session) for hit in store.search("word")])


def import_file(folder: Path) -> set[str]:
    """One new file of Claude Code."""
    from clew import sources

    numbers = iter(range(1, 99))

    def line(session: int, number: int, role: str, text: str) -> str:
        ident = f"00000000-0000-4000-8000-{session * 100 + number:012x}"
        above = f"00000000-0000-4000-8000-{session * 100 + number - 1:012x}" if number > 1 else None
        return json.dumps({
            "type": role, "uuid": ident, "parentUuid": above, "cwd": "/src", "isSidechain": False,
            "sessionId": f"00000000-0000-4000-8000-{session:012x}", "timestamp": f"2026-11-01T10:00:0{number}.000Z",
            "message": {"role": role, "content": text},
        })  # fmt: skip

    with clew.open(folder / "import.db") as store:

        def prepare() -> Operation:
            number = next(numbers)
            lines = [line(number, 1, "user", "Hello"), line(number, 2, "assistant", "Hi")]
            path = folder / f"00000000-0000-4000-8000-{number:012x}.jsonl"
            path.write_text("\n".join(lines) + "\n")
            return lambda: [str(outcome) for outcome in sources.import_all(store, sources.find([str(path)]))]

        return trace(prepare)


def page(folder: Path) -> set[str]:
    """A conversation in the web page."""
    from clew.web.server import Server, listen

    path = folder / "page.db"
    with clew.open(path) as store:
        session = store.sessions.create(title="A conversation")
        session.append(clew.user("Hello"))
        session.append(clew.assistant("**Hi**"))
        key = session.id

    def ask(server: Server) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        with closing(connection):
            connection.request("GET", f"/c/{key}", headers={"Cookie": f"{server.guard.cookie}={server.guard.secret}"})
            answer = connection.getresponse()
            if answer.status != 200:
                raise AssertionError(answer.read())
            answer.read()

    with tracing() as files:  # the threads of the server
        server = Server(lambda key: clew.open(path, key=key), listen(0))
        with server.in_background():
            ask(server)
            files.clear()
            ask(server)
            return set(files)


def purge(folder: Path) -> set[str]:
    """A session with one message."""
    with clew.open(folder / "purge.db") as store:

        def prepare() -> Operation:
            session = store.sessions.create()
            session.append(clew.user("Gone"))
            return session.purge

        return trace(prepare)


def langgraph_put(folder: Path) -> set[str]:
    """A checkpoint with two messages."""
    from langchain_core.messages import AIMessage, HumanMessage
    from langgraph.checkpoint.base import empty_checkpoint

    from clew.adapters.langgraph import ClewSaver

    with ClewSaver(folder / "langgraph.db") as saver:

        def prepare() -> Operation:
            checkpoint = empty_checkpoint()
            checkpoint["channel_values"] = {"messages": [HumanMessage("Hello", id="1"), AIMessage("Hi", id="2")]}
            config = {"configurable": {"thread_id": "1", "checkpoint_ns": ""}}
            return lambda: saver.put(config, checkpoint, {"source": "loop", "step": 1}, {"messages": "1"})

        return trace(prepare)


WALKS: dict[str, Callable[[Path], set[str]]] = {
    "append": append, "search": search, "import": import_file, "page": page, "purge": purge,
    "langgraph_put": langgraph_put,
}  # fmt: skip


def main() -> int:
    """Prints the walks; exit 1 if one is too long."""
    over = False
    for name, walk in WALKS.items():
        if name == "langgraph_put" and find_spec("langgraph") is None:
            continue
        with tempfile.TemporaryDirectory() as folder:
            files = walk(Path(folder))
        print(f"{name:14} {len(files):3}  limit {LIMITS[name]:3}  {walk.__doc__}")
        if "--list" in sys.argv[1:]:
            print("".join(f"    {file}\n" for file in sorted(files)), end="")
        over = over or len(files) > LIMITS[name]
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
