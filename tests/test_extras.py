"""pyproject.toml: `pip install clew` gives the whole program, and extras add what is special."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tools import group, update

from clew.cli.commands import doctor

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
DEFAULT = {canonicalize_name(Requirement(line).name) for line in PROJECT["dependencies"]}
SPECIAL = {
    "anthropic", "openai", "google", "psycopg", "obstore", "opentelemetry", "pytest", "hypothesis",
    "walk", # a module of clew's own, in a program that runs without the package
}  # fmt: skip
"""What only extras or programs bring."""


def imported() -> dict[str, set[str]]:
    """The foreign packages that clew imports, except its adapters, with the modules that do."""
    found = dict[str, set[str]]()
    for path in (ROOT / "src/clew").rglob("*.py"):
        where = path.relative_to(ROOT / "src/clew").as_posix()
        if where.startswith(("adapters/", "testing/")):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            for name in names:
                found.setdefault(name.partition(".")[0], set()).add(where)
    return {name: where for name, where in found.items() if name not in {"clew", *sys.stdlib_module_names}}


def test_the_default_installation_has_what_clew_imports() -> None:
    """Command line, page, MCP server, encryption, keyring and exports need no extra."""
    names = packages_distributions()
    lacking = {
        name: sorted(where)
        for name, where in imported().items()
        if name not in SPECIAL and not DEFAULT & set(map(canonicalize_name, names.get(name, [name])))
    }
    assert lacking == {}
    assert {"click", "cryptography", "keyring", "mcp", "textual", "starlette", "nh3"} <= DEFAULT


def test_doctor_knows_the_extras() -> None:
    """It names each one that `[all]` includes."""
    (everything,) = EXTRAS["all"]
    assert set(doctor.EXTRAS) == set(everything.removeprefix("clew[").removesuffix("]").split(","))


def test_no_default_dependency_is_an_extra_too() -> None:
    """An extra adds something."""
    for name, lines in EXTRAS.items():
        assert not DEFAULT & {canonicalize_name(Requirement(line).name) for line in lines}, name


def test_one_function_writes_the_hint() -> None:
    """No other module has a command of pip for an extra: the wording is the same everywhere."""
    said = re.compile(rb"pip install ['\"]?(?:\.|clew)\[")
    places = {path.name for path in (ROOT / "src").rglob("*.py") if said.search(path.read_bytes())}
    assert places == set()


def test_tools_are_a_group_and_no_extra() -> None:
    """What tests and releases need is not in the metadata that is published; a small reader gives it to old pips."""
    assert "dev" not in EXTRAS
    names = {Requirement(line).name for line in group.read("dev")}
    assert {"pytest", "mypy", "build", "twine"} <= names


def test_every_version_is_fixed() -> None:
    """constraints.txt has an exact version of all that is asked for, each within what is allowed, and no address."""
    text = update.CONSTRAINTS.read_text(encoding="utf-8")
    assert "://" not in text and " @ " not in text and "-index" not in text
    assert {pin.operator for one in update.constraints() for pin in one.specifier} == {"=="}
    pins = update.pinned()
    asked = [*PROJECT["dependencies"], *group.read("dev")]
    asked += [
        line for extra in ("anthropic", "openai", "gemini", "otel", "objects", "postgres") for line in EXTRAS[extra]
    ]
    for line in asked:
        one = Requirement(line)
        if one.marker is None:
            assert one.specifier.contains(pins[canonicalize_name(one.name)], prereleases=True), line


def test_the_list_of_components_is_current() -> None:
    """sbom.cdx.json is what tools/update.py writes from constraints.txt."""
    assert update.SBOM.read_text(encoding="utf-8") == update.sbom()


@pytest.mark.parametrize("package", ["cryptography", "clew[postgres]", "mcp>=2.1"])
def test_a_hint_can_be_pasted(package: str) -> None:
    """A shell gives pip what clew asks for."""
    import shlex

    from clew.errors import install_hint

    assert shlex.split(install_hint(package).removeprefix("Run: ")) == ["pip", "install", package]
