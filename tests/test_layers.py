"""Imports point downward only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import clew

SOURCE = Path(clew.__file__).parent

LAYERS: list[set[str]] = [
    {"errors"},
    {"loading"},
    {"ids", "files", "events", "paging", "damage", "visible", "provider_names", "undoing"},
    {"objects"},
    {"keys"},
    {"model"},
    {"providers"},
    {"codec"},
    {"redaction"},
    {"backends"},
    {"backends.sql"},
    {"backends.sqlite", "backends.postgres"},
    {"envelope", "header"},
    {"sealed"},
    {"node"},
    {"engine"},
    {"holds"},
    {"refs", "paths"},
    {"watching"},
    {"deletion"},
    {"trash", "outside", "mirrors"},
    {"nodes", "blobs", "log", "rekey", "bodies"},
    {"audit", "receipts"},
    {"session_data"},
    {"titles"},
    {"exporting"},
    {"policy"},
    {"due"},
    {"session"},
    {"sessions"},
    {"checkpoints"},
    {"beside", "brief"},
    {"verify", "backup", "copying"},
    {"words"},
    {"indexing"},
    {"serverindex"},
    {"search", "purge"},
    {"quarantine", "snapshots"},
    {"convert"},
    {"store"},
    {"stored_policy"},
    {"retention", "scan", "stats", "tenants", "partitions"},
    {"records", "otel", "agents", "cpeconvo"},
    {""},  # the public door, `import clew`
    {"aio", "testing", "chat"},
    {"records.aio", "saving", "mcp"},
    {"cli"},
    {"__main__"},
]
"""From the bottom up. A module may import what is in a lower row, and nothing of its own row but its own package."""

RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}


def layer(module: str) -> str:
    """The name under which a module stands in the table: that of its package where it has no place of its own."""
    name = module.removeprefix("clew").removeprefix(".")
    while name and name not in RANK:
        name = name.rpartition(".")[0]
    return name


def modules() -> Iterator[tuple[str, ast.Module]]:
    for file in sorted(SOURCE.rglob("*.py")):
        parts = file.relative_to(SOURCE).with_suffix("").parts
        yield ".".join(part for part in parts if part != "__init__"), ast.parse(file.read_text(encoding="utf-8"))


def imported(tree: ast.AST) -> Iterator[str]:
    """What a module imports of clew, in functions too; imports for type checkers alone are not followed."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            for other in node.orelse:
                yield from imported(other)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are written in full"
            if node.module == "clew":
                # `from clew import ids` is a module; `from clew import Store` goes through the door.
                yield from (f"clew.{alias.name}" if is_module(alias.name) else "clew" for alias in node.names)
            elif node.module and node.module.startswith("clew."):
                yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "clew")
        else:
            yield from imported(node)


def is_module(name: str) -> bool:
    return (SOURCE / f"{name}.py").exists() or (SOURCE / name / "__init__.py").exists()


def test_imports_point_downward() -> None:
    """No module imports one of its own layer or of a higher one, not even inside a function."""
    wrong = []
    for name, tree in modules():
        mine = layer(name)
        for other in imported(tree):
            theirs = layer(other)
            if theirs != mine and RANK[theirs] >= RANK[mine]:
                wrong.append(f"{name or 'clew'} imports {other}")
    assert wrong == []


def test_every_module_has_its_layer() -> None:
    """A new module has to be given its place in the table, and the table names nothing that is not there."""
    names = {name for name, _ in modules()}
    assert {name for name in names if name and "." not in name} <= set(RANK)
    assert set(RANK) <= names


def test_backends_know_rows_alone() -> None:
    """A backend knows nothing of blocks, ids, envelopes or policy: of clew it imports errors and row types."""
    for name, tree in modules():
        if name.startswith("backends"):
            assert {layer(other) for other in imported(tree)} <= {
                "errors",
                "loading",
                "backends",
                "backends.sql",
                "backends.sqlite",
                "backends.postgres",
            }


def test_the_library_reads_no_environment() -> None:
    """Below the command line nothing reads the environment, the home directory or the terminal."""
    for name, tree in modules():
        if layer(name) in ("cli", "__main__"):
            continue
        used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        asked = {"environ"} if name == "keys" else set()  # keys.from_env reads the one variable its caller names
        assert not used & {"environ", "getenv", "expanduser", "home", "isatty", "getcwd"} - asked, name
        called = {getattr(node.func, "id", "") for node in ast.walk(tree) if isinstance(node, ast.Call)}
        assert not called & {"print", "input"}, name
