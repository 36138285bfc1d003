"""Ctrl-C in the middle of an import: whole conversations stay, and the same command imports the rest."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import clew
from clew.sources import find, import_all
from tests.sources.made import an_id, claude_line, jsonl
from tests.sources.test_every_format import contents
from tests.sources.test_native_export import conversation

INTERRUPTED = """
import os, signal, sys
from clew.cli import main
from clew.engine.engine import Engine
from clew.sources import importer
signal.signal(signal.SIGINT, signal.default_int_handler)
importer.MANY = 4
presses = [int(word) for word in os.environ["PRESS"].split(",")]
count, write = 0, Engine.write
def counted(self, *args):
    global count
    count += 1
    if count in presses:
        os.kill(os.getpid(), signal.SIGINT)
    return write(self, *args)
Engine.write = counted
sys.argv = ["clew", "--db", *sys.argv[1:]]
sys.exit(main())
"""
"""Runs clew, and presses Ctrl-C when it begins to store these batches."""
FILES = 3
LENGTH = 14


def histories(folder: Path) -> None:
    """Logs of Claude Code, and an export of ChatGPT with several conversations."""
    folder.mkdir()
    for number in range(1, FILES + 1):
        first = number * 100
        lines = [
            {
                **claude_line(first + n, first + n - 1 if n else None, "user", f"{number} {n}"),
                "sessionId": an_id(number),
            }
            for n in range(LENGTH)
        ]
        (folder / f"{an_id(number)}.jsonl").write_bytes(jsonl(lines))
    (folder / "conversations.json").write_text(json.dumps([conversation(n) for n in range(6)]))


def clew_import(db: Path, folder: Path, presses: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(db), "import", str(folder)],
        env={"PRESS": presses}, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


@pytest.mark.parametrize("batch", [2, 4, 7, 10])
def test_whole_conversations_stay(batch: int, tmp_path: Path) -> None:
    """After Ctrl-C at any batch the store is sound, and one conversation at most is unfinished."""
    histories(tmp_path / "in")
    db = tmp_path / "s.db"
    done = clew_import(db, tmp_path / "in", str(batch))
    assert done.returncode == 130, done.stderr
    assert "Whole conversations are stored" in done.stderr
    with clew.open(tmp_path / "whole.db") as whole:
        list(import_all(whole, find([str(tmp_path / "in")])))
        expected = contents(whole)
    with clew.open(db) as store:
        there = contents(store)
        assert store.verify().damage == []
    unfinished = [id for id, what in there.items() if what != expected[id]]
    assert len(unfinished) <= 1
    assert len(there) < len(expected) or unfinished
    again = clew_import(db, tmp_path / "in", "0")
    assert again.returncode == 0, again.stderr
    with clew.open(db) as store:
        assert contents(store) == expected
        assert [one.state for one in import_all(store, find([str(tmp_path / "in")]))] == ["unchanged"] * (FILES + 1)


def test_pressed_twice(tmp_path: Path) -> None:
    """The second Ctrl-C ends it at once; what was stored is sound, and the same command imports the rest."""
    histories(tmp_path / "in")
    db = tmp_path / "s.db"
    assert clew_import(db, tmp_path / "in", "3,4").returncode == 130
    assert clew_import(db, tmp_path / "in", "0").returncode == 0
    with clew.open(db) as store, clew.open(tmp_path / "whole.db") as whole:
        list(import_all(whole, find([str(tmp_path / "in")])))
        assert contents(store) == contents(whole)
        assert store.verify().damage == []
