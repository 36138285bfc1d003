"""Programs that look at clew from outside."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

import clew

ROOT = Path(__file__).parents[2]
DEAR = "facts = CAST(substr(facts, 1, 41) || x'01' || substr(facts, 43) AS BLOB)"
"""SQL that makes a node's row say that its path has cost more than it has."""
AS_IT_WAS = DEAR.replace("01", "00")


def missing(why: str) -> NoReturn:
    """Skips the test, for a reason of one line; fails it if CLEW_REQUIRE_TOOLS says that every tool must be there."""
    if os.environ.get("CLEW_REQUIRE_TOOLS"):
        pytest.fail(why)
    pytest.skip(why)


def need(tool: str) -> str:
    """Where a tool is; without it the test is skipped."""
    found = shutil.which(tool)
    if found is None:
        missing(f"{tool} is not installed")
    return found


def need_strace() -> str:
    """strace, where it is there and may trace."""
    strace = need("strace")
    if subprocess.run([strace, "-f", "true"], capture_output=True, check=False).returncode:
        missing("strace may not trace here")
    return strace


def python(code: str, *args: str | Path, wrap: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    """A Python process that runs `code` with clew and these tests at hand."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(clew.__file__).parents[1]), str(ROOT)])}
    command = [*wrap, sys.executable, "-c", code, *map(str, args)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
    )


def output(process: subprocess.Popen[str]) -> str:
    """What a process printed, once it has ended well."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out
