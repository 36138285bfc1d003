"""The extras of pyproject.toml: what is recommended works after the installation that the README names."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

from clew.cli.commands import doctor

ROOT = Path(__file__).parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]


def packages(extra: str) -> set[str]:
    """The names of what an extra installs, with those of the extras that it includes."""
    found = set[str]()
    for line in EXTRAS[extra]:
        within = re.fullmatch(r"clew\[(.*)\]", line)
        found |= set().union(*map(packages, within[1].split(","))) if within else {re.split(r"[\[<>=]", line)[0]}
    return found


def test_the_command_line_can_serve_its_page() -> None:
    """Every package that the page's modules import is in `[cli]`."""
    imported = set[str]()
    for path in (ROOT / "src/clew/web").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {name.name.partition(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                imported.add(node.module.partition(".")[0])
    foreign = imported - set(sys.stdlib_module_names) - {"clew", "msgspec"}
    assert "h11" in foreign
    assert {name.replace("_", "-") for name in foreign} <= packages("cli")


def test_doctor_knows_the_extras() -> None:
    """It names each one that `[all]` includes, but the command line that runs it."""
    (everything,) = EXTRAS["all"]
    assert set(doctor.EXTRAS) | {"cli"} == set(everything.removeprefix("clew[").removesuffix("]").split(","))


def test_no_registry_is_named() -> None:
    """Hints and pages install extras from a clone: no registry has clew."""
    pages = [
        path
        for name in ("docs", "examples", "src")
        for path in (ROOT / name).rglob("*")
        if path.suffix in (".md", ".py")
    ]
    named = re.compile(rb"install '?clew\[")
    assert [str(path) for path in [ROOT / "README.md", *pages] if named.search(path.read_bytes())] == []


def test_one_function_writes_the_hint() -> None:
    """No other module has a command of pip for an extra: the wording is the same everywhere."""
    places = {path.name for path in (ROOT / "src").rglob("*.py") if b"install '.[" in path.read_bytes()}
    assert places == {"errors.py"}


def test_an_environment_with_the_command_line_serves_the_page(tmp_path: Path) -> None:
    """`pip install '.[cli]'` is enough for `clew serve`."""
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv/bin/python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", f"{ROOT}[cli]"], check=True, timeout=280)
    code = """
import clew, urllib.request
from clew.web.server import Server, listen
with Server(lambda _: clew.open("chats.db"), listen(0)).in_background() as url:
    with_cookies = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    print(with_cookies.open(url).status)
"""
    done = subprocess.run([python, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout == "200\n", done.stderr
