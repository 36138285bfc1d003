"""Measures the package by its rooms, and draws them.

    python tools/house.py             prints the rooms from the bottom up, and what is over a limit
    python tools/house.py --modules   also prints every module with its rank and imports

A room is an entry of `src/clew`: a folder, or a module of its own. `RANKS` says which rooms a room may import. Exit 1
if a measure is over its limit. The picture in docs/design.md is written from the same table by tools/docs.py.
"""

from __future__ import annotations

import ast
import pathlib
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src/clew"

RANKS: list[dict[str, str]] = [
    {"errors": "the tree of errors; those of one room only are defined there"},
    {"base": "messages, codec, ids, pages, files, buckets"},
    {
        "backends": "rows and bytes in transactions: SQLite, PostgreSQL",
        "keys": "where the key of a sealed store comes from",
        "redaction": "redaction rules",
    },
    {"snapshots": "a conversation saved whole: value, files, buckets"},
    {"providers": "one folder for each provider, and the registry"},
    {"engine": "the meaning of rows: nodes, refs, paths, blobs, logs, deletion, sealing"},
    {"upkeep": "purge, verify, quarantine, copy, rekey"},
    {"store": "Store, Session, Sessions, Nodes, search, JSONL"},
    {
        "retention": "expiry",
        "checkpoints": "working files",
        "convert": "conversion between providers",
        "turns": "what is shown of a conversation: turns, answers, steps, notes",
    },
    {
        "agents": "agent runtimes",
        "chat": "model clients, recording",
        "records": "records kept by policy",
        "sources": "histories of other programs, read into a store",
    },
    {
        "": "the public names, `import clew`",
        "exports": "conversations as files: Markdown, HTML, their own form; the door to JSONL",
        "adapters": "sessions of agent frameworks, kept in a store",
        "aio": "async classes",
        "testing": "contracts as tests",
    },
    {"web": "the web page, `clew serve`", "mcp": "a server that lets agents search and read, `clew mcp`"},
    {"cli": "the command line, `python -m clew`", "records.aio": "the async record service"},
]
"""From the bottom up. A module may import lower ranks, and of its own rank nothing but its own room."""

RANK = {room: rank for rank, rooms in enumerate(RANKS, 1) for room in rooms}

LIMITS = {
    "entries in src/clew": 28,
    "loose modules": 4,
    "ranks": 13,
    "rings": 0,
    "modules over 800 lines": 0,
    "functions over 60 lines": 0,
    "imports below the waist": 0,
    "functions over a Tx above the store": 0,
    "modules": 500,
    "lines": 77_000,
    "rooms above the store importing backends": 0,
    "modules imported by one sibling only": 60,
    "modules under 60 lines": 90,
    "protocols with one implementation": 8,
}
CEILINGS: dict[str, int] = {
    "lines": 92_300,
}
"""Measures that are still over their limit, with a number that they reached. It may only shrink; that of lines grows
with what clew can do.

A measure below its ceiling passes, so that several changes can shrink it at once; lower the ceiling afterwards.
"""

CORE = {"backends", "engine", "upkeep", "store"}
"""The rooms below the waist. Those above it use Store, Session, Unit, Document, Node and Draft."""
BELOW = {
    "backends": {
        "BODY", "FACTS", "ID", "MAX_SEQ", "POS", "SEQ_BITS", "BlobRow", "BlobTx", "HeadState", "InsertPoint", "Loader",
        "LogRow", "MaintenanceTx", "Move", "NodeLocation", "NodeRow", "ObjectRow", "QuarantineRow", "RefRow", "RunRow",
        "Tx",
    },
    "engine.engine": {"Engine"},
    "engine.refs": {"BRANCH", "OWN", "Refs"},
    "engine.sealing.envelope": {"Box"},
    "store.parts": {"Parts"},
    "store.session": {"owned_rows", "row_of"},
    "store.session_table": {"SessionParts", "SessionTable"},
}  # fmt: skip
"""What only the core may import: rows, transactions, and the parts of a store."""

MODULE_LINES = 800
SMALL_MODULE = 60
FUNCTION_LINES = 60


class Module(NamedTuple):
    """A module of the package; names are written without the leading `clew`."""

    name: str
    path: pathlib.Path
    text: str
    tree: ast.Module

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    @property
    def generated(self) -> bool:
        """Whether a tool writes it, by the first line."""
        return "tools/" in self.text.partition("\n")[0]


