"""What the command line shows of a conversation that a framework has written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def expect_weather(store: Path) -> None:
    """`ls` lists the one conversation, `search` finds the tool's answer, `show` has roles, call, result and answer."""
    pytest.importorskip("click", reason="the command line is not installed")
    assert len(_run(store, "ls").splitlines()) == 1
    assert "sunny" in _run(store, "search", "sunny")
    shown = _run(store, "show", "@last")
    wanted = ["Weather?", "weather", "Turin", "sunny", "It is sunny."]
    assert [word for word in wanted if word not in shown] == []
    assert [role for role in ("user", "assistant", "tool") if role not in shown] == []


def _run(store: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "clew", *arguments, "--db", str(store)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "HOME": str(store.parent), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
