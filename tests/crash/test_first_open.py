"""A first open that is cut off anywhere leaves a path that opens the next time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import clew
from tests.crash import lab

OPEN_AND_DIE = """
import os, sys, clew
try:
    clew.open(sys.argv[1])
except clew.ClewError:
    pass
os._exit(9)
"""


def test_a_first_open_that_is_cut_off(tmp_path: Path) -> None:
    """Whichever write is the last before the process dies, the store can be opened and used afterwards."""
    preload = str(lab.shim())
    for nth in range(1, 31, 2):
        folder = tmp_path / str(nth)
        folder.mkdir()
        env = {**os.environ, "LD_PRELOAD": preload, "PC_ROOT": str(folder), "PC_FAULT": f"write,EIO,{nth},sticky"}
        env["PC_LOG"] = str(tmp_path / "log")
        done = subprocess.run([sys.executable, "-c", OPEN_AND_DIE, str(folder / "s.db")], env=env)
        assert done.returncode == 9
        with clew.open(folder / "s.db") as store:
            store.sessions.create().append(clew.user("hello"))
            assert store.verify().ok


def test_a_failed_open_leaves_no_descriptor(tmp_path: Path) -> None:
    """A path that is not a store can be tried any number of times."""
    path = tmp_path / "notes.txt"
    path.write_text("not a database, and longer than a header of SQLite would be " * 20)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for _ in range(20):
        try:
            clew.open(path)
        except clew.NotAStore:
            continue
        raise AssertionError
    if before:
        assert len(os.listdir("/proc/self/fd")) <= before + 1