@cache
def modules(source: pathlib.Path = SOURCE) -> dict[str, Module]:
    """Every module by name; the package itself is the empty name."""
    found = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        name = ".".join(part for part in parts if part != "__init__")
        text = path.read_text(encoding="utf-8")
        found[name] = Module(name, path, text, ast.parse(text))
    return found


def room(name: str) -> str:
    """The name under which a module stands in the table of ranks."""
    if name == "__main__":
        return "cli"
    while name and name not in RANK:
        name = name.rpartition(".")[0]
    return name


def imports(module: Module, known: Mapping[str, Module]) -> Iterator[str]:
    """The modules of the package that a module imports, also in functions and for type checkers alone."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [one if one.removeprefix("clew.") in known else node.module for one in inside]
        else:
            continue
        for one in names:
            if one == "clew":
                yield ""
            elif one.startswith("clew."):
                yield one.removeprefix("clew.")


def graph(known: Mapping[str, Module]) -> dict[str, set[str]]:
    """What each module imports; the door, which everything may be reached through, is left out."""
    edges = {name: {one for one in imports(module, known) if one in known} for name, module in known.items()}
    return {name: ends - {name, ""} for name, ends in edges.items()}


def rings(edges: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """The groups of modules that import each other, directly or not (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in edges[name]:
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            at = stack.index(name)
            ring = stack[at:]
            del stack[at:]
            if len(ring) > 1:
                found.append(sorted(ring))

    for name in edges:
        if name not in index:
            visit(name)
    return found


def long_functions(known: Mapping[str, Module]) -> Iterator[str]:
    """Functions over the limit, with their lines; generated modules are left out."""
    for module in known.values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not module.generated:
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LINES:
                    yield f"{module.name}.{node.name} ({lines})"


def below_the_waist(known: Mapping[str, Module]) -> Iterator[str]:
    """Modules above the store that import rows, transactions or parts of a store, with what they import."""
    for name, module in known.items():
        if room(name) in CORE:
            continue
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                wanted = BELOW.get(node.module.removeprefix("clew."), set())
                if found := sorted(wanted & {alias.name for alias in node.names}):
                    yield f"{name} imports {', '.join(found)}"


def over_a_tx(known: Mapping[str, Module]) -> Iterator[str]:
    """Functions above the store that take a transaction."""
    for name, module in known.items():
        for node in () if room(name) in CORE else ast.walk(module.tree):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                continue
            for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
                if one.arg == "tx" or (one.annotation is not None and ast.unparse(one.annotation) == "Tx"):
                    yield f"{name}:{node.lineno}"


def backend_users(known: Mapping[str, Module]) -> list[str]:
    """The rooms above the store that import backends, each with its modules."""
    users: defaultdict[str, list[str]] = defaultdict(list)
    for name, module in known.items():
        if room(name) not in CORE and any(room(other) == "backends" for other in imports(module, known)):
            users[room(name)].append(name)
    return [f"{one} ({', '.join(names)})" for one, names in sorted(users.items())]


def single_users(known: Mapping[str, Module]) -> list[str]:
    """Modules that exactly one other module imports, one of their own entry; packages are left out."""
    users: defaultdict[str, set[str]] = defaultdict(set)
    for name, ends in graph(known).items():
        for end in ends:
            users[end].add(name)
    return [
        name
        for name, module in known.items()
        if module.path.name != "__init__.py"
        and len(users[name]) == 1
        and next(iter(users[name])).partition(".")[0] == name.partition(".")[0]
    ]


class Class(NamedTuple):
    """A class with its own members and the names of its bases."""

    module: str
    node: ast.ClassDef

    @property
    def bases(self) -> set[str]:
        return {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in self.node.bases}

    @property
    def methods(self) -> set[str]:
        return {one.name for one in self.node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}

    @property
    def members(self) -> set[str]:
        """Methods, fields, and attributes that a method assigns."""
        found = self.methods
        for one in self.node.body:
            targets = (
                one.targets if isinstance(one, ast.Assign) else [one.target] if isinstance(one, ast.AnnAssign) else []
            )
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
        inside = ast.walk(self.node)
        return found | {one.attr for one in inside if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store)}


