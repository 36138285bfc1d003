"""Each adapter has an extra with the versions that it checks, a page, an example, and its place in the lists."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ADAPTERS = ROOT / "src/clew/adapters"
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
CHECK = re.compile(r'check_version\("([\w-]+)", "([\d.]+)", "([\d.]+)"\)')
NAMES = sorted(
    one.stem
    for one in ADAPTERS.iterdir()
    if CHECK.search("".join(file.read_text() for file in (one.rglob("*.py") if one.is_dir() else [one])))
    and one.name != "versions.py"
)


def ranges(name: str) -> set[tuple[str, str, str]]:
    """The package and the range that an adapter checks, in each of its classes."""
    file = ADAPTERS / f"{name}.py"
    files = [file] if file.exists() else (ADAPTERS / name).rglob("*.py")
    return {found for one in files for found in CHECK.findall(one.read_text())}


def test_all_are_here():
    """Every package below `clew.adapters` that is named in an extra checks its version."""
    assert NAMES == sorted(
        "agent_framework chainlit claude google_adk langgraph litellm llama_index openai_agents opentelemetry"
        " pydantic_ai strands".split()
    )


@pytest.mark.parametrize("name", NAMES)
def test_ranges(name):
    """The extra installs the versions that the adapter was tested with; others warn."""
    ((package, first, before),) = ranges(name)
    wanted = [one for one in EXTRAS[name.replace("_", "-")] if one.startswith(package)]
    assert [re.sub(r"b0\b", "", one) for one in wanted] == [f"{package}>={first},<{before}"]


@pytest.mark.parametrize("name", NAMES)
def test_documents(name):
    """The page begins with the import line; the page and the example are in the lists."""
    page = (ROOT / f"docs/how-to/adapters-{name}.md").read_text()
    assert f"clew.adapters.{name}" in page.split("```")[1]
    assert f"how-to/adapters-{name}.md" in (ROOT / "docs/README.md").read_text()
    assert f"adapters/run_{name}.py" in (ROOT / "examples/README.md").read_text()
    assert len((ROOT / f"examples/adapters/run_{name}.py").read_text().splitlines()) <= 80
