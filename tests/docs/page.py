"""Runs the code of one page, from top to bottom, in the current folder: `python -m tests.docs.page PAGE`.

- ```python blocks share one namespace. A line ``print(…)  # this`` must print ``this``; a block with ``>>>`` is a
  doctest. ```python name=FILE is written to FILE instead.
- ```console blocks hold ``$ command`` and what it prints, stderr included. A command without output after it only has
  to succeed.

``…`` in expected output stands for anything on its line; on a line of its own, for any lines. Handles, ids and times
differ from run to run: the first time a page shows one, it learns which one was meant, and later commands use that.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

RUN = ("clew", "echo", "printf", "cat", "python", "pytest", "cp", "mv", "rm", "mkdir", "for", "ls", "cd")
"""Programs that a console block runs."""
TYPED = ("make", "pip", "python3", ".venv/bin/pip", ".venv/bin/python", "git")
"""Programs that only people run: they set up or install things."""

_HANDLE = r"(?=[a-z]*\d)(?=\d*[a-z])[0-9a-hjkmnp-tv-z]{6}"
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_SHOWN = re.compile(
    rf"\b(?P<uuid>{_UUID})\b|\b(?P<handle>{_HANDLE})\b|(?P<time>\d{{4}}-\d\d-\d\d(?: \d\d:\d\d)?)|(?P<any>…)"
)
_MEANT = {
    "uuid": _UUID,
    "handle": "[0-9a-hjkmnp-tv-z]{6,9}",
    "time": r"\d{4}-\d\d-\d\d(?: \d\d:\d\d)?",
    "any": "[^\n]*?",
}


class Block(NamedTuple):
    """A fenced block of a page."""

    line: int
    language: str
    name: str | None
    text: str


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    for found in re.finditer(r"^```(\w*)(?: name=(\S+))?\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield Block(text.count("\n", 0, found.start()) + 1, found[1], found[2], found[3])


def run(page: Path) -> None:
    """Runs the page. AssertionError where it says what is not so."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    learned: dict[str, str] = {}
    for block in blocks(page):
        where = f"{page.name}:{block.line}"
        if block.language == "python" and block.name is not None:
            Path(block.name).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            _python(block, namespace, where)
        elif block.language == "console":
            for command, output in commands(block.text):
                _console(command, output, learned, where)


def _python(block: Block, namespace: dict[str, Any], where: str) -> None:
    if ">>> " in block.text:
        test = doctest.DocTestParser().get_doctest(block.text, namespace, where, None, 0)
        test.globs = namespace
        said = io.StringIO()
        failed = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=said.write, clear_globs=False)
        assert not failed.failed, said.getvalue()
        return
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile("\n" * block.line + block.text, where, "exec"), namespace)
    expected = re.findall(r"^\s*print\(.*\)  # (.*)$", block.text, re.MULTILINE)
    if expected:
        _compare("\n".join(expected), printed.getvalue(), {}, where)


def commands(text: str) -> Iterator[tuple[str, str]]:
    """The commands of a console block, each with the output that is shown after it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        lines = part.rstrip("\n").split("\n")
        taken = 1
        while lines[taken - 1].endswith("\\"):
            taken += 1
        yield "\n".join(lines[:taken]), "\n".join(lines[taken:])


def program(command: str) -> str:
    """The program that a command runs first, whatever is set before it."""
    words = shlex.split(command.split("\n")[0].rstrip("\\"), comments=True)
    return next((word for word in words if "=" not in word), "")


def _console(command: str, output: str, learned: dict[str, str], where: str) -> None:
    if program(command) in TYPED:
        return
    assert program(command) in RUN, f"{where}: nobody knows {command}"
    for shown, meant in learned.items():
        command = re.sub(rf"\b{shown}\b", meant, command)
    # `python` is the one that runs the page: many systems have `python3` alone.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", command],
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    if output:
        _compare(output, done.stdout, learned, f"{where}: {command}")
    else:
        assert done.returncode == 0, f"{where}: {command}\n{done.stdout}"


def _compare(expected: str, actual: str, learned: dict[str, str], where: str) -> None:
    pattern, at, fresh = "", 0, list[tuple[str, str]]()
    for found in _SHOWN.finditer(expected):
        kind, shown = str(found.lastgroup), found[0]
        pattern += re.escape(expected[at : found.start()])
        if shown in learned:
            pattern += re.escape(learned[shown])
        elif kind in ("uuid", "handle"):
            fresh.append((f"g{len(fresh)}", shown))
            pattern += f"(?P<{fresh[-1][0]}>{_MEANT[kind]})"
        elif kind == "any" and expected.split("\n")[expected.count("\n", 0, found.start())] == shown:
            pattern += r"(?:.|\n)*?"
        else:
            pattern += _MEANT[kind]
        at = found.end()
    pattern += re.escape(expected[at:])
    matched = re.fullmatch(pattern, _stripped(actual))
    assert matched, f"{where}\n--- the page says\n{expected}\n--- it is\n{actual}"
    learned.update({shown: matched[group] for group, shown in fresh})


def _stripped(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.rstrip("\n").split("\n"))


if __name__ == "__main__":
    sys.path.insert(0, os.getcwd())
    run(Path(sys.argv[1]))
