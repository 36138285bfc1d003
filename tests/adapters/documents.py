"""Runs the how-to page and the example of an adapter, in the environment that has its framework."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run_page(name: str, tmp_path: Path) -> None:
    """The code of the page runs, and prints what the page says."""
    _run(["-m", "tests.docs.page", str(ROOT / f"docs/how-to/adapters-{name}.md")], tmp_path)


def run_example(name: str, tmp_path: Path) -> str:
    """The example runs; returns its output."""
    return _run([str(ROOT / f"examples/adapters/run_{name}.py")], tmp_path)


def _run(arguments: list[str], folder: Path) -> str:
    environment = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "HOME": str(folder), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
