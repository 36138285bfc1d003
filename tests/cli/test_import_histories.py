"""`clew import` with the histories of other programs."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

import pytest

import clew
from tests.sources.made import SESSION, claude_line, jsonl
from tests.sources.samples import from_sql
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
    assert clew_cli("import", str(tmp_path / "projects")).out == "Nothing new; 1 file unchanged\n"


def test_the_index_is_complete_after_an_import(clew_cli, tmp_path, db):
    """The first search need not index anything."""
    log = tmp_path / f"{SESSION}.jsonl"
    log.write_bytes(jsonl([claude_line(1, None, "user", "Why lint?")]))
    assert clew_cli("import", str(log)).code == 0
    indexed: list[int] = []
    with clew.open(db) as store:
        assert len(store.search("lint", progress=lambda done, total: indexed.append(done))) == 1
    assert indexed == []


@pytest.mark.parametrize("form", ["--json", "--jsonl"])
def test_a_name_that_is_not_text(clew_cli, tmp_path, form):
    """The report as JSON names a file whose name is not UTF-8."""
    path = os.path.join(os.fsencode(tmp_path), b"\xff.jsonl")
    with open(path, "wb") as file:
        file.write(jsonl([claude_line(1, None, "user", "Why lint?")]))
    done = clew_cli("import", os.fsdecode(path), form)
    assert (done.code, "\\ufffd.jsonl" in done.out) == (0, True)
    assert clew_cli("import", "--runs").code == 0


def test_an_imported_conversation_began_when_its_program_wrote_it(clew_cli, home):
    """It is dated by its first message, and not by the import: in exports, and where stats counts by time."""
    clew_cli("import", str(home))
    session = clew_cli("show", SESSION, "--json").json["session"]
    assert (session["created_at"], session["updated_at"]) == (
        "2026-11-01T10:00:01.000000Z",
        "2026-11-01T10:00:02.000000Z",
    )
    assert 'created: "2026-11-01T10:00:01+00:00"' in clew_cli("export", SESSION, "--as", "markdown").out
    assert clew_cli("stats", "--until", "2026-11-02", "--json").json["total"]["sessions"] == 1


def test_a_conversation_that_cannot_be_continued_here(clew_cli, home, monkeypatch):
    """Without an API key, clew names the command of the tool that it was imported from."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    clew_cli("import", str(home))
    done = clew_cli("chat", "-c", SESSION, "And now?")
    assert (done.code, f"In Claude Code, use: claude --resume {SESSION}" in done.err) == (1, True)


def test_sources_that_were_found_come_first(clew_cli, home):
    """The list begins with the histories on this machine."""
    assert clew_cli("sources").out.startswith("claude-code  Claude Code\n")


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


@pytest.fixture
def home(tmp_path):
    """A home in which Claude Code has kept a conversation."""
    folder = tmp_path / "home" / ".claude" / "projects" / "p"
    folder.mkdir(parents=True)
    path = folder / f"{SESSION}.jsonl"
    path.write_bytes(jsonl([claude_line(1, None, "user", "Why lint?"), claude_line(2, 1, "assistant", "Unused.")]))
    return path


def test_what_is_found_here(clew_cli, home):
    """Without a path the histories are listed, and off a terminal nothing is imported without --yes."""
    listed = clew_cli("import")
    assert listed.code == 0
    assert "Claude Code" in listed.out
    assert "deletes conversations after 30 days" in listed.out
    assert clew_cli("ls").code != 0, "nothing was stored"
    (row,) = clew_cli("import", "--json").json
    assert (row["conversations"], row["messages"], row["exact"]) == (1, 2, True)
    done = clew_cli("import", "--yes")
    assert (done.code, "2 new messages in 1 conversation imported" in done.out) == (0, True)


def test_nothing_found_here(clew_cli):
    """That is not a success, and says how to go on, with and without --yes."""
    for more in ([], ["--yes"]):
        done = clew_cli("import", *more)
        assert (done.code, done.err.splitlines()[0]) == (3, "clew: history of another tool not found")
        assert "clew import PATH" in done.err


def test_undo(clew_cli, home):
    """An import is listed, and taken back with its receipt; again it is refused."""
    run = clew_cli("import", str(home), "--json").json["run"]
    (listed,) = clew_cli("import", "--runs", "--json").json
    assert (listed["id"], listed["messages"]) == (run, 2)
    done = clew_cli("import", "--undo", listed["handle"])
    assert (done.code, "2 messages and 1 conversation removed; receipt" in done.out) == (0, True)
    assert clew_cli("ls", "--json").json["sessions"] == []
    assert clew_cli("import", "--undo", run).code == 1
    assert clew_cli("import", str(home)).code == 0


def test_undo_leaves_what_was_used(clew_cli, home):
    """A renamed conversation stays, and the exit code says that something was left."""
    clew_cli("import", str(home))
    (listed,) = clew_cli("import", "--runs", "--json").json
    clew_cli("rename", SESSION, "Mine")
    done = clew_cli("import", "--undo", listed["handle"])
    assert (done.code, "changed or continued since" in done.err) == (8, True)


def test_only_some(clew_cli, home, tmp_path):
    """--project, --exclude, --since and --from choose; what is left over is not a success."""
    path = str(home.parent)
    assert clew_cli("import", path, "--exclude", "*.jsonl").code == 3
    assert clew_cli("import", path, "--from", "chatgpt").code == 3
    assert clew_cli("import", path, "--from", "nonsense").code == 3
    os.utime(home, (1, 1))
    assert clew_cli("import", path, "--since", "1d").code == 3
    assert clew_cli("import", path, "--project", "/elsewhere").code == 8
    assert clew_cli("import", path, "--project", "/src").code == 0
    assert len(clew_cli("ls", "--json").json["sessions"]) == 1


