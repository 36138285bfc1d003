"""P1: an acknowledged append survives `kill -9`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash import lab


def test_an_acknowledged_append_survives_kill(tmp_path: Path) -> None:
    """A lone writer is killed at random moments, and nothing it acknowledged is lost."""
    outcome = lab.run("kill", "--rounds", "12", "--messages", "30", base=tmp_path)
    lab.assert_kept(outcome, checks=12)
    assert outcome.notes == []


def test_four_writers_survive_kill(tmp_path: Path) -> None:
    """Four writers on one session are killed together, and nothing any of them acknowledged is lost."""
    outcome = lab.run("kill", "--rounds", "8", "--writers", "4", "--messages", "12", base=tmp_path)
    lab.assert_kept(outcome, checks=8)
    assert outcome.notes == []


@pytest.mark.soak
@pytest.mark.parametrize("writers", [1, 4])
def test_two_hundred_kills(tmp_path: Path, writers: int) -> None:
    """Two hundred rounds of kills on one growing store lose nothing."""
    outcome = lab.run("kill", "--rounds", "200", "--writers", str(writers), "--messages", "30", base=tmp_path)
    lab.assert_kept(outcome, checks=200)
    assert outcome.notes == []
