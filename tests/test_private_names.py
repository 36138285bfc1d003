"""Tests use what the package offers, not its private names. The number of exceptions may only shrink."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tools import house

HERE = Path(__file__).parent
PUBLIC = {"_asdict", "_fields", "_make", "_replace"}
"""What NamedTuple offers."""

CEILING = 123
"""How often tests reach a private name. Lower it when the number falls."""

MAYBE = re.compile(r"""(?<!self)(?<!cls)\._[a-z]|['"]_[a-z]|\bimport .*\b_[a-z]""", re.IGNORECASE)
"""A text that this does not match has no reach, and need not be parsed."""


def is_private(name: object) -> bool:
    return isinstance(name, str) and name.startswith("_") and not name.startswith("__") and name not in PUBLIC


@cache
def defined() -> frozenset[str]:
    """Every private name that the package defines or assigns."""
    names: set[str] = set()
    for module in house.modules().values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                names.add(node.attr)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
    return frozenset(name for name in names if is_private(name))


def reaches(tree: ast.AST) -> Iterator[str]:
    """Private names of the package that a test imports, reads from an object, or replaces."""
    nodes = list(ast.walk(tree))
    own = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    theirs = defined() - own
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "clew":
            yield from (alias.name for alias in node.names if is_private(alias.name))
        elif isinstance(node, ast.Attribute) and node.attr in theirs:
            if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
                yield node.attr
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "setattr":
            name = node.args[1] if len(node.args) > 1 else None
            if isinstance(name, ast.Constant) and name.value in defined():
                yield str(name.value)


def test_private_names_become_fewer() -> None:
    """Tests reach private names no more often than before."""
    found: Counter[str] = Counter()
    for path in sorted(HERE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if MAYBE.search(text):
            found[path.relative_to(HERE).as_posix()] += len(list(reaches(ast.parse(text))))
    assert found.total() <= CEILING, found.most_common(20)


def test_a_reach_is_seen() -> None:
    """Imports, attributes and replaced names count; NamedTuple's methods and a test's own do not."""
    name = min(defined())
    text = f"""
from clew.base.codec import _hidden
store.{name}.write
monkeypatch.setattr(keys, "{name}", None)
row._replace(a=1)
self.{name}
"""
    assert sorted(reaches(ast.parse(text))) == sorted([name, name, "_hidden"])
