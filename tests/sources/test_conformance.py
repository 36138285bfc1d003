"""The checks of sources, by clew's own and by examples/source.py."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.sources import Entry, Item, Part, Skip
from clew.sources.registry import source_named
from clew.testing.sources import check
from tests.sources.samples import APPS, SAMPLES, Sample

EXAMPLES = Path(__file__).parents[2] / "examples"
CHANGES = "vscode-log"
"""A sample whose log changes an answer until it is complete: each version that was imported stays."""
FILES = list({one.source: one for one in (*APPS, *SAMPLES) if one.files and one.name != CHANGES}.values())
"""A sample of each source that reads files."""
SUBAGENTS = ("copilot-cli", "gemini-cli")
"""Sources whose files have the lines of subagents among those of the conversation."""


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


@pytest.mark.parametrize("sample", FILES, ids=lambda sample: sample.name)
def test_sources_of_clew_pass(sample: Sample, tmp_path: Path) -> None:
    """Each source of files, with the largest file of a sample."""
    sample.write(tmp_path / "sample")
    name = max(sample.files, key=lambda name: len(sample.files[name]))
    reader = type(source_named(sample.source))()
    whole = name.endswith(".jsonl") and sample.source not in SUBAGENTS
    outcomes = check(reader, tmp_path / "sample" / name, tmp_path / "checks", whole=whole)
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
