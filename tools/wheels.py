"""Asks the package index whether every package of `pip install clew` has a wheel for every system and Python.

    python tools/wheels.py            writes docs/reference/wheels.md; exit 1 if a wheel is missing
    python tools/wheels.py --print    only prints the table

The index is the one that pip is set up with. For each system and version of Python, the packages are found as an
installer finds them: the requirements of clew, then theirs, where their markers hold, in the newest version allowed.
"""

from __future__ import annotations

import html.parser
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tomllib
import urllib.parse
import urllib.request
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from email.parser import HeaderParser
from functools import cache
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/reference/wheels.md"
PYTHONS = ((3, 11), (3, 12), (3, 13), (3, 14))


class System(NamedTuple):
    """A system: its name, its tags for wheels, and what markers see."""

    name: str
    tags: tuple[str, ...]
    os_name: str
    sys_platform: str
    machine: str


def _linux(newest: int, machine: str, *old: str) -> tuple[str, ...]:
    kind, major = ("manylinux", 2) if old else ("musllinux", 1)
    return (*(f"{kind}_{major}_{minor}_{machine}" for minor in range(newest, -1, -1)), *(f"{o}_{machine}" for o in old))


def _macos(newest: int, machine: str) -> tuple[str, ...]:
    versions = [f"{major}_0" for major in range(newest, 10, -1)] + [f"10_{minor}" for minor in range(16, 3, -1)]
    return tuple(f"macosx_{version}_{kind}" for version in versions for kind in (machine, "universal2"))


_OLD = ("manylinux2014", "manylinux2010", "manylinux1")
SYSTEMS = (
    System("Linux, glibc 2.28, x86-64", _linux(28, "x86_64", *_OLD), "posix", "linux", "x86_64"),
    System("Linux, glibc 2.28, arm64", _linux(28, "aarch64", "manylinux2014"), "posix", "linux", "aarch64"),
    System("Linux, musl 1.2, x86-64", _linux(2, "x86_64"), "posix", "linux", "x86_64"),
    System("Linux, musl 1.2, arm64", _linux(2, "aarch64"), "posix", "linux", "aarch64"),
    System("macOS 14, x86-64", _macos(14, "x86_64"), "posix", "darwin", "x86_64"),
    System("macOS 14, arm64", _macos(14, "arm64"), "posix", "darwin", "arm64"),
    System("Windows, x86-64", ("win_amd64",), "nt", "win32", "AMD64"),
    System("Windows, arm64", ("win_arm64",), "nt", "win32", "ARM64"),
)


class File(NamedTuple):
    """A file of a package in the index."""

    name: str
    url: str
    python: str


