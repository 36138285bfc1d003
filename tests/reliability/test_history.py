"""P3: what several processes did to one store is what they could have done one after the other."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import clew
from tests.reliability.crew import play, rounds

SECONDS = float(os.environ.get("CLEW_HISTORY_SECONDS", "600"))
"""How long the long form takes."""


def test_a_short_history(path: Path, tmp_path: Path) -> None:
    """Appends, transactions, forks, rewinds, purges and changes of keys, with two kills: nothing is wrong with it."""
    clew.open(path).close()
    ops = play(str(path), tmp_path, seconds=3.0)
    kinds = [op.kind for op in ops if op.outcome == "ok"]
    assert "append" in kinds
    assert "read" in kinds


@pytest.mark.soak
def test_a_long_history(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same for ten minutes."""
    done = rounds(str(path), tmp_path, seconds=SECONDS)
    with capsys.disabled():
        print(f"\n{done}")
