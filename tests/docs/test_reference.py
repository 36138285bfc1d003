"""The generated pages are current, and the documents hold together."""

from __future__ import annotations

import ast
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


def test_the_adapters_are_in_the_reference(docs: dict[str, Any]) -> None:
    """Each class that an adapter exports, with its constructor and the methods that are explained, async ones too."""
    page = docs["api_page"]()
    modules = [*(ROOT / "src/clew/adapters").glob("*.py"), *(ROOT / "src/clew/adapters").glob("*/__init__.py")]
    exported = {
        f"clew.adapters.{module.parent.name if module.stem == '__init__' else module.stem}.{name}"
        for module in modules
        for name in re.findall(r"\bClew[A-Z]\w+", module.read_text(encoding="utf-8"))
    }
    assert len(exported) >= 16
    assert {name for name in exported if f"### {name}\n" not in page} == set()
    assert "ClewSaver(target: Target, *, serde: SerializerProtocol | None=None, **options: Any)" in page
    assert "- `async .purge(" in page


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
    """The format names every table of the format, and every column of each."""
    script = "".join(
        one.read_text(encoding="utf-8") for one in sorted((ROOT / "src/clew/backends/sql").glob("0*.sqlite.sql"))
    )
    text = (ROOT / "docs/format.md").read_text(encoding="utf-8")
    for statement in script.split("CREATE TABLE ")[1:]:
        name, _, rest = statement.partition(" (")
        part = text.partition(f"## {name}\n")[2].partition("\n## ")[0]
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


def names_of_modules() -> list[tuple[Path, str]]:
    """What pages and docstrings name as a file or a dotted name of clew, each with where it is named."""
    pages = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "CONTRIBUTING.md"]
    texts = [(page, page.read_text(encoding="utf-8")) for page in pages]
    for file in sorted((ROOT / "src/clew").rglob("*.py")):
        for one in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(one, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                texts.append((file, ast.get_docstring(one) or ""))
    pattern = re.compile(r"`([\w./]+/\w+\.py|clew(?:\.\w+)+)\b")
    return [(place, name) for place, text in texts for name in pattern.findall(text)]


def is_there(name: str) -> bool:
    """True if a file exists, or a dotted name is that of a module or of something that its package mentions."""
    place = ROOT / "src/clew"
    if "/" in name:
        return any((folder / name).exists() for folder in (ROOT, ROOT / "src", place))
    for part in name.split(".")[1:]:
        if not (place / part).is_dir():
            mentioned = re.search(rf"\b{part}\b", (place / "__init__.py").read_text(encoding="utf-8"))
            return (place / f"{part}.py").exists() or mentioned is not None
        place /= part
    return True


def test_named_modules_exist() -> None:
    """Pages and docstrings name no module that was moved or removed."""
    assert not is_there("store/none.py")
    assert not is_there("clew.store.none")
    named = names_of_modules()
    assert len(named) > 100
    assert [(str(place.relative_to(ROOT)), name) for place, name in named if not is_there(name)] == []


def test_every_command_has_its_sentence() -> None:
    """The table of commands in the reference gives a sentence for each, also for those in groups."""
    assert "| None |" not in (ROOT / "docs/reference/cli.md").read_text(encoding="utf-8")
