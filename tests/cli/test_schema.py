"""P6: whatever the command, a store whose schema was changed is refused before anything planted there can run."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.test_wrong_key import KEY, LEAVES, STORELESS, Crashed, arguments, crashed, stdin, work
from tests.reliability.test_schema import PLANTED

__all__ = ["crashed", "work"]


@pytest.mark.parametrize("name", [name for name in LEAVES if name not in STORELESS - {"copy"}])
def test_a_planted_view_is_an_error_at_once(
    name: str, clew_cli: Run, crashed: Crashed, tmp_path: Path, work: Path
) -> None:
    """Every command that opens the store ends with 7 within a second, and writes nothing."""
    path = crashed.copy(tmp_path / "store")
    with closing(sqlite3.connect(path)) as conn:
        conn.executescript(PLANTED["view"])
    before = path.read_bytes()
    args = arguments(name, LEAVES[name], crashed, work)
    if name == "copy":
        args[1] = str(path)
    began = time.process_time()
    done = clew_cli(*args, input=stdin(name), env={"CLEW_DB": str(path), "CLEW_KEY": KEY.hex()})
    assert time.process_time() - began < 2
    told = done.out if name == "doctor" else done.err
    assert (done.code, "in its schema" in told) == (7, True), (done.out, done.err)
    assert path.read_bytes() == before
