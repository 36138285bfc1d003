"""P2: an acknowledged append survives a power cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash import lab

METAS = ["journaled", "strict"]
SURVIVE = 3
"""Images that are checked for each moment: nothing, the beginning, or any part of what was not synced survives."""


def options(meta: str, *, rounds: int, points: int, messages: int) -> list[str]:
    """The options of so many rounds, each of which is cut off at so many moments."""
    numbers = {"--rounds": rounds, "--points": points, "--messages": messages}
    return ["--meta", meta, *(word for name, number in numbers.items() for word in (name, str(number)))]


@pytest.mark.parametrize("rounds", [1, 2])
@pytest.mark.parametrize("meta", METAS)
def test_an_acknowledged_append_survives_a_power_cut(tmp_path: Path, meta: str, rounds: int) -> None:
    """Every directory that a power cut could have left behind has all that was acknowledged."""
    asked = options(meta, rounds=rounds, points=3, messages=12)
    lab.assert_kept(lab.run("power", *asked, base=tmp_path), checks=rounds * 3 * SURVIVE)


def test_relaxed_durability_is_seen_to_lose(tmp_path: Path) -> None:
    """The same test sees what `durability="relaxed"` gives up, so it would see it if full did."""
    asked = options("journaled", rounds=1, points=6, messages=12)
    outcome = lab.run("power", *asked, "--survive", "none", base=tmp_path, durability="relaxed")
    assert outcome.code == 1, outcome.said
    assert outcome.report["kinds"].get("lost", 0) > 0, outcome.said


def test_relaxed_durability_still_survives_kill(tmp_path: Path) -> None:
    """Relaxed may lose the last seconds in a power cut, never in a crash of the program."""
    outcome = lab.run("kill", "--rounds", "3", "--messages", "30", base=tmp_path, durability="relaxed")
    lab.assert_kept(outcome, checks=3)


@pytest.mark.soak
@pytest.mark.parametrize("meta", METAS)
@pytest.mark.parametrize("writers", [1, 3])
def test_a_thousand_power_cuts(tmp_path: Path, meta: str, writers: int) -> None:
    """A thousand crash images, from one writer and from several, lose nothing that was acknowledged."""
    asked = options(meta, rounds=10, points=24, messages=40)
    outcome = lab.run("power", *asked, "--writers", str(writers), base=tmp_path)
    lab.assert_kept(outcome, checks=500)
