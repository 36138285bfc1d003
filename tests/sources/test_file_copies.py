"""Copies of working files that Claude Code keeps, imported as checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import clew
from clew.checkpoints.checkpoints import Checkpoints
from clew.sources.claude_code import ClaudeCode
from clew.sources.importer import import_item
from clew.sources.items import items
from tests.sources.made import SESSION, an_id, claude_line, jsonl

Kept = dict[str, str | None]
"""Contents by path; None for a file that did not exist."""


class Home:
    """A home with a project, and Claude Code's folder."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "app"
        self.copies = folder / ".claude" / "file-history" / SESSION
        self.log = folder / ".claude" / "projects" / "p" / f"{SESSION}.jsonl"
        for one in (self.project, self.copies, self.log.parent):
            one.mkdir(parents=True)
        self._names: dict[tuple[str, str], str] = {}

    def line(self, number: int, kept: Kept, *, absolute: bool = False) -> dict[str, Any]:
        """The record that names the copies made before a message; the copies are written."""
        named: dict[str, Any] = {}
        for path, content in kept.items():
            name = None
            if content is not None:
                name = self._names.setdefault((path, content), f"{len(self._names):016x}@v1")
                (self.copies / name).write_text(content)
                (self.copies / name).chmod(0o644)
            key = str(self.project / path) if absolute else path
            named[key] = {"backupFileName": name, "version": 1, "backupTime": "2026-11-01T10:00:00.000Z"}
        snapshot = {
            "messageId": an_id(number), "trackedFileBackups": named, "timestamp": f"2026-11-01T10:00:{number:02}.000Z"
        }  # fmt: skip
        return {"type": "file-history-snapshot", "messageId": an_id(number), "snapshot": snapshot}

    def prompt(self, number: int) -> dict[str, Any]:
        return claude_line(number, number - 1 if number > 1 else None, "user", "Go", cwd=str(self.project))

    def bring(self, store: clew.Store, lines: list[dict[str, Any]]) -> Any:
        self.log.write_bytes(jsonl(lines))
        (item,) = items(str(self.log))
        return import_item(store, ClaudeCode(), item)

    def checkpoints(self, store: clew.Store) -> Checkpoints:
        return Checkpoints(store.sessions.get(SESSION), self.project)


