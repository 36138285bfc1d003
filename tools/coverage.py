"""Fails if tests cover less of a part than its figures say: `python tools/coverage.py`.

`[tool.clew.coverage]` of pyproject.toml has the parts, each with the least percentage of lines or branches, and the
tests that are run for all of them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
COUNTED = {"lines": ("covered_lines", "num_statements"), "branches": ("covered_branches", "num_branches")}


def judge(parts: list[dict[str, Any]], files: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    """A line for each figure of each part, and whether it is reached. A part without files fails."""
    for part in parts:
        names = [name for name in files if any(fnmatchcase(name, one) for one in part["files"])]
        for kind in COUNTED.keys() & part.keys():
            covered, known = (sum(files[name]["summary"][field] for name in names) for field in COUNTED[kind])
            share = 100 * covered / known if known else 0.0
            open_lines = [f"{name}:{_missing(files[name], kind)}" for name in names if _missing(files[name], kind)]
            reached = share >= part[kind]
            said = f"{part['name']}: {share:.1f} % of {known} {kind}, at least {part[kind]} %"
            yield said if reached else "\n  ".join([said, *open_lines]), reached


def _missing(file: dict[str, Any], kind: str) -> str:
    if kind == "lines":
        return ",".join(map(str, file["missing_lines"]))
    return ",".join(f"{start}->{end}" for start, end in file["missing_branches"])


def measure(source: str, tests: list[str], options: list[str]) -> dict[str, Any]:
    """What `tests` cover of the folder `source`. SystemExit if a test fails."""
    with tempfile.TemporaryDirectory() as folder:
        run = [sys.executable, "-m", "coverage"]
        data = f"--data-file={folder}/data"
        tested = [*run, "run", data, "--branch", f"--source={source}", "-m", "pytest", *options, *tests]
        if subprocess.run(tested, check=False).returncode:
            raise SystemExit("the tests fail: no figures")
        subprocess.run([*run, "json", data, "-q", "-o", f"{folder}/found.json"], check=True)
        files: dict[str, Any] = json.loads(Path(folder, "found.json").read_text(encoding="utf-8"))["files"]
    return files


def main() -> int:
    """Prints the figures. 1 if one is not reached."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["clew"]["coverage"]
    judged = list(judge(table["parts"], measure("src/clew", table["tests"], ["-m", "not soak and not full"])))
    for said, reached in judged:
        print("ok  " if reached else "LOW ", said)
    return 0 if all(reached for _, reached in judged) else 1


if __name__ == "__main__":
    sys.exit(main())
