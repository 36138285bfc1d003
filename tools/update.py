"""Writes the exact versions that clew is developed with, and the list of components that a wheel carries.

    python tools/update.py            writes constraints.txt with the newest versions, and sbom.cdx.json
    python tools/update.py --sbom     writes sbom.cdx.json alone, from constraints.txt
    python tools/update.py --tried    prints the versions that are installed here, and marks those that are others

uv finds versions that work together on every system and on Python 3.11 to 3.14; markers say where one does not apply.
constraints.txt names no address: packages come from the index that pip is set up with.
"""

from __future__ import annotations

import json
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import tomllib
import uuid
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
SBOM = ROOT / "sbom.cdx.json"
EXTRAS = ("all", "opentelemetry", "pydantic-ai")
"""Extras that the development environment has, as in the Makefile."""
HEAD = "# Versions that were tried together. Written by `make update`.\n"


def resolve(*options: str, python: str = "3.11") -> str:
    """Exact versions of all that clew needs with these options of uv, for every system."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, "out.txt")
        command = [sys.executable, "-m", "uv", "pip", "compile", "--universal", "--python-version", python, "--quiet"]
        command += [
            "--no-header",
            "--no-annotate",
            "--no-config",
            *options,
            str(ROOT / "pyproject.toml"),
            "-o",
            str(out),
        ]
        subprocess.run(command, check=True, cwd=ROOT)
        return out.read_text(encoding="utf-8")


def pinned() -> dict[str, str]:
    """The version of each package; the newest if systems or versions of Python differ."""
    found: dict[str, str] = {}
    for one in constraints():
        name, (pin,) = canonicalize_name(one.name), one.specifier
        found[name] = max(found.get(name, pin.version), pin.version, key=Version)
    return found


def constraints() -> Iterator[Requirement]:
    """The lines of constraints.txt."""
    for line in CONSTRAINTS.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            yield Requirement(line)


def sbom() -> str:
    """A CycloneDX document: clew, the data of others that it contains, and the packages that it asks for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    own = re.search(r'__version__ = "(.+)"', (ROOT / "src/clew/__init__.py").read_text(encoding="utf-8"))
    assert own is not None
    pins = pinned()
    needs = sorted({canonicalize_name(Requirement(line).name) for line in project["dependencies"]})
    asked = {name: f"pkg:pypi/{name}@{pins[name]}" for name in needs}
    root = f"pkg:pypi/clew@{own[1]}"
    data = {
        "type": "data", "bom-ref": "genai-prices", "name": "genai-prices",
        "description": "Prices of models, in clew/providers/prices.json", "licenses": [{"license": {"id": "MIT"}}],
        "externalReferences": [{"type": "vcs", "url": "https://github.com/pydantic/genai-prices"}],
    }  # fmt: skip
    packages: list[dict[str, Any]] = [
        {"type": "library", "bom-ref": purl, "name": name, "version": purl.rpartition("@")[2], "purl": purl,
         "scope": "required", "properties": [{"name": "clew:contained", "value": "false"}]}
        for name, purl in asked.items()
    ]  # fmt: skip
    main = {
        "type": "library", "bom-ref": root, "name": "clew", "version": own[1], "purl": root,
        "description": project["description"], "licenses": [{"license": {"id": project["license"]}}],
    }  # fmt: skip
    document: dict[str, Any] = {
        "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
        "metadata": {"lifecycles": [{"phase": "pre-build"}], "component": main},
        "components": [data, *packages],
        "dependencies": [{"ref": root, "dependsOn": ["genai-prices", *asked.values()]}],
    }  # fmt: skip
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(document, sort_keys=True))
    return json.dumps({"serialNumber": f"urn:uuid:{serial}", **document}, indent=2) + "\n"


def tried() -> Iterator[str]:
    """A line for each package of the constraints that is installed here."""
    yield f"Python {platform.python_version()} on {platform.platform()}"
    for one in constraints():
        if one.marker is not None and not one.marker.evaluate():
            continue
        try:
            here = version(one.name)
        except PackageNotFoundError:
            continue
        same = one.specifier.contains(here, prereleases=True)
        yield f"{one.name} {here}" + ("" if same else f"  (constraints.txt has {one.specifier})")


def main(arguments: list[str]) -> None:
    """See the top of this file."""
    if "--tried" in arguments:
        print(*tried(), sep="\n")
        return
    if "--sbom" not in arguments:
        extras = [word for extra in EXTRAS for word in ("--extra", extra)]
        CONSTRAINTS.write_text(HEAD + resolve("--group", "dev", "--upgrade", *extras), encoding="utf-8")
    SBOM.write_text(sbom(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