def lonely_protocols(known: Mapping[str, Module]) -> Iterator[str]:
    """Protocols that at most one class implements, without counting its subclasses."""
    classes = [
        Class(module.name, node)
        for module in known.values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef)
    ]
    by_name: defaultdict[str, list[Class]] = defaultdict(list)
    for one in classes:
        if "Protocol" not in one.bases:
            by_name[one.node.name].append(one)
    own = {id(one): one.members for others in by_name.values() for one in others}

    def members(one: Class, seen: frozenset[str] = frozenset()) -> set[str]:
        found = set(own[id(one)])
        for base in one.bases - seen:
            for other in by_name[base]:
                found |= members(other, seen | {one.node.name})
        return found

    every = [(one, members(one)) for others in [*by_name.values()] for one in others]
    for protocol in (one for one in classes if "Protocol" in one.bases):
        wanted = {name for name in protocol.methods if not name.startswith("__") or name == "__call__"}
        made = [one for one, has in every if (wanted and wanted <= has) or protocol.node.name in one.bases]
        names = {one.node.name for one in made}
        if sum(not one.bases & names for one in made) <= 1:
            yield f"{protocol.module}.{protocol.node.name}"


def upward(known: Mapping[str, Module]) -> list[str]:
    """Imports that do not point to a lower rank."""
    wrong = []
    for name, module in known.items():
        for other in imports(module, known):
            mine, theirs = room(name), room(other)
            if theirs != mine and RANK[theirs] >= RANK[mine]:
                wrong.append(f"{name or 'clew'} imports {other or 'clew'}")
    return sorted(set(wrong))


@cache
def measures(source: pathlib.Path = SOURCE) -> dict[str, list[str]]:
    """What counts against each limit."""
    known = modules(source)
    entries = sorted(path.name for path in source.iterdir() if path.name != "__pycache__")
    return {
        "entries in src/clew": entries,
        "loose modules": [name for name in entries if name.endswith(".py")],
        "ranks": [" ".join(rooms) for rooms in RANKS],
        "rings": [" ".join(ring) for ring in rings(graph(known))],
        "modules over 800 lines": [
            f"{module.name} ({module.lines})"
            for module in known.values()
            if module.lines > MODULE_LINES and not module.generated
        ],
        "functions over 60 lines": list(long_functions(known)),
        "imports below the waist": list(below_the_waist(known)),
        "functions over a Tx above the store": list(over_a_tx(known)),
        "modules": list(known),
        "rooms above the store importing backends": backend_users(known),
        "modules imported by one sibling only": single_users(known),
        "modules under 60 lines": [name for name, module in known.items() if module.lines < SMALL_MODULE],
        "protocols with one implementation": list(lonely_protocols(known)),
    }


def counts(source: pathlib.Path = SOURCE) -> dict[str, int]:
    """The numbers that are compared with the limits."""
    lines = sum(module.lines for module in modules(source).values())
    return {name: len(found) for name, found in measures(source).items()} | {"lines": lines}


def picture() -> str:
    """The rooms from the top down, for docs/design.md."""
    rows = []
    for rank, rooms in reversed(list(enumerate(RANKS, 1))):
        for number, (name, what) in enumerate(rooms.items()):
            rows.append(f"{rank if not number else '':>2}  {name or '(door)':<12} {what}")
    return "\n".join(rows)


def draw(source: pathlib.Path = SOURCE, *, every: bool = False) -> None:
    """Prints the rooms with their sizes and the rooms they import."""
    known = modules(source)
    edges = graph(known)
    inside: defaultdict[str, list[str]] = defaultdict(list)
    for name in known:
        inside[room(name)].append(name)
    print(f"{'rank':>4} {'room':14} {'modules':>7} {'lines':>6}  imports")
    for one in sorted(inside, key=lambda one: (RANK[one], one)):
        uses = sorted({room(other) for name in inside[one] for other in edges[name]} - {one})
        lines = sum(known[name].lines for name in inside[one])
        print(f"{RANK[one]:4} {one or '(door)':14} {len(inside[one]):7} {lines:6}  {' '.join(uses)}")
        for name in inside[one] if every else ():
            print(f"       {name or 'clew':40} {known[name].lines:5}  {' '.join(sorted(edges[name]))}")
    print(f"{len(known)} modules, {sum(module.lines for module in known.values())} lines\n")


def main() -> int:
    """Draws the rooms; exit 1 if a measure is over its limit."""
    draw(every="--modules" in sys.argv[1:])
    over = [f"an import that does not point downward: {one}" for one in upward(modules())]
    for name, count in counts().items():
        ceiling = max(LIMITS[name], CEILINGS.get(name, 0))
        print(f"{name:40} {count:6}  limit {LIMITS[name]}")
        if count > ceiling:
            over.append(f"{name}: {count}, at most {ceiling}: {', '.join(measures().get(name, ()))}")
    for line in over:
        print(line, file=sys.stderr)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
