"""`clew --db .cpeconvo …` and `clew import .cpeconvo`."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.agents.cpe.files import sample
from tests.cli.conftest import Run


@pytest.fixture
def file(tmp_path: Path) -> Path:
    sample(tmp_path / ".cpeconvo").close()
    return tmp_path / ".cpeconvo"


def test_in_place(clew_cli: Run, file: Path, tmp_path: Path) -> None:
    """Commands that read show it, by the ids it has too; those that write say what to do. The file stays as it is."""
    before = hashlib.sha256(file.read_bytes()).hexdigest()
    db = ["--db", str(file)]
    assert "Pictures" in clew_cli(*db, "ls").out
    tree = clew_cli(*db, "tree").out
    assert tree.count("[USER]") == 5
    assert "No problem! What about Python" in clew_cli("show", "pqr678", *db).out
    assert "Sure" not in clew_cli("show", "pqr678", *db).out
    assert [hit["node"]["text"] for hit in clew_cli("search", "python", *db, "--json").json][:1]
    for args in (["append"], ["fork", "abc123"], ["rm", "abc123"], ["verify"]):
        done = clew_cli(*args, *db, input='{"text": "x"}')
        assert (done.code, "'clew import'" in done.err) == (1, True)
    assert hashlib.sha256(file.read_bytes()).hexdigest() == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".cpe")] == [".cpeconvo"]


def test_importing_a_file(clew_cli: Run, file: Path, tmp_path: Path) -> None:
    """Its conversations are told, as text and as JSON; a look makes no store; a second time adds nothing."""
    would = clew_cli("import", str(file), "--dry-run")
    assert (would.code, "3 conversations would be imported, 0 items skipped" in would.out) == (0, True)
    assert not (tmp_path / "chats.db").exists()
    done = clew_cli("import", str(file), "--json").json
    assert [one["messages"] for one in done["sessions"]] == [6, 2, 3]
    again = clew_cli("import", str(file))
    assert "0 messages  6 already stored" in again.out
    assert "Pictures" in clew_cli("ls", "--cwd", str(tmp_path)).out
    assert clew_cli("verify").code == 0


def test_what_was_skipped_is_told(clew_cli: Run, tmp_path: Path) -> None:
    """The exit code says so too, in place as well as at an import."""
    made = sample(tmp_path / "odd")
    made.say("odd\x1b[2J", None, "narrator", "x")
    made.close()
    done = clew_cli("import", str(made.path))
    assert (done.code, "\x1b" in done.err) == (8, False)
    assert "skipped message odd" in done.err and "unknown role" in done.err
    assert [one["skipped"]["why"] for one in clew_cli("import", str(made.path), "--jsonl").lines if "skipped" in one]
    shown = clew_cli("--db", str(made.path), "ls")
    assert shown.code == 0
    assert "clew: skipped message odd" in shown.err and shown.err.endswith(": unknown role\n")
