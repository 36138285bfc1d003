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


def test_ls_mentions_the_file_here(clew_cli: Run, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`ls` says that there is one, and how to import or read it, until all of it is imported."""
    monkeypatch.chdir(file.parent)
    clew_cli("append", input='{"text": "x"}')
    said = clew_cli("ls").err
    assert ".cpeconvo here has 3 conversations of CPE that are not in clew" in said
    assert "clew import .cpeconvo" in said and "clew --db .cpeconvo ls" in said
    assert "cpeconvo" not in clew_cli("--db", ".cpeconvo", "ls").err
    assert clew_cli("ls", "--json").err == ""
    clew_cli("import", ".cpeconvo")
    listed = clew_cli("ls")
    assert "cpeconvo" not in listed.err
    assert "  cpe  " in listed.out


def test_its_ids_name_imported_messages(clew_cli: Run, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An id of CPE names the message, or for commands that take a conversation, the one that has it."""
    monkeypatch.chdir(file.parent)
    clew_cli("append", input='{"text": "x"}')
    known = clew_cli("show", "jkl012")
    assert (known.code, "clew import .cpeconvo" in known.err, "clew --db .cpeconvo show jkl012" in known.err) == (
        3, True, True,
    )  # fmt: skip
    clew_cli("import", ".cpeconvo")
    assert "Sure, what's your question?" in clew_cli("show", "jkl012").out
    renamed = clew_cli("rename", "jkl012", "Go and Python", "--json")
    assert renamed.code == 0
    assert clew_cli("show", "abc123", "--json").json
    assert "Go and Python" in clew_cli("ls").out
    assert clew_cli("redact", "--apply", "jkl012", "--yes").code == 0
    assert clew_cli("show", "zzz999").code == 3


def test_exporting_a_file(clew_cli: Run, file: Path, tmp_path: Path) -> None:
    """`export --as cpeconvo` writes a file that reads as before; it never replaces one."""
    clew_cli("import", str(file))
    out = tmp_path / "new"
    assert clew_cli("export", "--as", "cpeconvo", "-o", str(out)).code == 0
    assert "Sure, what's your question?" in clew_cli("--db", str(out), "show", "jkl012").out
    again = clew_cli("export", "--as", "cpeconvo", "-o", str(out))
    assert (again.code, "exists" in again.err) == (1, True)
    one = tmp_path / "one"
    assert clew_cli("export", "Kinds1", "--as", "cpeconvo", "-o", str(one), "--json").json["conversations"] == 1
    assert "Look" in clew_cli("--db", str(one), "tree").out