def test_several_paths(clew_cli, home, tmp_path):
    """Files of different kinds are imported by one command."""
    export = tmp_path / "conversations.json"
    export.write_text(json.dumps([TREE]))
    assert clew_cli("import", str(home), str(export)).code == 0
    assert len(clew_cli("ls", "--json").json["sessions"]) == 2


def test_what_cannot_be_imported(clew_cli, tmp_path):
    """A file of no known kind, an empty one, and a damaged line each end with a clear error, each time."""
    (tmp_path / "x.txt").write_text("hello")
    (tmp_path / "empty.jsonl").touch()
    assert "no source recognises it" in clew_cli("import", str(tmp_path / "x.txt")).err
    assert clew_cli("import", str(tmp_path / "x.txt")).code == 1
    assert clew_cli("import", str(tmp_path / "empty.jsonl")).code == 1
    path = tmp_path / f"{SESSION}.jsonl"
    path.write_bytes(jsonl([claude_line(1, None, "user", "Hello")]) + b"not json\n")
    assert [clew_cli("import", str(path)).code for _ in range(2)] == [8, 8]


def test_purged_and_imported_again(clew_cli, home):
    """An unchanged file does not bring back what was purged, unless --again asks for it."""
    clew_cli("import", str(home))
    clew_cli("purge", SESSION, "--yes")
    assert clew_cli("import", str(home)).code == 0
    assert clew_cli("ls", "--json").json["sessions"] == []
    assert "2 new messages" in clew_cli("import", str(home), "--again").out
    assert len(clew_cli("ls", "--json").json["sessions"]) == 1


def test_own_export(clew_cli, home, tmp_path):
    """clew's own JSONL is imported under the same ids."""
    clew_cli("import", str(home))
    clew_cli("export", "--as", "jsonl", "-o", str(tmp_path / "all.jsonl"))
    done = clew_cli("--db", str(tmp_path / "other.db"), "import", str(tmp_path / "all.jsonl"))
    assert (done.code, "2 new messages in 1 new conversation imported" in done.out) == (0, True)


def test_sources(clew_cli, home):
    """The formats are listed with the places for each system, and what was imported."""
    clew_cli("import", str(home))
    listed = clew_cli("sources")
    assert listed.code == 0
    assert "~/.claude/projects" in listed.out
    (row,) = clew_cli("sources", "claude-code", "--json").json
    assert (row["files"], row["imported_files"]) == (1, 1)
    assert any("APPDATA" in path or "AppData" in path for path in row["looked_for"]["win32"])


def test_the_table_begins_with_the_largest_history(clew_cli, tmp_path):
    """Sorted by size; and a program that shares its source with others has its own name."""
    (tmp_path / ".claude/projects/p").mkdir(parents=True)
    log = tmp_path / f".claude/projects/p/{SESSION}.jsonl"
    log.write_bytes(jsonl([claude_line(1, None, "user", "Why lint?")]))
    task = tmp_path / ".config/Code/User/globalStorage/rooveterinaryinc.roo-cline/tasks/1779876120000"
    task.mkdir(parents=True)
    text = [{"role": "user", "content": [{"type": "text", "text": "long " * 1000}]}]
    (task / "api_conversation_history.json").write_text(json.dumps(text))
    done = clew_cli("import", env={"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / ".config")})
    names = [line.split("  ")[0] for line in done.out.splitlines()[1:3]]
    assert names == ["Roo Code", "Claude Code"]


def test_conversations_of_genuine_programs_are_counted_alike(clew_cli, tmp_path):
    """The table, the report, the list and the JSON agree on a log with a fork that has nothing of its own."""
    folder = tmp_path / "llm"
    folder.mkdir()
    from_sql("llm/logs.sql", folder / "logs.db")
    env = {"HOME": str(tmp_path), "LLM_USER_PATH": str(folder)}
    (row,) = (line for line in clew_cli("import", env=env).out.splitlines() if line.startswith("llm "))
    assert row.split()[2:4] == ["9", "28"]  # conversations, messages
    done = clew_cli("import", "--yes", env=env)
    assert done.out.splitlines()[0] == "28 new messages in 9 conversations imported"
    assert len(clew_cli("ls", "--all", "--json", env=env).json["sessions"]) == 9


def test_subagents_and_empty_conversations_are_counted_alike(clew_cli, tmp_path):
    """The table and the report count conversations with messages, as the list shows them, and subagents apart."""
    folder = tmp_path / ".claude/projects/p"
    (folder / SESSION / "subagents").mkdir(parents=True)
    (folder / f"{SESSION}.jsonl").write_bytes(jsonl([claude_line(1, None, "user", "Why lint?")]))
    trace = claude_line(3, None, "user", "Look it up.", isSidechain=True, agentId="a7f")
    (folder / SESSION / "subagents/agent-a7f.jsonl").write_bytes(jsonl([trace]))
    env = {"HOME": str(tmp_path)}
    row = next(line for line in clew_cli("import", env=env).out.splitlines() if line.startswith("Claude Code "))
    assert row.split()[3:5] == ["1", "2"]  # conversations, messages
    done = clew_cli("import", "--yes", env=env)
    assert done.out.splitlines()[0] == "2 new messages in 1 conversation and 1 subagent imported"
    assert len(clew_cli("ls", "--json", env=env).json["sessions"]) == 1
