"""Writes src/clew/aio/faces.py and agents.py from the sync classes, so that the two faces cannot drift apart.

    python tools/aio.py           writes the files
    python tools/aio.py --check   says whether they are current, and changes nothing

A method of a sync class becomes an async method of the same name, arguments and docstring. What it returns is wrapped
where it is one of the classes that have an async face.
"""

from __future__ import annotations

import ast
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FACES = ROOT / "src/clew/aio"

CLASSES = {
    "Blobs": "blobs", "Log": "log", "Session": "session", "Sessions": "sessions", "Nodes": "nodes",
    "Quarantine": "quarantine", "StoreBlobs": "beside", "StoreLog": "beside", "Audit": "audit",
    "Snapshots": "snapshots/stored", "Store": "store",
}  # fmt: skip
COMMITS = {
    ("Session", "append"),
    ("Nodes", "save"),
    ("Nodes", "save_dialog"),
    ("Log", "append"),
    ("StoreLog", "append"),
}
"""Calls that share a transaction with whatever else is waiting: what programs do often, and briefly."""
ASKS = {("Session", "handle"), ("Session", "counters"), ("Session", "owner_id"), ("Session", "messages")}
"""Properties that read the store: theirs is an awaitable."""
BY_HAND = {("Store", "close"), ("Store", "transaction"), ("SessionStore", "close")}
ITERATORS = {
    "Iterator[Node]": "Node", "Iterator[Entry]": "Entry", "Iterator[bytes]": "bytes", "Iterator[Event]": "Event",
    "Iterator[Deed]": "Deed", "Iterator[str]": "str",
}  # fmt: skip
ALIASES = {
    "SessionList": "list[Session]", "TranscriptList": "list[Transcript]", "MetadataList": "list[SessionMetadata]",
}  # fmt: skip
WRAPPED = ("Session", "Page", "Hit", "Transcript", "Memory")
"""What a method returns has to be wrapped if one of these words is in its type."""

AGENT_CLASSES = {
    "Transcript": "agents/transcript", "Memory": "agents/memory", "Session": "agents/session",
    "SessionStore": "agents/store",
}  # fmt: skip
OUTSIDE = {"Conversation"}
"""Classes with an async face that another of the files has."""

HEADER = '''"""The async face of a store: the same names, awaited. Written by tools/aio.py from the sync classes."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Literal, Self, cast, overload

from clew import audit, beside, blobs, log, nodes, quarantine, session, sessions, store
from clew.aio.face import Threads
from clew.aio.watching import Watch
from clew.audit import Deed
from clew.blobs import Blob, Source
from clew.indexing import Mode, Progress
from clew.log import Entry
from clew.model import Media, Modality, Role, Said
from clew.node import Counters, Node
from clew.nodes import NodeList, NodePage, Save
from clew.quarantine import Event, QuarantinedList, Swept
from clew.search import Hit as SyncHit
from clew.session import _UNSET, Branch
from clew.session_data import SessionData
from clew.sessions import Page as SyncPage

if TYPE_CHECKING:
    from clew.backup import Backup
    from clew.keys import Key
    from clew.outside import Cleared
    from clew.receipts import Reason, Receipt, Receipts
    from clew.rekey import Status
    from clew.snapshots import Snapshot, ToolSnapshot, stored
    from clew.snapshots.stored import Summaries
    from clew.verify import Report


class Page(SyncPage):
    """Some sessions, with the async face, and where the rest begins."""

    items: list[Session]  # type: ignore[assignment]


class _Face:
    def __init__(self, threads: Threads, sync: Any) -> None:
        self._threads = threads
        self._sync = sync

    def _wrap(self, value: Any) -> Any:
        """`value` with the async face on every session in it."""
        if isinstance(value, session.Session):
            return Session(self._threads, value)
        if isinstance(value, SyncPage):
            return Page(self._wrap(value.items), value.next_cursor, value.total)
        if isinstance(value, SyncHit):
            return Hit(self._threads, value)
        if isinstance(value, list):
            return [self._wrap(item) for item in value]
        return value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Face) and self._sync == other._sync

    def __hash__(self) -> int:
        return hash(self._sync)

    def __repr__(self) -> str:
        return f"<async {self._sync!r}>"


class Hit(_Face):
    """A message that matched."""

    _sync: SyncHit

    @property
    def node(self) -> Node:
        """The message."""
        return self._sync.node

    @property
    def snippet(self) -> str:
        """The part of its words where it matched."""
        return self._sync.snippet

    @property
    def marks(self) -> tuple[tuple[int, int], ...]:
        """Where in the snippet: from, up to and without."""
        return self._sync.marks

    @property
    def score(self) -> float:
        """Higher is better; only to be compared within one search."""
        return self._sync.score

    @property
    def session(self) -> Awaitable[Session | None]:
        """The session last active among those that contain it, asked now; None if it belongs to no session."""
        return self._session()

    async def _session(self) -> Session | None:
        return cast("Session | None", self._wrap(await self._threads.run(lambda: self._sync.session)))


def _bare(value: Any) -> Any:
    return value._sync if isinstance(value, _Face) else value
'''

