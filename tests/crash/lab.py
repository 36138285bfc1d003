"""Runs the crash simulator on `target.py`."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from tests.crash.simulator.shim import build
from tests.reliability.tools import need

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TARGET = HERE / "target.py"


def shim() -> Path:
    """The recorder of the simulator; skips, or fails, without a compiler."""
    need("gcc")
    return build()


class Outcome(NamedTuple):
    """What the simulator found: its exit code, its report, what the target noted in its errors file."""

    code: int
    report: dict[str, Any]
    notes: list[dict[str, str]]
    said: str

    @property
    def failures(self) -> int:
        return int(self.report["failures"])

    @property
    def checks(self) -> int:
        return int(self.report["checks"])


def run(mode: str, *options: str, base: Path, durability: str = "full", timeout: float = 60.0) -> Outcome:
    """One run of the simulator in a folder of its own below `base`."""
    notes = base / f"errors-{os.urandom(4).hex()}.jsonl"
    target = shlex.quote(str(TARGET))
    settings = f"--durability {durability} --timeout {timeout:g} --errors {shlex.quote(str(notes))}"
    append, read = f"{{python}} {target} append {{dir}} {settings}", f"{{python}} {target} read {{dir}}"
    return drive(mode, append, read, *options, base=base, notes=notes)


def drive(mode: str, append: str, read: str, *options: str, base: Path, notes: Path) -> Outcome:
    """One run of the simulator with these two verbs; what the target noted is in `notes`."""
    shim()
    command = [sys.executable, "-m", "tests.crash.simulator", mode, "--append", append, "--read", read]
    env = {**os.environ, "TMPDIR": str(base)}
    done = subprocess.run([*command, *options], capture_output=True, text=True, env=env, cwd=ROOT)
    said = done.stdout + done.stderr
    found = re.search(r"^\{.*^\}", done.stdout, re.DOTALL | re.MULTILINE)
    assert found, f"the simulator said nothing: {said}"
    lines = notes.read_text().splitlines() if notes.exists() else []
    return Outcome(done.returncode, json.loads(found[0]), [json.loads(line) for line in lines], said)


def assert_kept(outcome: Outcome, *, checks: int) -> None:
    """Every promise was kept, in at least so many checks."""
    assert outcome.code == 0, outcome.said
    assert outcome.failures == 0, outcome.said
    assert outcome.checks >= checks, outcome.said
    assert outcome.report["acked"] > 0, outcome.said


def assert_told(outcome: Outcome) -> None:
    """Every failure that reached a caller was one of clew's own, and said what to do."""
    for note in outcome.notes:
        assert not note["type"].startswith("RAW"), note["text"]
        assert note["hint"], f"no hint: {note}"
