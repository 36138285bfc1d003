"""Builds the sdist and the wheel, checks them, and tries each in an empty environment.

    python tools/dist.py             all of it; the results are in dist/
    python tools/dist.py --build     only builds and compares

Each is built twice, in two copies of the sources without git, and must have the same bytes. SOURCE_DATE_EPOCH gives
the time of the files in it; without it, hatchling's own fixed time counts. The trial installs from the index that pip
has, with the versions of constraints.txt.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv*", "dist", "site", "__pycache__", ".*_cache", ".hypothesis", "*.egg-info"
)
TRIAL = """
import clew, pathlib, urllib.request
from clew.redaction import Rules, builtin
key = clew.keys.generate()
with clew.open("sealed.db", key=key, redact=Rules(builtin())) as store:
    store.sessions.create().append(clew.user("It is ghp_0123456789abcdefghijklmnopqrstuvwxyz"))
with clew.open("sealed.db", key=key) as store:
    assert store.sessions.latest().path()[-1].text == "It is ***"
assert b"It is" not in pathlib.Path("sealed.db").read_bytes()
from clew.web.server import Server, listen
with Server(lambda _: clew.open("chats.db"), listen(0)).in_background() as url:
    with_cookies = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    assert b"Codex" in with_cookies.open(url).read()
import clew.mcp, clew.aio, clew.cli.picker.app
"""
SAMPLE = ROOT / "tests/sources/samples/codex"
"""A home of Codex with recorded histories."""


def build(source: pathlib.Path, out: pathlib.Path) -> dict[str, str]:
    """Builds sdist and wheel; the digest of each, by name. The wheel comes from the sdist, as at an installation."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(source)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=source)
    return {path.name: digest(path) for path in sorted(out.iterdir())}


def digest(path: pathlib.Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def build_twice(folder: pathlib.Path) -> dict[str, str]:
    """Builds from two copies at different times and places. Raises SystemExit if the bytes differ."""
    digests: list[dict[str, str]] = []
    for name in ("one", "another/deeper"):
        shutil.copytree(ROOT, folder / name, ignore=LEFT_OUT)
        for path in (folder / name).rglob("*"):
            os.utime(path)
        digests.append(build(folder / name, folder / "made" / str(len(digests))))
    if digests[0] != digests[1]:
        raise SystemExit(f"two builds differ: {digests}")
    return digests[0]


def contents(path: pathlib.Path) -> list[str]:
    """The names in a wheel or an sdist."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    with tarfile.open(path) as archive:
        return archive.getnames()


def try_it(path: pathlib.Path, folder: pathlib.Path) -> float:
    """Installs a wheel or an sdist into an empty environment and uses it. The seconds that installing took."""
    venv.create(folder / "venv", with_pip=True)
    python, clew = folder / "venv/bin/python", folder / "venv/bin/clew"
    home = folder / "home"
    shutil.copytree(SAMPLE, home / ".codex")
    begun = time.monotonic()
    pip: list[str | pathlib.Path] = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", path]
    subprocess.run(pip, check=True, env={**os.environ, "PIP_CONSTRAINT": str(ROOT / "constraints.txt")})
    took = time.monotonic() - begun
    named = {**os.environ, "HOME": str(home), "CLEW_DB": str(folder / "chats.db"), "XDG_DATA_HOME": str(home / "data")}
    uses = ("--version",), ("import", "--yes"), ("doctor",)
    for command in (*((clew, *words) for words in uses), (python, "-c", TRIAL)):
        subprocess.run(command, check=True, env=named, cwd=folder, timeout=60, stdout=subprocess.DEVNULL)
    return took


def main(arguments: list[str]) -> None:
    """See the top of this file."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        digests = build_twice(folder)
        shutil.rmtree(DIST, ignore_errors=True)
        shutil.copytree(folder / "made/0", DIST)
        for file, digest in digests.items():
            size = (DIST / file).stat().st_size
            print(f"{file}  {size / 1024:,.0f} KiB  {len(contents(DIST / file))} files  sha256 {digest}")
        if "--build" in arguments:
            return
        subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *map(str, DIST.iterdir())], check=True)
        for number, file in enumerate(digests):
            place = folder / f"trial{number}"
            place.mkdir()
            print(f"{file} works; installing it took {try_it(DIST / file, place):.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
