"""Every block of code in the documents runs, and does what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from clew.cli.command_list import COMMANDS
from tests.docs.page import blocks, commands, program

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_runs(page: Path, tmp_path: Path) -> None:
    """A page's code runs from top to bottom in an empty folder, and prints what the page says it prints."""
    if not any(block.language in ("python", "console") for block in blocks(page)):
        return
    if page.name.startswith("adapters-"):
        pytest.skip("its framework has an environment of its own: `make test-adapters` runs it")
    work = tmp_path / "work"
    work.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "tests.docs.page", str(page)],
        cwd=work, env=surroundings(tmp_path), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_have_a_language(page: Path) -> None:
    """A block says what it is: one without a language would never be run, and nobody would see it."""
    assert [block.line for block in blocks(page) if not block.language] == []
    text = page.read_text(encoding="utf-8")
    assert text.count("\n```") == 2 * len(list(blocks(page)))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_exist(page: Path) -> None:
    """Every command that a page tells people to type is there: of clew, and of the Makefile."""
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for block in blocks(page):
        for command, _ in commands(block.text) if block.language == "console" else ():
            for name in re.findall(r"\bclew ([a-z]+)", command):
                assert name in COMMANDS, command
            if program(command) == "make":
                assert set(command.split()[1:]) <= targets, command


def surroundings(tmp_path: Path) -> dict[str, str]:
    """An environment without the home folder and the settings of whoever runs the tests; `clew` is ours."""
    keep = {name: value for name, value in os.environ.items() if name in ("LANG", "LC_ALL", "TMPDIR")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    return {
        **keep, "PATH": path, "HOME": str(home), "XDG_DATA_HOME": str(home / "data"), "TZ": "UTC",
        "CLEW_DB": str(tmp_path / "work" / "clew.db"), "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
        "PYTHONWARNINGS": "error",
        "PYTHONUNBUFFERED": "1",  # stdout and stderr come in the order in which a terminal shows them
    }  # fmt: skip
