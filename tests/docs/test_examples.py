"""Every example runs as it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.test_pages import ROOT, surroundings

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_example_runs(example: Path, tmp_path: Path) -> None:
    """An example ends well, prints something, and leaves nothing in the folder it was started from."""
    work = tmp_path / "work"
    work.mkdir()
    done = subprocess.run(
        [sys.executable, str(example)],
        cwd=work, env=surroundings(tmp_path), input="Hello\nAnd again\n",
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert list(work.iterdir()) == []


def test_examples_are_listed() -> None:
    """The page of the examples names each of them."""
    listed = (ROOT / "examples/README.md").read_text(encoding="utf-8")
    assert EXAMPLES
    assert [example.name for example in EXAMPLES if f"({example.name})" not in listed] == []
