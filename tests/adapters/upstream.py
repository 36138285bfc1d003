"""Runs the tests that a framework publishes in its sdist, with our class in the place of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run_upstream(
    name: str, package: str, files: Sequence[str], home: Path, *, without: str, options: Sequence[str] = ()
) -> int:
    """Runs `files` of the sdist without the tests that `without` names; returns how many passed.

    The plugin ``swapped`` in the folder of the adapter's tests puts our class in the place of the framework's.
    """
    sdist = next(iter(Path(sys.prefix, "sdist").glob(f"{package}-*/tests")), None)
    if sdist is None:
        pytest.skip(f"the sdist of {package} is not there: `make test-adapters` downloads it")
    folders = [Path(__file__).parent / name, Path(), ROOT / "src"]
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-p", "swapped", "-q", "-o", "addopts=", "-o", "asyncio_mode=auto",
            "-p", "no:cacheprovider", "-k", f"not ({' '.join(without.split())})", *options,
            *(f"tests/{file}" for file in files),
        ],
        cwd=sdist.parent, capture_output=True, text=True, timeout=240, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders)), "HOME": str(home)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    return int(passed[1])
