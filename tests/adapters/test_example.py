"""examples/adapter.py, an adapter with public names alone, loses nothing."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from clew.testing.adapters import check

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_it_passes_the_checks_of_adapters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Order, repeats, kills, lost answers, two processes, cancelled tasks, the clock and deletion."""
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES))
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])
    outcomes = check("adapter:Driver", tmp_path)
    assert len(outcomes) == 9
    assert [(one.name, one.why) for one in outcomes if not one.passed] == []


def test_it_uses_public_names_alone() -> None:
    """It imports clew, and no module of it; and it stays short enough to be read at once."""
    text = (EXAMPLES / "adapter.py").read_text(encoding="utf-8")
    assert re.findall(r"^(?:import|from) (clew\S*)", text, re.MULTILINE) == ["clew"]
    assert not re.search(r"\w\._[a-z]", text.replace("self._", "self."))
    assert len(text.splitlines()) <= 120
