"""Imports point downward only, and the rooms keep their measures; tools/house.py has the tables."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools import house
from tools.house import RANK, room


def modules() -> Iterator[tuple[str, ast.Module]]:
    for name, module in house.modules().items():
        yield name, module.tree


def test_imports_point_downward() -> None:
    """No module imports one of its own rank or of a higher one, neither inside a function nor for its types."""
    assert house.upward(house.modules()) == []


@pytest.mark.parametrize("measure", house.LIMITS)
def test_a_measure_is_within_its_limit(measure: str) -> None:
    """Entries, ranks, rings and sizes; a ceiling above the limit may only shrink."""
    ceiling = max(house.LIMITS[measure], house.CEILINGS.get(measure, 0))
    assert house.counts()[measure] <= ceiling, house.measures().get(measure)


def test_a_ring_is_seen(tmp_path: Path) -> None:
    """Imports inside functions and for type checkers count; long functions and imports upward are named."""
    (tmp_path / "store").mkdir()
    (tmp_path / "errors.py").write_text("from clew.store import a\n")
    (tmp_path / "store" / "a.py").write_text("def f():\n    from clew.store.b import x\n")
    (tmp_path / "store" / "b.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from clew.store import a\n"
         "def g():\n" + "    x = 1\n" * 60
    )  # fmt: skip
    found = house.measures(tmp_path)
    assert found["rings"] == ["store.a store.b"]
    assert found["functions over 60 lines"] == ["store.b.g (61)"]
    assert house.upward(house.modules(tmp_path)) == ["errors imports store.a"]


def test_a_part_with_one_user_is_seen(tmp_path: Path) -> None:
    """A module that one sibling imports, and a Protocol that one class implements with its subclasses."""
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "a.py").write_text("from clew.store.b import One, Two\n\n\nclass Sub(Made):\n    pass\n")
    (tmp_path / "store" / "b.py").write_text(
        "class One(Protocol):\n    def f(self): ...\n\n\nclass Two(Protocol):\n    def g(self): ...\n\n\n"
        "class Made:\n    def f(self): ...\n    def g(self): ...\n\n\nclass Other:\n    def g(self): ...\n"
    )
    found = house.measures(tmp_path)
    assert found["modules imported by one sibling only"] == ["store.b"]
    assert found["protocols with one implementation"] == ["store.b.One"]
    assert house.counts(tmp_path)["lines"] == 20


def test_every_module_has_its_layer() -> None:
    """A new module has to be given its place in the table, and the table names nothing that is not there."""
    names = {name for name, _ in modules()}
    assert {name for name in names if name and "." not in name} <= {*RANK, "__main__"}
    assert set(RANK) <= names


def test_backends_know_rows_alone() -> None:
    """A backend knows nothing of blocks, ids, envelopes or policy: of clew it imports errors and row types."""
    known = house.modules()
    for name in known:
        if name.startswith("backends"):
            assert {room(other) for other in house.imports(known[name], known)} <= {"errors", "base", "backends"}


def test_only_backends_name_a_concrete_backend() -> None:
    """Outside of `backends` no module names a concrete backend, not even for type checkers or in a string."""
    concrete = re.compile(r"clew\.backends(\.| import .*\b)(sqlite|postgres|sql)\b")
    for name, module in house.modules().items():
        if room(name) != "backends":
            assert not concrete.search(module.text), name


def test_the_library_reads_no_environment() -> None:
    """Below the command line nothing reads the environment, the home directory or the terminal."""
    for name, tree in modules():
        if room(name) == "cli":
            continue
        used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        # keys.from_env reads the one variable its caller names; OpenTelemetry configures its hooks by the environment.
        asked = {"environ"} if name in ("keys", "adapters.opentelemetry") else set()
        assert not used & {"environ", "getenv", "expanduser", "home", "isatty", "getcwd"} - asked, name
        called = {getattr(node.func, "id", "") for node in ast.walk(tree) if isinstance(node, ast.Call)}
        assert not called & {"print", "input"}, name