class _Links(html.parser.HTMLParser):
    """The links of a page of the index."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[dict[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found.append({name: value or "" for name, value in attrs})


@cache
def index() -> str:
    """The address of the index that pip uses."""
    told = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True, check=False
    )
    if address := os.environ.get("PIP_INDEX_URL") or told.stdout.strip():
        return address.rstrip("/")
    from pip._internal.models.index import PyPI  # type: ignore[import-not-found, unused-ignore]

    return str(PyPI.simple_url)


def _get(url: str) -> bytes:
    request = urllib.request.Request(url, headers={"Accept": "application/vnd.pypi.simple.v1+json, text/html;q=0.5"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return bytes(answer.read())


@cache
def files(name: str) -> list[File]:
    """The files of a package that were not withdrawn."""
    page = f"{index()}/{name}/"
    text = _get(page).decode()
    if text.lstrip().startswith("{"):
        return [
            File(one["filename"], urllib.parse.urljoin(page, one["url"]), one.get("requires-python") or "")
            for one in json.loads(text)["files"]
            if not one.get("yanked")
        ]
    links = _Links()
    links.feed(text)
    found = []
    for one in links.found:
        if "data-yanked" not in one:
            url = urllib.parse.urljoin(page, one["href"]).partition("#")[0]
            name = urllib.parse.unquote(url.rpartition("/")[2])
            found.append(File(name, url, one.get("data-requires-python", "")))
    return found


def _version(name: str, file: str) -> Version | None:
    try:
        if file.endswith(".whl"):
            return parse_wheel_filename(file)[1]
        if file.endswith(".tar.gz"):
            return Version(file.removesuffix(".tar.gz")[len(name) + 1 :])
    except (InvalidWheelFilename, ValueError):
        pass
    return None


@cache
def versions(name: str) -> dict[Version, list[File]]:
    """The files of each version, newest first."""
    found = defaultdict[Version, list[File]](list)
    for file in files(name):
        if (version := _version(name, file.name)) is not None:
            found[version].append(file)
    return dict(sorted(found.items(), reverse=True))


@cache
def _tags(system: System, python: tuple[int, int]) -> frozenset[Tag]:
    interpreter = f"cp{python[0]}{python[1]}"
    return frozenset((*cpython_tags(python, platforms=system.tags), *compatible_tags(python, interpreter, system.tags)))


@cache
def requirements(name: str, version: Version) -> list[Requirement]:
    """What a version of a package asks for, from the metadata in one of its wheels."""
    wheel = next((file for file in versions(name)[version] if file.name.endswith(".whl")), None)
    if wheel is None:
        return []
    try:
        text = _get(wheel.url + ".metadata").decode()
    except OSError:
        with zipfile.ZipFile(io.BytesIO(_get(wheel.url))) as archive:
            inner = next(one for one in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", one))
            text = archive.read(inner).decode()
    return [Requirement(line) for line in HeaderParser().parsestr(text).get_all("Requires-Dist") or []]


class Missing(NamedTuple):
    """A package without a wheel for a system and a version of Python."""

    package: str
    version: str
    system: str
    python: str


class Check:
    """The packages of one installation, and those that lack a wheel."""

    def __init__(self, system: System, python: tuple[int, int]) -> None:
        self.system = system
        self.python = f"{python[0]}.{python[1]}"
        self.tags = _tags(system, python)
        self.chosen: dict[str, Version] = {}
        self.compiled = set[str]()
        self.missing: list[Missing] = []
        self._asked = defaultdict[str, SpecifierSet](SpecifierSet)
        self._extras = defaultdict[str, set[str]](set)
        self._left: list[str] = []
        self._environment = {
            "implementation_name": "cpython", "implementation_version": f"{self.python}.0", "os_name": system.os_name,
            "platform_machine": system.machine, "platform_python_implementation": "CPython", "platform_release": "",
            "platform_system": {"linux": "Linux", "darwin": "Darwin", "win32": "Windows"}[system.sys_platform],
            "platform_version": "", "python_full_version": f"{self.python}.0", "python_version": self.python,
            "sys_platform": system.sys_platform,
        }  # fmt: skip

    def run(self, asked: list[Requirement]) -> Check:
        """Follows the requirements until no package is added or changed."""
        self._ask(asked, [""])
        while self._left:
            name = self._left.pop(0)
            version = self._newest(name)
            self.chosen[name] = version
            self._ask(requirements(name, version), ["", *sorted(self._extras[name])])
        for name, version in sorted(self.chosen.items()):
            self._look(name, version)
        return self

    def _ask(self, asked: list[Requirement], extras: list[str]) -> None:
        for one in asked:
            if one.marker and not any(one.marker.evaluate({**self._environment, "extra": extra}) for extra in extras):
                continue
            name = canonicalize_name(one.name)
            both, wanted = self._asked[name] & one.specifier, self._extras[name] | one.extras
            new = name not in self.chosen or wanted != self._extras[name] or self.chosen[name] not in both
            self._asked[name], self._extras[name] = both, wanted
            if new and name not in self._left:
                self._left.append(name)

    def _newest(self, name: str) -> Version:
        for version, found in versions(name).items():
            python = next((file.python for file in found if file.python), "")
            fits = not python or SpecifierSet(python).contains(f"{self.python}.0")
            if fits and not version.is_prerelease and self._asked[name].contains(version):
                return version
        raise SystemExit(f"no version of {name} is {self._asked[name]} for Python {self.python}")

    def _look(self, name: str, version: Version) -> None:
        wheels = [parse_wheel_filename(file.name)[3] for file in versions(name)[version] if file.name.endswith(".whl")]
        fitting = [tags & self.tags for tags in wheels if tags & self.tags]
        if not fitting:
            self.missing.append(Missing(name, str(version), self.system.name, self.python))
        elif not any(tag.platform == "any" for tags in fitting for tag in tags):
            self.compiled.add(name)


def checks() -> Iterator[Check]:
    """One for each system and version of Python."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [Requirement(line) for line in project["dependencies"]]
    for system in SYSTEMS:
        for python in PYTHONS:
            yield Check(system, python).run(asked)


def page(done: list[Check]) -> str:
    """The page with the table."""
    pythons = [f"{major}.{minor}" for major, minor in PYTHONS]
    rows = []
    for system in SYSTEMS:
        ours = [one for one in done if one.system == system]
        cells = [f"{len(one.chosen) - len(one.missing)} of {len(one.chosen)}" for one in ours]
        rows.append(f"| {system.name} | {' | '.join(cells)} |")
    compiled = sorted(set().union(*(one.compiled for one in done)))
    absent = [
        f"- {one.package} {one.version}: {one.system}, Python {one.python}" for all in done for one in all.missing
    ]
    parts = [
        "<!-- Written by tools/wheels.py. -->\n\n# Wheels\n",
        "`pip install clew` compiles nothing: each package that it installs has a wheel for these systems and versions",
        "of Python. The table has the number of packages with a wheel, of those that are installed there.\n",
        f"| system | {' | '.join(pythons)} |",
        f"|---|{'---|' * len(pythons)}",
        *rows,
        f"\nPackages with compiled code: {', '.join(compiled)}. All others are pure Python.\n",
    ]
    return "\n".join([*parts, *(["Without a wheel:\n", *absent, ""] if absent else [])])


def main(arguments: list[str]) -> int:
    """See the top of this file."""
    done = list(checks())
    text = page(done)
    if "--print" in arguments:
        print(text)
    else:
        PAGE.write_text(text, encoding="utf-8")
    return 1 if any(one.missing for one in done) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
