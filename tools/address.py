"""Writes the addresses of the repository into the files that a release carries.

    python tools/address.py https://forge.example/owner/clew

The sources name no repository: a fork would carry the address of another one. The release workflow knows its own and
runs this before it builds: [project.urls] in pyproject.toml, and `repository-code` in CITATION.cff.
"""

from __future__ import annotations

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = {
    "Repository": "",
    "Documentation": "/tree/main/docs",
    "Changelog": "/blob/main/CHANGELOG.md",
    "Issues": "/issues",
    "Security": "/blob/main/SECURITY.md",
}


def write(root: pathlib.Path, address: str) -> None:
    """Adds the addresses below `address`, or replaces those that are there."""
    address = address.rstrip("/")
    if not re.fullmatch(r"https://[\w.-]+(/[\w.-]+)+", address):
        raise SystemExit(f"{address} is not the https address of a repository")
    project = root / "pyproject.toml"
    text = re.sub(r"\[project\.urls\]\n(?:.+\n)*\n", "", project.read_text(encoding="utf-8"))
    lines = "".join(f'{name} = "{address}{page}"\n' for name, page in PAGES.items())
    project.write_text(
        text.replace("[project.scripts]", f"[project.urls]\n{lines}\n[project.scripts]"), encoding="utf-8"
    )
    citation = root / "CITATION.cff"
    text = re.sub(r"repository-code: .*\n", "", citation.read_text(encoding="utf-8"))
    citation.write_text(f'{text}repository-code: "{address}"\n', encoding="utf-8")


if __name__ == "__main__":
    write(ROOT, sys.argv[1])
