"""Tests the adapters with the lowest and the newest version of each range in pyproject.toml, and writes the table.

    python tools/adapter_ranges.py              tests all, and writes the table in docs/reference/adapters.md
    python tools/adapter_ranges.py NAME …       tests some; the rows of the others stay

For each version it makes an environment in .venv-adapters/ranges, as a user installs it, and runs the adapter's page
and its main tests there, on SQLite. `make adapter-ranges` runs all.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/reference/adapters.md"
BEGIN, END = "<!-- begin of the table -->", "<!-- end of the table -->"
HEAD = "| extra | package | range | lowest | newest |\n|---|---|---|---|---|\n"


class Adapter(NamedTuple):
    """An adapter: its extra, the package that the range is for, and its tests."""

    extra: str
    package: str
    tests: tuple[str, ...]
    more: tuple[str, ...] = ()
    """What its page needs beside the extra."""


ADAPTERS = {
    "agent_framework": Adapter("agent-framework", "agent-framework-core", ("test_history", "test_foreign")),
    "chainlit": Adapter("chainlit", "chainlit", ("test_foreign",)),
    "claude": Adapter("claude", "claude-agent-sdk", ("test_store",)),
    "google_adk": Adapter("google-adk", "google-adk", ("test_fork", "test_foreign")),
    "langgraph": Adapter("langgraph", "langgraph-checkpoint", ("test_types", "test_foreign"), ("langgraph",)),
    "litellm": Adapter("litellm", "litellm", ("test_logger",)),
    "llama_index": Adapter("llama-index", "llama-index-core", ("test_stores",)),
    "openai_agents": Adapter("openai-agents", "openai-agents", ("test_fork",)),
    "opentelemetry": Adapter(
        "opentelemetry", "opentelemetry-util-genai", ("test_hook",), ("opentelemetry-sdk", "opentelemetry-test-utils")
    ),
    "pydantic_ai": Adapter("pydantic-ai", "pydantic-ai-slim", ()),
    "strands": Adapter("strands", "strands-agents", ("test_foreign",)),
}
CHOICE = "not postgres and not server and not command_line and not lost"
TESTS = ("hypothesis>=6.100", "pytest>=8.3", "pytest-timeout>=2.3")


def bounds(adapter: Adapter) -> tuple[str, str]:
    """The first version of an adapter's range, and the range."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    found = next(one for one in extras[adapter.extra] if one.startswith(adapter.package))
    low = re.search(r">=([^,\s]+)", found)
    assert low is not None
    return low[1], found.removeprefix(adapter.package)


def tested(name: str, adapter: Adapter, requirement: str, which: str) -> tuple[str, bool]:
    """The version that was installed, and whether the page and the tests pass with it."""
    folder = ROOT / ".venv-adapters/ranges" / f"{name}-{which}"
    python = str(folder / "bin/python")
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    wanted = [f"-e{ROOT}[{adapter.extra}]", requirement, *adapter.more, *TESTS]
    done = subprocess.run([*install, *wanted], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(done.stderr[-2000:], file=sys.stderr)
        return requirement, False
    about = f"import importlib.metadata as m; print(m.version({adapter.package!r}))"
    version = subprocess.run([python, "-c", about], capture_output=True, text=True, check=True).stdout.strip()
    files = [f"tests/adapters/{name}/{one}.py" for one in ("test_documents", *adapter.tests)]
    command = [python, "-m", "pytest", "-p", "no:asyncio", "--confcutdir=tests/adapters", "-x", "-k", CHOICE, *files]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    passed = run.returncode == 0
    if not passed:
        print(run.stdout[-3000:], file=sys.stderr)
    return version, passed


def row(name: str) -> str:
    """The line of the table for one adapter."""
    adapter = ADAPTERS[name]
    low, wanted = bounds(adapter)
    cells = []
    for which, version in (("lowest", f"=={low}"), ("newest", wanted)):
        found, passed = tested(name, adapter, f"{adapter.package}{version}", which)
        cells.append(f"{found} {'passes' if passed else '**fails**'}")
        print(f"{name} {which}: {cells[-1]}", flush=True)
    return f"| `{adapter.extra}` | {adapter.package} | `{wanted}` | {cells[0]} | {cells[1]} |"


def main(names: list[str]) -> int:
    """Tests the adapters that are named, or all."""
    new = {ADAPTERS[name].extra: row(name) for name in names or ADAPTERS}
    text = PAGE.read_text(encoding="utf-8")
    before, after = text.index(BEGIN) + len(BEGIN), text.index(END)
    old = {line.split("`")[1]: line for line in text[before:after].splitlines() if line.startswith("| `")}
    rows = old | new
    table = HEAD + "\n".join(rows[extra] for extra in sorted(rows))
    PAGE.write_text(f"{text[:before]}\n{table}\n{text[after:]}", encoding="utf-8")
    return 1 if any("fails" in line for line in rows.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
