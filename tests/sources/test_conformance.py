"""The checks of sources, by clew's own and by examples/source.py."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.sources import Entry, Item, Part, Skip
from clew.sources.claude_code import ClaudeCode
from clew.testing.sources import check
from tests.sources.made import SESSION, claude_line, jsonl

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module examples/source.py."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.delitem(sys.modules, "source", raising=False)
    import source

    yield source
    sys.modules.pop("source", None)


def test_the_example_passes(example: Any, tmp_path: Path) -> None:
    """A source with public names alone loses, repeats and changes nothing."""
    example.write_sample(tmp_path / "trip.jsonl")
    outcomes = check(example.Notes(), tmp_path / "trip.jsonl", tmp_path / "checks")
    assert len(outcomes) == 8
    assert [(one.name, one.why) for one in outcomes if not one.passed] == []


def test_the_example_uses_public_names_alone() -> None:
    """It imports what the guide names, and stays short enough to be read at once."""
    text = (EXAMPLES / "source.py").read_text(encoding="utf-8")
    assert re.findall(r"^(?:import|from) (clew\S*)", text, re.MULTILINE) == ["clew", "clew.sources"]
    assert len(text.splitlines()) <= 120


def test_a_source_of_clew_passes(tmp_path: Path) -> None:
    """Claude Code's, with a log in which every line hangs on the one before it."""
    lines = [claude_line(n + 1, n or None, "user" if n % 2 == 0 else "assistant", f"Text {n}") for n in range(6)]
    sample = tmp_path / f"{SESSION}.jsonl"
    sample.write_bytes(jsonl(lines))
    outcomes = check(ClaudeCode(), sample, tmp_path / "checks")
    assert [(one.name, one.why) for one in outcomes if not one.passed] == []


def test_faults_are_found(example: Any, tmp_path: Path) -> None:
    """New ids at each reading, lost lines, an exception, and a source that takes every file."""
    example.write_sample(tmp_path / "trip.jsonl")

    class Faulty(example.Notes):  # type: ignore[misc]
        count = 0

        def recognise(self, path: str, head: bytes) -> bool:
            return True

        def read(self, item: Item) -> Iterator[Part]:
            self.count += 1
            for part in super().read(item):
                if isinstance(part, Skip):
                    raise KeyError("text")
                if not isinstance(part, Entry):
                    yield part
                elif part.message is not None:
                    id = f"{self.count:08x}-0000-4000-8000-{int(part.id[:8], 16):012x}"  # type: ignore[index]
                    yield Entry(conversation=part.conversation, raw=part.raw, key=id, id=id, message=part.message)

    failed = {one.name for one in check(Faulty(), tmp_path / "trip.jsonl", tmp_path / "checks") if not one.passed}
    assert failed >= {"recognised", "repeatable", "once", "bytes", "damaged"}