AGENT_HEADER = '''"""The async face of `clew.agents`: the same names, awaited. Written by tools/aio.py."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping
from datetime import timedelta
from types import TracebackType
from typing import Any, Self, cast

from anyio import to_thread

from clew import agents
from clew.agents import Cleaned, Event, Imported, Mirror, Options, Rebuilt, SessionMetadata
from clew.agents import memory, session, store, transcript
from clew.agents.store import NodeList, Sayable
from clew.receipts import Receipt
from clew.aio.face import Threads
from clew.aio.faces import Session as Conversation
from clew.aio.faces import Store
from clew.errors import ClewError
from clew.model import Said
from clew.node import Node


def open(path: str | os.PathLike[str], **options: Any) -> Opening:
    """Opens a store for agents: await it, or use it with ``async with``. Takes what `clew.agents.open` takes."""
    return Opening(path, options)


async def over(opened: Store, *, mirror: Mirror | str | os.PathLike[str] | None = None) -> SessionStore:
    """The sessions of a store that is open, for agents. Closing them leaves it open."""
    made = await opened._threads.run(lambda: agents.SessionStore(opened._sync, mirror=mirror))
    return SessionStore(opened._threads, made)


async def import_tree(into: SessionStore, root: str | os.PathLike[str], *, dry_run: bool = False) -> Imported:
    """Imports every session below `root`: see `clew.agents.import_tree`."""
    return await into._threads.run(agents.import_tree, into._sync, root, dry_run=dry_run)


class Opening:
    """Sessions about to be opened."""

    def __init__(self, path: str | os.PathLike[str], options: dict[str, Any]) -> None:
        self._path = path
        self._options = options
        self._opened: SessionStore | None = None

    def __await__(self) -> Generator[Any, Any, SessionStore]:
        return self._open().__await__()

    async def __aenter__(self) -> SessionStore:
        self._opened = await self._open()
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opened is not None:
            await self._opened.close()

    async def _open(self) -> SessionStore:
        opened = await to_thread.run_sync(lambda: agents.open(self._path, **self._options))
        return SessionStore(Threads(opened._store._engine), opened)


class _Face:
    def __init__(self, threads: Threads, sync: Any) -> None:
        self._threads = threads
        self._sync = sync

    def _wrap(self, value: Any) -> Any:
        """`value` with the async face on whatever in it has one."""
        for kind, awaited in _AWAITED.items():
            if isinstance(value, kind):
                return awaited(self._threads, value)
        return [self._wrap(item) for item in value] if isinstance(value, list) else value

    def __repr__(self) -> str:
        return f"<async {self._sync!r}>"


def _bare(value: Any) -> Any:
    return value._sync if isinstance(value, _Face) else value
'''

AGENT_TAIL = """

_AWAITED: dict[type, type[_Face]] = {
    session.Session: Session, transcript.Transcript: Transcript, memory.Memory: Memory
}
"""

SESSIONS_TAIL = '''
    async def close(self) -> None:
        """Brings the mirror up to date, then closes the store if it was opened here. Idempotent."""
        if self._sync._closes:
            await self._threads.close()
        await self._threads.run(self._sync.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
'''

STORE_TAIL = '''
    def transaction(self) -> AbstractAsyncContextManager[None]:
        """Makes several steps of this task one: all are kept, or none. Other writers wait meanwhile: keep it short."""
        return self._threads.transaction()

    async def close(self) -> None:
        """Finishes what is waiting, and lets go of the files. Idempotent; the store raises Closed afterwards."""
        await self._threads.close()
        await self._threads.run(self._sync.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
'''


