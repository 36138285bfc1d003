"""CI repeats tests that fail, a few of them, and names each."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[1] / "tools/repeat.py"
SUITE = """
import pathlib, pytest

@pytest.mark.parametrize("number", range({count}))
def test_flaky(number):
    seen = pathlib.Path(f"seen{{number}}")
    was = seen.exists()
    seen.touch()
    assert was and not {always}

def test_good():
    pass
"""


@pytest.mark.parametrize(("count", "always", "code"), [(0, False, 0), (3, False, 0), (4, False, 1), (1, True, 1)])
def test_a_fault_is_named(tmp_path: Path, count: int, always: bool, code: int) -> None:
    """Up to three tests that pass the second time are no failure; more are, and one that fails again is."""
    (tmp_path / "test_some.py").write_text(SUITE.format(count=count, always=always))
    done = subprocess.run(
        [sys.executable, PROGRAM, "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path, env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    named = [line for line in done.stdout.splitlines() if line.startswith("a fault to find: ")]
    assert named == [f"a fault to find: test_some.py::test_flaky[{number}]" for number in range(count)]
