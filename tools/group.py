"""Prints the requirements of a dependency group of pyproject.toml (PEP 735), for versions of pip without --group.

    python tools/group.py dev

Needs nothing but Python: it runs before anything is installed.
"""

from __future__ import annotations

import pathlib
import sys
import tomllib
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent


def requirements(name: str, groups: dict[str, list[Any]]) -> list[str]:
    """The requirements of a group, with those of the groups that it includes."""
    found: list[str] = []
    for one in groups[name]:
        found += requirements(one["include-group"], groups) if isinstance(one, dict) else [one]
    return found


def read(name: str) -> list[str]:
    """The requirements of a group of clew's own."""
    return requirements(name, tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"])


if __name__ == "__main__":
    print(*read(sys.argv[1]), sep="\n")