def face(name: str, module: str) -> str:
    """The async class of one sync class."""
    tree = ast.parse((ROOT / f"src/clew/{module}.py").read_text())
    cls = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    sync = f"{module.rpartition('/')[2]}.{name}"
    lines = [f"\n\nclass {name}(_Face):", f'    """{ast.get_docstring(cls)}"""', "", f"    _sync: {sync}"]
    for node in cls.body:
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("_") or (name, node.name) in BY_HAND:
            continue
        lines += ["", *member(name, module, node)]
    text = "\n".join(lines) + "\n"
    return text + {"Store": STORE_TAIL, "SessionStore": SESSIONS_TAIL}.get(name, "")


def member(cls: str, module: str, node: ast.FunctionDef) -> list[str]:
    """One method or property."""
    marks = {ast.unparse(mark) for mark in node.decorator_list}
    returns = ALIASES.get(ast.unparse(node.returns), ast.unparse(node.returns)) if node.returns else "None"
    doc = [f'        """{ast.get_docstring(node, clean=False)}"""'] if ast.get_docstring(node) else []
    if marks & {"property", "cached_property"}:
        if returns in CLASSES.keys() | AGENT_CLASSES.keys() | OUTSIDE:
            body = [f"        return {returns}(self._threads, self._sync.{node.name})"]
        elif (cls, node.name) in ASKS:
            body = [f"        return self._threads.run(lambda: self._sync.{node.name})"]
            returns = f"Awaitable[{returns}]"
        else:
            body = [f"        return self._sync.{node.name}"]
        return ["    @property", f"    def {node.name}(self) -> {returns}:", *doc, *body]
    args = ast.unparse(node.args)
    for alias, full in ALIASES.items():
        args = args.replace(alias, full)
    given = passed(node.args)
    target = f"self._sync.{node.name}"
    if "overload" in marks:
        return ["    @overload", f"    async def {node.name}({args}) -> {returns}: ..."]
    if returns in ITERATORS:
        body = [f"        return self._threads.stream({', '.join([target, *given])})"]
        return [f"    def {node.name}({args}) -> AsyncIterator[{ITERATORS[returns]}]:", *doc, *body]
    if returns == "Watch":
        return [f"    def {node.name}({args}) -> Watch:", *doc,
                f"        return Watch(self._threads, {target}({', '.join(given)}))"]  # fmt: skip
    verb = "commit" if (cls, node.name) in COMMITS else "run"
    call = f"await self._threads.{verb}({', '.join([target, *given])})"
    if any(word in returns for word in WRAPPED) and "NodePage" not in returns:
        call = f"cast({returns!r}, self._wrap({call}))"
    return [f"    async def {node.name}({args}) -> {returns}:", *doc, f"        return {call}"]


def passed(args: ast.arguments) -> list[str]:
    """The arguments of a method as it passes them on."""
    given = [bare(arg) for arg in args.args[1:]]
    if args.vararg:
        given.append(f"*{args.vararg.arg}")
    given += [f"{arg.arg}={bare(arg)}" for arg in args.kwonlyargs]
    return given


def bare(arg: ast.arg) -> str:
    """An argument, taken out of its async face if it may have one."""
    return f"_bare({arg.arg})" if arg.annotation and "Session" in ast.unparse(arg.annotation) else arg.arg


def main() -> int:
    """Writes or checks the files."""
    texts = {
        "faces.py": HEADER + "".join(face(name, module) for name, module in CLASSES.items()),
        "agents.py": AGENT_HEADER + "".join(face(*one) for one in AGENT_CLASSES.items()) + AGENT_TAIL,
    }
    for name, text in texts.items():
        target = FACES / name
        formatted = ruff(["format"], ruff(["check", "--select", "I", "--fix", "--quiet"], text, target), target)
        if "--check" not in sys.argv:
            target.write_text(formatted)
        elif not target.exists() or target.read_text() != formatted:
            print(f"src/clew/aio/{name} is not current: run python tools/aio.py", file=sys.stderr)
            return 1
    return 0


def ruff(command: list[str], text: str, target: pathlib.Path) -> str:
    """`text` as ruff leaves it."""
    return subprocess.run(
        [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(target), "-"],
        input=text, capture_output=True, text=True, check=True, cwd=ROOT,
    ).stdout  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
