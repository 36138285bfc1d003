"""Faults put into a copy of the source on purpose. Each must be seen by a test, or the test proves nothing.

A mutant is a TOML file in this folder: ``why`` says which promise it breaks, each ``[[patch]]`` replaces text in one
file below ``src/clew``, ``tests`` are the node ids, or patterns of files, of which at least one must fail.
``python -m tests.mutants [NAME …]`` runs them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LIMIT = 300.0
"""Seconds a mutant's tests may take; one that hangs has been noticed."""


class Mutant(NamedTuple):
    """A fault, and the tests that must see it."""

    name: str
    why: str
    patches: list[dict[str, Any]]
    tests: list[str]


class Verdict(NamedTuple):
    """What the tests made of a mutant; `said` ends with the reason."""

    caught: bool
    word: str
    said: str = ""


def load(names: list[str]) -> list[Mutant]:
    """The mutants of those names, or all."""
    found = []
    for path in sorted(HERE.glob("*.toml")):
        if names and path.stem not in names:
            continue
        data = tomllib.loads(path.read_text())
        tests = [test for pattern in data["tests"] for test in expand(pattern)]
        found.append(Mutant(path.stem, data["why"], data["patch"], tests))
    return found


def expand(pattern: str) -> list[str]:
    """The files that a pattern means; node ids and patterns that mean nothing stay as they are."""
    if "*" not in pattern:
        return [pattern]
    return [str(path.relative_to(ROOT)) for path in sorted(ROOT.glob(pattern))] or [pattern]


def copy_of_source(folder: Path, patches: list[dict[str, Any]]) -> str | None:
    """Copies the source below `folder` and changes it; what is wrong if a patch does not fit."""
    shutil.copytree(ROOT / "src" / "clew", folder / "clew", ignore=shutil.ignore_patterns("__pycache__"))
    for patch in patches:
        path = folder / "clew" / patch["file"]
        text = path.read_text() if path.exists() else ""
        if text.count(patch["old"]) != 1:
            return f"{patch['file']} has the text to replace {text.count(patch['old'])} times"
        path.write_text(text.replace(patch["old"], patch["new"]))
    return None


def run_tests(folder: Path, tests: list[str], limit: float = LIMIT) -> tuple[int, str]:
    """Runs tests on the source in `folder`: pytest's exit code, -1 if they hang, and what was said."""
    env = {**os.environ, "PYTHONPATH": str(folder), "CLEW_REQUIRE_TOOLS": "1", "PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:xdist", f"--basetemp={folder / 'tmp'}", *tests]
    proof = "import clew, sys; sys.exit(not clew.__file__.startswith(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", proof, str(folder)], env=env, cwd=ROOT, check=True)
    try:
        done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return -1, "the tests hang"
    return done.returncode, done.stdout + done.stderr


def exists(test: str) -> bool:
    """Whether there is a file with that test."""
    return (ROOT / test.partition("::")[0]).exists()


def judge(mutant: Mutant, folder: Path) -> Verdict:
    """Whether the tests see the mutant."""
    missing = [test for test in mutant.tests if not exists(test)]
    if missing:
        return Verdict(False, "MISSING", f"there is no {', '.join(missing)}")
    misfit = copy_of_source(folder, mutant.patches)
    if misfit:
        return Verdict(False, "STALE", misfit)
    code, said = run_tests(folder, mutant.tests)
    if code == 0:
        return Verdict(False, "SURVIVED", said)
    if code not in (1, -1):  # pytest could not run them
        return Verdict(False, "BROKEN", said)
    return Verdict(True, "caught", said)
