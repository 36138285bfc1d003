"""`clew import` with the histories of other programs."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

from tests.sources.made import SESSION, claude_line, jsonl
from tests.sources.test_exports import TREE


def test_logs_of_claude_code(clew_cli, tmp_path):
    """A folder of projects is imported, found again by search, and not read twice."""
    folder = tmp_path / "projects" / "p"
    folder.mkdir(parents=True)
    (folder / f"{SESSION}.jsonl").write_bytes(
        jsonl([claude_line(1, None, "user", "Why lint?"), claude_line(2, 1, "assistant", "An import is unused.")])
    )
    (folder / "empty.jsonl").touch()
    done = clew_cli("import", str(tmp_path / "projects"))
    assert (done.code, done.out) == (0, "2 new messages in 1 conversation imported\n")
    assert "An import is unused." in clew_cli("show", SESSION).out
    assert clew_cli("search", "unused").code == 0
    again = clew_cli("import", str(tmp_path / "projects"), "--json")
    assert [one["state"] for one in again.json["files"]] == ["unchanged"]


def test_an_archive_of_chatgpt(clew_cli, tmp_path):
    """A zip archive is read where it is; a dry run stores nothing."""
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("conversations.json", json.dumps([TREE]))
        archive.writestr("chat.html", "<html></html>")
    assert "would be imported" in clew_cli("import", str(path), "--dry-run").out
    assert clew_cli("ls").code != 0, "a dry run makes no store"
    assert clew_cli("import", str(path)).code == 0
    assert len(clew_cli("ls", "--json").json["sessions"]) == 1


def test_a_line_that_cannot_be_read(clew_cli, tmp_path):
    """It is named on stderr, the rest is imported, and the exit code is 8."""
    path = Path(tmp_path / f"{SESSION}.jsonl")
    path.write_bytes(jsonl([claude_line(1, None, "user", "Hello")]) + b"not json\n")
    done = clew_cli("import", str(path))
    assert done.code == 8
    assert "line 2" in done.err
