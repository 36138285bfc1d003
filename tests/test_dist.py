"""What is published: `make dist` builds it, and tries it in empty environments."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest

from clew import __version__

pytest.importorskip("build")
from tools import address, dist

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist and the wheel, built without git."""
    folder = tmp_path_factory.mktemp("dist")
    shutil.copytree(ROOT, folder / "source", ignore=dist.LEFT_OUT)
    dist.build(folder / "source", folder / "made")
    return folder / "made"


def test_the_wheel_is_what_users_need(built: Path) -> None:
    """It has the library, the page, the man page and the licence, and neither tests nor tools."""
    (wheel,) = built.glob("*.whl")
    names = dist.contents(wheel)
    assert {"clew/__init__.py", "clew/py.typed", "clew/web/static/clew.js", "clew/providers/prices.json"} <= {*names}
    info = f"clew-{__version__}.dist-info"
    assert f"{info}/licenses/LICENSE" in names
    assert f"clew-{__version__}.data/data/share/man/man1/clew.1" in names
    assert {name.partition("/")[0] for name in names} == {"clew", info, f"clew-{__version__}.data"}
    assert not [name for name in names if "__pycache__" in name]


def test_the_wheel_lists_its_components(built: Path) -> None:
    """The list is in the place of PEP 770, and names the packages that the metadata asks for."""
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        listed = json.loads(archive.read(f"clew-{__version__}.dist-info/sboms/sbom.cdx.json"))
        metadata = HeaderParser().parsestr(archive.read(f"clew-{__version__}.dist-info/METADATA").decode())
    assert (listed["bomFormat"], listed["metadata"]["component"]["version"]) == ("CycloneDX", __version__)
    asked = {re.split(r"[<>=;\[]", line)[0] for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line}
    assert asked == {one["name"] for one in listed["components"] if one["type"] == "library"}


def test_the_sdist_has_the_tests(built: Path) -> None:
    """They can be run from it; it has nothing that git ignores."""
    (sdist,) = built.glob("*.tar.gz")
    names = {name.partition("/")[2] for name in dist.contents(sdist)}
    assert {"tests/conftest.py", "tools/dist.py", "constraints.txt", "SECURITY.md", "Makefile", "PKG-INFO"} <= names
    assert not [name for name in names if name.startswith((".venv", "dist/", ".git/"))]


def test_two_builds_are_the_same(built: Path, tmp_path: Path) -> None:
    """Elsewhere and later, with the same bytes."""
    shutil.copytree(ROOT, tmp_path / "deeper/source", ignore=dist.LEFT_OUT)
    again = dist.build(tmp_path / "deeper/source", tmp_path / "made")
    assert again == {path.name: dist.digest(path) for path in built.iterdir()}


def test_the_addresses_of_a_repository_are_written_once(tmp_path: Path) -> None:
    """A release has them in its metadata; writing them again changes nothing."""
    for name in ("pyproject.toml", "CITATION.cff"):
        shutil.copy(ROOT / name, tmp_path)
    for _ in range(2):
        address.write(tmp_path, "https://forge.test/owner/clew/")
        urls = tomllib.loads((tmp_path / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
        assert urls["Security"] == "https://forge.test/owner/clew/blob/main/SECURITY.md"
        cited = (tmp_path / "CITATION.cff").read_text(encoding="utf-8")
        assert cited.count('repository-code: "https://forge.test/owner/clew"') == 1
    with pytest.raises(SystemExit, match="not the https address"):
        address.write(tmp_path, "owner/clew")


def test_the_citation_has_the_version() -> None:
    """CITATION.cff names the version that is developed."""
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_a_group_is_read_with_bare_python() -> None:
    """The reader of groups needs no package: it runs first in a new environment."""
    done = subprocess.run(
        [sys.executable, "-S", "-I", ROOT / "tools/group.py", "dev"], capture_output=True, text=True, check=True
    )
    assert "pytest>=8.3" in done.stdout.splitlines()
