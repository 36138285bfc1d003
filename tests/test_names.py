"""One class name has one meaning, and no function is named by a bare participle."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import clew

SRC = Path(clew.__file__).parent

SHARED_CLASSES = {"Session": "the checklist names it (B5) for agents, and a conversation is one too"}
OPEN_CLASSES = set("Batches Choice Entry Event Found Kept Left Options Report Row Sessions Talk Target".split())
"""Names that still have two meanings. Remove a name when it is done; add none."""

PARTICIPLES = frozenset(
    "answered asked begun born bound brought built called checked chosen cleaned closed compiled counted created cut_ "
    "derived done drawn dropped ended encoded expected failed filled fitted forgotten found given gone guarded hashed "
    "heard held hidden joined kept known laid left listed loaded locked lost made marked meant merged moved named "
    "needed noted numbered opened ordered packed parsed passed paused picked placed planned put_ quoted ranked read_ "
    "renamed replaced said saved sealed seen sent settled shared shortened shown skipped spoken started stored swept "
    "taken told touched tracked tried trimmed typed understood unpacked unwrapped used walked wanted written".split()
)
ALLOWED = {"testing/snapshots.py made": "a fixture of a suite that others subclass"}
OPEN_FUNCTIONS: dict[str, int] = {
    "backends": 16,
    "chat": 6,
    "convert": 5,
    "providers": 11,
    "snapshots": 7,
    "store": 9,
}
"""Functions of each room that are still named so. Lower a number when some are done; raise none."""


@cache
def definitions() -> list[tuple[str, ast.AST]]:
    """Classes, functions of modules, and methods, each with the path of its module."""
    found: list[tuple[str, ast.AST]] = []
    for path in sorted(SRC.rglob("*.py")):
        name = path.relative_to(SRC).as_posix()
        for node in ast.parse(path.read_text()).body:
            found.append((name, node))
            if isinstance(node, ast.ClassDef):
                found += [(name, member) for member in node.body]
    return found


def classes() -> Iterator[tuple[str, str]]:
    """Public classes, by name and module; not the async twins, which have the names of the sync ones, nor testing."""
    for path, node in definitions():
        room = path.partition("/")[0]
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            if room not in ("aio", "testing") and path not in ("records/aio.py", "chat/aio.py"):
                yield node.name, path


def test_one_class_name_has_one_meaning() -> None:
    """No two public classes share a name, except those that are listed."""
    homes = defaultdict(list)
    for name, path in classes():
        homes[name].append(path)
    twice = {name: paths for name, paths in homes.items() if len(paths) > 1 and name not in SHARED_CLASSES}
    assert {name: paths for name, paths in twice.items() if name not in OPEN_CLASSES} == {}


def participles() -> Iterator[str]:
    """Functions and methods that are named by a participle; properties and attributes may be."""
    for path, node in definitions():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.strip("_") in PARTICIPLES:
            marks = {ast.unparse(mark) for mark in node.decorator_list}
            if not marks & {"property", "cached_property"} and f"{path} {node.name}" not in ALLOWED:
                yield f"{path} {node.name}"


def test_functions_are_named_by_verbs_or_nouns() -> None:
    """No function is called `shown`, `told` or `kept`: a name says what is done, or what is returned."""
    by_room = defaultdict(list)
    for one in participles():
        by_room[one.partition("/")[0]].append(one)
    counts = Counter({room: len(ones) for room, ones in by_room.items()})
    assert {room: by_room[room] for room, count in counts.items() if count > OPEN_FUNCTIONS.get(room, 0)} == {}


@pytest.mark.parametrize(
    "room",
    ["agents", "aio", "base", "checkpoints", "cli", "engine", "records", "redaction", "retention", "testing", "upkeep"],
)
def test_these_rooms_are_done(room: str) -> None:
    """None of their functions is named so any more."""
    assert [one for one in participles() if one.startswith(f"{room}/")] == []