@pytest.fixture(params=[None, b"k" * 32], ids=["plain", "sealed"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    with clew.open(tmp_path / "s.db", key=request.param) as store:
        yield store


@pytest.mark.parametrize("absolute", [False, True])
def test_a_rewind_restores_imported_copies(store: clew.Store, tmp_path: Path, absolute: bool) -> None:
    """A rewind to an imported message restores its files, and removes one that did not exist, even if the tool's
    copies are gone."""
    home = Home(tmp_path / "home")
    lines = [home.prompt(1), home.line(1, {"a.py": "one", "new.py": None}, absolute=absolute)]
    done = home.bring(store, lines)
    assert done.notes == ()
    for copy in home.copies.iterdir():
        copy.unlink()
    (home.project / "a.py").write_text("two")
    (home.project / "new.py").write_text("made by the answer")
    assert home.checkpoints(store).rewind(an_id(1), force=True).can_rewind
    assert (home.project / "a.py").read_text() == "one"
    assert not (home.project / "new.py").exists()


def test_a_log_that_grows_adds_checkpoints(store: clew.Store, tmp_path: Path) -> None:
    """Copies of later messages, and those added to the last one, come with the next import; nothing is stored twice."""
    home = Home(tmp_path / "home")
    lines = [home.prompt(1), home.line(1, {"a.py": "one"})]
    home.bring(store, lines)
    lines += [home.line(1, {"a.py": "changed", "b.py": "bee"}), home.prompt(2), home.line(2, {"a.py": "two"})]
    for _ in range(2):
        home.bring(store, lines)
        found = home.checkpoints(store).list()
        assert [(one.message, sorted(one.states)) for one in found] == [
            (an_id(1), ["a.py", "b.py"]),
            (an_id(2), ["a.py"]),
        ]
        assert home.checkpoints(store).content(found[0].states["a.py"]) == b"one"


def test_what_cannot_be_stored_is_noted(store: clew.Store, tmp_path: Path) -> None:
    """A missing copy, a path outside the project and a hostile name give notes; the other files are stored."""
    home = Home(tmp_path / "home")
    line = home.line(1, {"a.py": "one", "b.py": "bee", "../out.py": "x", ".git/hooks/post-commit": "x"})
    gone = line["snapshot"]["trackedFileBackups"]["b.py"]["backupFileName"]
    (home.copies / gone).unlink()
    line["snapshot"]["trackedFileBackups"]["c.py"] = {"backupFileName": "../../../secret@v1"}
    (home.copies / "link@v1").symlink_to(tmp_path / "s.db")
    line["snapshot"]["trackedFileBackups"]["d.py"] = {"backupFileName": "link@v1"}
    done = home.bring(store, [home.prompt(1), line])
    (found,) = home.checkpoints(store).list()
    assert {path: state.kind for path, state in found.states.items()} == {
        "a.py": "file", "b.py": "unseen", "d.py": "unseen",
    }  # fmt: skip
    assert len(done.notes) == 4
    assert done.skipped == ()


def test_a_copy_that_is_gone_is_noted_once(store: clew.Store, tmp_path: Path) -> None:
    """Every later snapshot names the copy, too: there is one note."""
    home = Home(tmp_path / "home")
    first = home.line(1, {"a.py": "one"})
    (home.copies / first["snapshot"]["trackedFileBackups"]["a.py"]["backupFileName"]).unlink()
    second = {**first, "messageId": an_id(2), "snapshot": {**first["snapshot"], "messageId": an_id(2)}}
    done = home.bring(store, [home.prompt(1), first, home.prompt(2), second])
    assert len(done.notes) == 1


def test_checkpoints_of_the_hook_stay(store: clew.Store, tmp_path: Path) -> None:
    """A checkpoint that clew took itself keeps its files; older copies are not put between."""
    home = Home(tmp_path / "home")
    home.bring(store, [home.prompt(1), home.prompt(2)])
    (home.project / "a.py").write_text("mine")
    home.checkpoints(store).capture(an_id(2), ["a.py"])
    lines = [
        home.prompt(1),
        home.line(1, {"a.py": "old"}),
        home.prompt(2),
        home.line(2, {"a.py": "theirs", "b.py": "b"}),
    ]
    home.bring(store, lines)
    (found,) = home.checkpoints(store).list()
    assert found.message == an_id(2)
    assert home.checkpoints(store).content(found.states["a.py"]) == b"mine"
    assert sorted(found.states) == ["a.py", "b.py"]


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    states=st.lists(
        st.dictionaries(st.sampled_from(["a", "b", "d/c"]), st.sampled_from([None, "", "x", "y" * 9000])), min_size=1
    ),
    cut=st.integers(0, 9),
)
def test_any_history_of_copies(tmp_path_factory: pytest.TempPathFactory, states: list[Kept], cut: int) -> None:
    """Imported at once or in two parts, each message has the copies that the log names for it."""
    home = Home(tmp_path_factory.mktemp("home"))
    parts = [[home.prompt(number), home.line(number, kept)] for number, kept in enumerate(states, 1)]
    lines = [line for part in parts for line in part]
    with clew.open(home.project.parent / "s.db") as store:
        if cut:
            home.bring(store, lines[: 2 * cut])
        home.bring(store, lines)
        checkpoints = home.checkpoints(store)
        found = {
            one.message: {
                path: None if state.kind == "missing" else checkpoints.content(state).decode()
                for path, state in one.states.items()
            }
            for one in checkpoints.list()
        }
    assert found == {an_id(number): kept for number, kept in enumerate(states, 1) if kept}


def test_imported_checkpoints_overwrite_nothing_unasked(tmp_path: Path) -> None:
    """A rewind to an imported checkpoint overwrites a file only with force, and says that it was imported."""
    home = Home(tmp_path)
    (home.project / "a.txt").write_text("mine")
    with clew.open(tmp_path / "s.db") as store:
        home.bring(store, [home.prompt(1), home.line(1, {"a.txt": "theirs", "b.txt": "new"})])
        refused = home.checkpoints(store).rewind(an_id(1))
        assert (refused.can_rewind, refused.imported, refused.conflicts) == (False, True, ("a.txt",))
        assert str(home.project) in (refused.error or "")
        assert ((home.project / "a.txt").read_text(), (home.project / "b.txt").exists()) == ("mine", False)
        assert home.checkpoints(store).rewind(an_id(1), force=True).can_rewind
        assert (home.project / "a.txt").read_text() == "theirs"
        assert home.checkpoints(store).undo().can_rewind
        assert (home.project / "a.txt").read_text() == "mine"


@pytest.mark.parametrize("where", ["app", ".", "link"])
def test_imported_checkpoints_of_the_home_folder(tmp_path: Path, where: str) -> None:
    """A file that names the home folder, one above it or a link to it as its directory: nothing is written there."""
    home = Home(tmp_path)
    (tmp_path / "link").symlink_to(home.project)
    root = tmp_path / where
    line = claude_line(1, None, "user", "Go", cwd=str(root))
    with clew.open(tmp_path / "s.db") as store:
        home.bring(store, [line, home.line(1, {".bashrc": "evil"})])
        refused = Checkpoints(store.sessions.get(SESSION), root, home=str(home.project)).rewind(an_id(1), force=True)
        assert (refused.can_rewind, "home folder" in (refused.error or "")) == (False, True)
        assert not (root / ".bashrc").exists()


@pytest.mark.parametrize("where", [".ssh", ".config/autostart", "link"])
def test_imported_checkpoints_of_a_hidden_folder(tmp_path: Path, where: str) -> None:
    """A file that names a folder of settings in the home folder as its directory: new files need force, too."""
    home = Home(tmp_path)
    root = home.project / where
    (home.project / ".real").mkdir()
    root.symlink_to(home.project / ".real") if where == "link" else root.mkdir(parents=True)
    line = claude_line(1, None, "user", "Go", cwd=str(root))
    with clew.open(tmp_path / "s.db") as store:
        home.bring(store, [line, home.line(1, {"authorized_keys": "evil"})])
        checkpoints = Checkpoints(store.sessions.get(SESSION), root, home=str(home.project))
        refused = checkpoints.rewind(an_id(1))
        assert (refused.can_rewind, "hidden folder" in (refused.error or "")) == (False, True)
        assert not (root / "authorized_keys").exists()
        assert checkpoints.rewind(an_id(1), force=True).can_rewind
        assert (root / "authorized_keys").read_text() == "evil"
