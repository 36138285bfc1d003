"""P3 on a server: what several processes did to one store is what they could have done one after the other."""

from __future__ import annotations

from pathlib import Path

import pytest

import clew
from tests.backends.postgres.server import Server
from tests.reliability.crew import play, rounds
from tests.reliability.test_history import SECONDS


def test_a_short_history(server: Server, tmp_path: Path) -> None:
    """Appends, transactions, forks, rewinds, purges and changes of keys, with two kills: nothing is wrong with it."""
    url = server.url()
    clew.open(url).close()
    ops = play(url, tmp_path, seconds=3.0)
    kinds = [op.kind for op in ops if op.outcome == "ok"]
    assert "append" in kinds
    assert "read" in kinds


@pytest.mark.soak
def test_a_long_history(server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same for ten minutes."""
    done = rounds(server.url(), tmp_path, seconds=SECONDS)
    with capsys.disabled():
        print(f"\n{done}")
