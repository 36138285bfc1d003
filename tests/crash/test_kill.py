"""P1: an acknowledged append survives `kill -9`."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import clew
from tests.crash import lab


def test_an_acknowledged_append_survives_kill(tmp_path: Path) -> None:
    """A lone writer is killed at random moments, and nothing it acknowledged is lost."""
    outcome = lab.run("kill", "--rounds", "3", "--messages", "30", base=tmp_path)
    lab.assert_kept(outcome, checks=3)
    assert outcome.notes == []


APPEND_AND_DIE = """
import os, signal, sys, clew
store = clew.open(sys.argv[1])
session = store.sessions.get(sys.argv[2])
session.append(clew.user(sys.argv[3]))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_killed_at_the_moment_of_the_answer(tmp_path: Path) -> None:
    """A process that dies in the instant in which its append returns leaves the message behind."""
    path = tmp_path / "s.db"
    with clew.open(path) as store:
        session = store.sessions.create()
    for number in range(3):
        done = subprocess.run([sys.executable, "-c", APPEND_AND_DIE, str(path), session.id, str(number)])
        assert done.returncode == -signal.SIGKILL
    with clew.open(path) as store:
        assert [node.text for node in store.sessions.get(session.id).path()] == list("012")


def test_four_writers_survive_kill(tmp_path: Path) -> None:
    """Four writers on one session are killed together, and nothing any of them acknowledged is lost."""
    outcome = lab.run("kill", "--rounds", "4", "--writers", "4", "--messages", "12", base=tmp_path)
    lab.assert_kept(outcome, checks=4)
    assert outcome.notes == []


@pytest.mark.soak
@pytest.mark.parametrize("writers", [1, 4])
def test_two_hundred_kills(tmp_path: Path, writers: int) -> None:
    """Two hundred rounds of kills on one growing store lose nothing."""
    outcome = lab.run("kill", "--rounds", "200", "--writers", str(writers), "--messages", "30", base=tmp_path)
    lab.assert_kept(outcome, checks=200)
    assert outcome.notes == []
