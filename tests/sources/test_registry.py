"""Sources of other packages."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import clew
from clew.sources import registry

MODULE = """
from clew.base.messages import Message, Text
from clew.sources import Entry, ShowRules, derived_id, tag

class Notes:
    name, title, deletes_after = "notes", "Notes", None
    rules = ShowRules(notes=(tag("reminder", "reminder"),))
    def discover(self, home): return ()
    def resume(self, conversation): return None
    def recognise(self, path, head): return head.startswith(b"NOTES")
    def read(self, item):
        with item.open() as file:
            raw = file.read()
        id = derived_id("notes", item.path)
        yield Entry(conversation=id, raw=raw, key="1", id=id, message=Message("user", (Text(text=raw.decode()),)))
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Puts a package with a source on the path."""

    def put(target: str) -> None:
        (tmp_path / "site" / "notes-1.0.dist-info").mkdir(parents=True)
        (tmp_path / "site" / "notes_source.py").write_text(MODULE)
        (tmp_path / "site" / "notes-1.0.dist-info" / "METADATA").write_text("Name: notes\nVersion: 1.0\n")
        (tmp_path / "site" / "notes-1.0.dist-info" / "entry_points.txt").write_text(
            f"[clew.sources]\nnotes = {target}\n"
        )
        monkeypatch.syspath_prepend(str(tmp_path / "site"))
        registry.other_sources.cache_clear()

    yield put
    registry.other_sources.cache_clear()
    sys.modules.pop("notes_source", None)


def test_a_package_adds_a_source(install: Callable[[str], None], tmp_path: Path) -> None:
    """A class that another package names in its entry points reads files as clew's own sources do."""
    from clew import sources

    install("notes_source:Notes")
    (tmp_path / "a.notes").write_text("NOTES of mine")
    with clew.open(tmp_path / "s.db") as store:
        (outcome,) = sources.import_all(store, sources.find([str(tmp_path / "a.notes")]))
        assert (outcome.source, outcome.state, outcome.messages) == ("notes", "imported", 1)
        assert [hit.node.text for hit in store.search("mine")] == ["NOTES of mine"]


def test_rules_of_another_package(install: Callable[[str], None], tmp_path: Path) -> None:
    """They say what its program wrote in a prompt: it is not in the title, and is shown as a note."""
    from clew import sources
    from clew.sources.registry import rules_for
    from clew.turns.derive import split_prompt
    from clew.turns.model import entry

    install("notes_source:Notes")
    (tmp_path / "a.notes").write_text("NOTES of mine\n<reminder>Be brief.</reminder>")
    with clew.open(tmp_path / "s.db") as store:
        (outcome,) = sources.import_all(store, sources.find([str(tmp_path / "a.notes")]))
        assert outcome.state == "imported"
        session = store.sessions.latest()
        found = split_prompt(entry(session.path()[0]), rules_for(session))
        assert session.title == "NOTES of mine"
        assert [note.text for note in found.notes] == ["Be brief."]


def test_a_source_that_cannot_be_loaded_is_left_out(install: Callable[[str], None]) -> None:
    """A broken package does not keep clew's own sources from being used; a warning names it."""
    install("notes_source:Missing")
    with pytest.warns(RuntimeWarning, match="the source notes .* cannot be loaded"):
        names = [source.name for source in registry.sources()]
    assert "claude-code" in names and "notes" not in names
