"""The items of tests/checklist.toml, and the tests that show them.

A test shows an item if it has the mark `@pytest.mark.checklist("A1")`, which may name several. tools/docs.py writes
docs/reference/checklist.md from both, and its check fails for an item without a test.
"""

from __future__ import annotations

import ast
import pathlib
import tomllib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
ITEMS = ROOT / "tests/checklist.toml"


class Mark(NamedTuple):
    """A test, by its file and name, and an item that it says it shows."""

    file: str
    test: str
    item: str


def items(path: pathlib.Path = ITEMS) -> dict[str, dict[str, str]]:
    """By heading: each item with its sentence."""
    return tomllib.loads(path.read_text(encoding="utf-8"))


def marks(root: pathlib.Path = ROOT) -> list[Mark]:
    """Every mark in the tests, in the order of the files. The tests are read, not imported."""
    found = list[Mark]()
    for path in sorted((root / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if "mark.checklist(" in text:
            found += _marks_of(ast.parse(text), path.relative_to(root).as_posix())
    return found


def _marks_of(node: ast.AST, file: str, above: str = "") -> Iterator[Mark]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        name = f"{above}{child.name}"
        for decorator in child.decorator_list:
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.checklist":
                yield from (Mark(file, name, str(ast.literal_eval(item))) for item in decorator.args)
        if isinstance(child, ast.ClassDef):
            yield from _marks_of(child, file, f"{name}::")


def problems(listed: dict[str, dict[str, str]], marked: Iterable[Mark]) -> Iterator[str]:
    """Marks of items that do not exist, and items without a test."""
    missing = {item for part in listed.values() for item in part}
    known = frozenset(missing)
    for mark in marked:
        missing.discard(mark.item)
        if mark.item not in known:
            yield f"{mark.file}::{mark.test} is marked with {mark.item}, which tests/checklist.toml does not have"
    for item in (item for part in listed.values() for item in part if item in missing):
        yield f"no test is marked with {item} of tests/checklist.toml"


def page(listed: dict[str, dict[str, str]], marked: list[Mark]) -> str:
    """The table of items and tests."""
    lines = ["# Checklist", "", "What clew does, item by item, and the tests that show it."]
    for heading, part in listed.items():
        lines += ["", f"## {heading}", "", "| item | | tests |", "|---|---|---|"]
        for item, sentence in part.items():
            tests = [f"[{mark.test}](../../{mark.file})" for mark in marked if mark.item == item]
            lines.append(f"| {item} | {sentence} | {'<br>'.join(tests)} |")
    return "\n".join(lines) + "\n"
