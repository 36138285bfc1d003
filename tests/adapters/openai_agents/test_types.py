"""A program that passes a `ClewSession` to the runner, for mypy and pyright."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("agents.memory", reason="openai-agents is not installed")

ROOT = Path(__file__).parents[3]
PROGRAM = """
from agents import Agent, Runner
from agents.memory import OpenAIResponsesCompactionSession, Session
from clew.adapters.openai_agents import ClewSession


async def main() -> None:
    session: Session = ClewSession("u", "chats.db", session_settings={"limit": 3})
    await Runner.run(Agent("a"), "Hi", session=ClewSession("u"))
    fork: ClewSession = await ClewSession("u").fork("v", at=2)
    OpenAIResponsesCompactionSession("u", session)
    fork.close()
"""
BASIC = '{"typeCheckingMode": "standard", "reportMissingModuleSource": false}'


@pytest.mark.parametrize(
    "command", [["mypy", "--strict", "--no-incremental", "--follow-imports=silent"], ["basedpyright", "--project", "."]]
)
def test_types(tmp_path, command):
    """The type checkers find nothing, and take `ClewSession` as a `Session`."""
    pytest.importorskip(command[0])
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "pyrightconfig.json").write_text(BASIC)
    done = subprocess.run(
        [sys.executable, "-m", *command, *(["program.py"] if command[0] == "mypy" else [])],
        cwd=tmp_path,
        env={"PATH": str(Path(sys.executable).parent), "HOME": str(tmp_path), "MYPYPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
