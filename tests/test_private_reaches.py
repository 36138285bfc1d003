"""No room uses a private name of another room: what others may use has no underscore."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from tools import house
from tools.house import SOURCE

NAMED_TUPLE = {"_make", "_replace", "_fields", "_asdict", "_field_defaults"}

OWNERS = {
    "store": "store", "opened": "store", "session": "store", "sessions": "store", "talk": "store", "hit": "store",
    "node": "engine", "nodes": "engine", "engine": "engine", "refs": "engine", "watch": "engine", "blobs": "engine",
    "audit": "engine", "purger": "upkeep", "backend": "backends", "tx": "backends", "codec": "base",
}  # fmt: skip
"""The room of an object of which the code says no more than its name; a leading underscore does not count."""


def room(path: Path) -> str:
    """The folder below `clew` that a file is in, or the name of a loose module."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in NAMED_TUPLE


class Room:
    """The classes and the private names of the modules of one room."""

    def __init__(self) -> None:
        self.classes: set[str] = set()
        self.names: set[str] = set()

    def add(self, tree: ast.Module) -> None:
        for node in ast.walk(tree):
            match node:
                case ast.ClassDef(name=name):
                    self.classes.add(name)
                    self.names.add(name)
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    self.names.add(name)
                case ast.Attribute(attr=name, ctx=ast.Store()):
                    self.names.add(name)
                case ast.Assign(targets=targets):
                    self.names.update(one.id for one in targets if isinstance(one, ast.Name))
                case ast.AnnAssign(target=ast.Name(id=name)):
                    self.names.add(name)


@cache
def rooms() -> dict[str, Room]:
    found: dict[str, Room] = {}
    for module in house.modules().values():
        found.setdefault(room(module.path), Room()).add(module.tree)
    return found


def imported(tree: ast.Module) -> dict[str, str]:
    """The room that each imported name comes from."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "clew":
            for alias in node.names:
                place = [*node.module.split("."), alias.name][1]
                names[alias.asname or alias.name] = place
    return names


def annotated(tree: ast.Module, names: dict[str, str]) -> dict[str, str]:
    """The room of each argument, variable or attribute that is annotated with, or made by, an imported class."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.arg(arg=name, annotation=ast.expr() as hint):
                pass
            case ast.AnnAssign(target=ast.Name(id=name) | ast.Attribute(attr=name), annotation=hint):
                pass
            case ast.Assign(targets=[ast.Name(id=name) | ast.Attribute(attr=name)], value=ast.Call(func=hint)):
                pass
            case _:
                continue
        text = hint.value if isinstance(hint, ast.Constant) and isinstance(hint.value, str) else ast.unparse(hint)
        for part in text.replace("|", " ").split():
            if (owner := names.get(part.split(".")[0].split("[")[0])) is not None:
                found[name] = owner
    return found


def reaches(path: Path, tree: ast.Module, known: dict[str, Room]) -> Iterator[str]:
    """Every use of a private name of another room in one module."""
    mine = room(path)
    names = {**dict.fromkeys(known.get(mine, Room()).classes, mine), **imported(tree)}
    types = annotated(tree, names)
    name = path.relative_to(SOURCE)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "clew":
            theirs = [*node.module.split("."), ""][1]
            yield from (
                f"{name}: {node.module}.{one.name}" for one in node.names if private(one.name) and theirs != mine
            )
        if not isinstance(node, ast.Attribute) or not private(node.attr):
            continue
        value = node.value
        if isinstance(value, ast.Name) and value.id in ("self", "cls"):
            continue
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "super":
            continue
        owner = _owner(value, names, types)
        if owner is None:  # of an object of which nothing is known: one of this room, if it has such a name
            owners = {one for one, place in known.items() if node.attr in place.names}
            owner = mine if mine in owners or not owners else min(owners)
        if owner != mine and node.attr in known.get(owner, Room()).names:
            yield f"{name}: {ast.unparse(value)}.{node.attr}"


def _owner(value: ast.expr, names: dict[str, str], types: dict[str, str]) -> str | None:
    match value:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            plain = name.lstrip("_")
            return types.get(name) or types.get(plain) or names.get(name) or OWNERS.get(plain)
        case ast.Subscript(value=inner) | ast.Await(value=inner):
            return _owner(inner, names, types)
        case ast.Call(func=inner):
            return _owner(inner, names, types)
    return None


def test_no_room_reaches_into_another() -> None:
    """Modules use public names of other rooms, and only those."""
    known = rooms()
    found = {reach for module in house.modules().values() for reach in reaches(module.path, module.tree, known)}
    assert found == set()


@pytest.mark.parametrize(
    "text",
    [
        "from clew.store.session import _branch",
        "def f(store):\n    return store._engine",
        "from clew.engine.node import Node\ndef f(x: Node | None):\n    return x._row",
        "from clew.engine.watch import Watch\nmade = Watch(1)\nmade._state",
        "def f(thing):\n    return thing.sessions._table",
        "def f(nodes):\n    return nodes[-1]._row[0]",
        "from clew.base import codec\ncodec._encode",
    ],
)
def test_a_planted_reach_is_found(text: str) -> None:
    """The check sees imports, annotations, constructors and names."""
    assert list(reaches(SOURCE / "cli" / "planted.py", ast.parse(text), rooms()))


@pytest.mark.parametrize(
    "text", ["class A:\n    def f(self):\n        return self._x", "def f(row):\n    return row._replace(a=1)"]
)
def test_what_is_no_reach(text: str) -> None:
    """A module's own attributes and the methods of named tuples are no reaches."""
    assert not list(reaches(SOURCE / "cli" / "planted.py", ast.parse(text), rooms()))
