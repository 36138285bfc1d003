"""The pages that map the names of other documents to clew's have every name, and name only what exists."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import pytest

import clew
from clew.cli.command_list import ALIASES
from tests.cli.conftest import leaves
from tests.docs.test_pages import ROOT

PAGES = sorted((ROOT / "docs/systems").glob("*.md"))
ORIGINALS = tomllib.loads(Path(__file__).with_name("originals.toml").read_text(encoding="utf-8"))
GROUPS = {"conversation": {"ls": "list", "show": "print", "view": "print", "rm": "delete", "remove": "delete"}}


def rows(page: Path) -> Iterator[list[str]]:
    """The cells of each row of a page's tables, without the heads."""
    for line in page.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and cells[0] != "original":
            yield cells


def is_there(name: str) -> bool:
    """True if a dotted name leads to a module, an attribute or a field; `store.` is an open store."""
    first, *rest = name.split(".")
    with clew.open(":memory:") as store:
        at: object = {"clew": clew, "store": store}[first]
        for number, part in enumerate(rest, 1):
            fields = getattr(at, "__struct_fields__", ()) or getattr(at, "__annotations__", {})
            if number == len(rest) and (part in fields or part in dir(at)):
                return True
            if not hasattr(at, part) and first == "clew":
                with suppress(ModuleNotFoundError):
                    import_module(".".join([first, *rest[:number]]))
            at = getattr(at, part, None)
            if at is clew.snapshots.Snapshot:
                at = clew.snapshots.new_snapshot(
                    provider="claude", messages=b"[]"
                )  # its fields are read from a document
            if at is None:
                return False
    return True


def is_command(line: str) -> bool:
    """True if `clew …` names a command, and only options that it has."""
    words = [word for word in line.split()[1:] if not word.isupper() and word != ".cpeconvo"]
    name = ALIASES.get(words[0], words[0])
    if name in GROUPS and len(words) > 1:
        words[1] = GROUPS[name].get(words[1], words[1])
    known = leaves()
    path = next((end for end in (2, 1) if " ".join([name, *words[1:end]]) in known), None)
    if path is None:
        return any(one.startswith(f"{name} ") for one in known) and len(words) == 1
    options = {flag for param in known[" ".join([name, *words[1:path]])].params for flag in param.opts}
    return all(word in options for word in words[path:])


def test_there_are_four_systems() -> None:
    """Each has a page and a list of names."""
    assert [page.stem for page in PAGES] == sorted(ORIGINALS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_original_name_has_a_row(page: Path) -> None:
    """A reader who knows the document finds each of its names in the first column."""
    mapped = {name for cells in rows(page) for name in re.findall(r"`([^`]+)`", cells[0])}
    assert [name for name in ORIGINALS[page.stem].split() if name not in mapped] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_name_of_clew_exists(page: Path) -> None:
    """Whatever a page says is there, is there."""
    named = [name for cells in rows(page) for name in re.findall(r"`((?:clew|store)[. ][^`]+)`", " ".join(cells[1:]))]
    assert len(named) > 20
    missing = [name for name in named if not (is_command(name) if " " in name else is_there(name))]
    assert missing == []


def test_a_wrong_name_is_noticed() -> None:
    """The checks above can fail."""
    assert not is_there("clew.Session.nothing")
    assert not is_there("store.nodes.nothing")
    assert not is_command("clew nothing")
    assert not is_command("clew ls --nothing")
    assert is_command("clew convo rm --cascade")
    assert is_command("clew chat -c ID")
