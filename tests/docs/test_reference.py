"""The generated pages are current, and the documents hold together."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def docs() -> dict[str, Any]:
    """tools/docs.py, as a module."""
    return runpy.run_path(str(ROOT / "tools/docs.py"))


def test_all_is_well() -> None:
    """The reference is what the source makes of it, all is documented, and every link leads somewhere."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools/docs.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_stale_page_is_told(docs: dict[str, Any]) -> None:
    """A page that differs from what would be written is named."""
    assert list(docs["stale"]({"cli.md": "other", "none.md": ""})) == [
        "docs/reference/cli.md is not current: run python tools/docs.py",
        "docs/reference/none.md is not current: run python tools/docs.py",
    ]


def test_an_undocumented_command_is_told(docs: dict[str, Any]) -> None:
    """A command without its section is named."""
    text = docs["cli_page"]().replace("## clew fork\n", "")
    assert list(docs["undocumented"]({"cli.md": text})) == ["clew fork has no section, or no example"]


def test_a_broken_link_is_told(docs: dict[str, Any], tmp_path: Path) -> None:
    """A link to a file or a heading that is not there is named; code and links out of the project are passed over."""
    page = tmp_path / "page.md"
    page.write_text(
        "# A heading\n[a](page.md#a-heading) [b](#none) [c](gone.md) [d](https://x.org)\n```text\n[e](f)\n```\n"
    )
    spy = docs["broken_links"].__globals__
    spy.update(ROOT=tmp_path, documents=lambda: [page])
    assert list(docs["broken_links"]()) == [
        "page.md links to #none, which has no such heading",
        "page.md links to gone.md, which is not there",
    ]


def test_every_column_is_explained() -> None:
    """The design names every table of the format, and every column of each."""
    script = "".join(
        one.read_text(encoding="utf-8") for one in sorted((ROOT / "src/clew/backends/sql").glob("0*.sqlite.sql"))
    )
    design = (ROOT / "docs/design.md").read_text(encoding="utf-8")
    for statement in script.split("CREATE TABLE ")[1:]:
        name, _, rest = statement.partition(" (")
        part = design.partition(f"### {name}\n")[2].partition("\n### ")[0]
        assert part, name
        for line in rest.split("\n)")[0].split("\n")[1:]:
            column = line.split()[0]
            if column.islower():
                assert f"| `{column}`" in part, f"{name}.{column}"


def test_every_promise_has_its_tests() -> None:
    """The page on reliability names only tests and mutants that are there."""
    text = (ROOT / "docs/reliability.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\(\.\./(tests/[\w/.]+)\)", text))
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []
    mutants = {
        name for row in re.findall(r"^\| P\d+ .*\|(.*)\|$", text, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
    }
    assert mutants
    assert [name for name in mutants if not (ROOT / f"tests/mutants/{name}.toml").exists()] == []


def test_every_command_has_its_sentence() -> None:
    """The table of commands in the reference gives a sentence for each, also for those in groups."""
    assert "| None |" not in (ROOT / "docs/reference/cli.md").read_text(encoding="utf-8")
