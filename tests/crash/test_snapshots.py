"""An answer that was seen is in the snapshot, whatever a crash or a power cut leaves behind."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.crash import lab

KINDS = ["files", "sealed", "store"]
TARGET = Path(__file__).parent / "snapshots.py"


def run(mode: str, kind: str, *options: str, base: Path) -> lab.Outcome:
    target = f"{{python}} {shlex.quote(str(TARGET))}"
    append, read = (f"{target} {verb} {kind} {{dir}}" for verb in ("append", "read"))
    return lab.drive(mode, append, read, *options, base=base, notes=base / "none")


@pytest.mark.parametrize("kind", ["files", "sealed"])
def test_an_autosaved_answer_survives_a_power_cut(tmp_path: Path, kind: str) -> None:
    """Every directory that a power cut could have left behind has a whole snapshot with all that was answered."""
    options = ("--meta", "strict", "--rounds", "1", "--points", "3", "--messages", "5", "--size", "2000")
    lab.assert_kept(run("power", kind, *options, base=tmp_path), checks=8)


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("meta", ["journaled", "strict"])
def test_hundreds_of_power_cuts(tmp_path: Path, kind: str, meta: str) -> None:
    """The same, many times over."""
    options = ("--meta", meta, "--rounds", "5", "--points", "20", "--messages", "12")
    lab.assert_kept(run("power", kind, *options, base=tmp_path), checks=200)
