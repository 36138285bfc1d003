"""`clew --db .cpeconvo …` and `clew import .cpeconvo`."""

from __future__ import annotations

import hashlib
import re
import sqlite3
from pathlib import Path

import pytest

from clew.testing.providers import ProviderServer
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
        assert (done.code, "clew import " in done.err) == (1, True)
    assert hashlib.sha256(file.read_bytes()).hexdigest() == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".cpe")] == [".cpeconvo"]


@pytest.mark.checklist("D1", "D14")
def test_deleting_in_place(clew_cli: Run, file: Path) -> None:
    """`conversation delete` deletes messages from CPE's own file, by the ids that the list shows."""
    db = ["--db", str(file)]
    done = clew_cli(*db, "conversation", "delete", "def456", "jkl012", "zzz999")
    assert (done.code, done.out) == (8, "jkl012: message deleted\n")
    assert "message 'zzz999' not found" in done.err
    assert "def456: message def456 has children" in done.err and "--cascade" in done.err
    would = clew_cli(*db, "convo", "rm", "--cascade", "--dry-run", "def456")
    assert would.out == "def456: message and 3 later messages would be deleted\n"
    assert "def456" in clew_cli(*db, "conversation", "list").out
    assert clew_cli(*db, "conv", "remove", "--cascade", "def456", "--json").json[0]["deleted"] == 4
    shown = clew_cli(*db, "conversation", "list").out
    assert "abc123" in shown and "def456" not in shown
    conn = sqlite3.connect(file)
    assert conn.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert conn.execute("PRAGMA foreign_key_check").fetchall() == []
    conn.close()


@pytest.mark.checklist("D1", "D13")
def test_chatting_in_place(clew_cli: Run, file: Path) -> None:
    """`chat -c` appends the question and the answer to CPE's own file, after the message that is named."""
    db = ["--db", str(file)]
    done = clew_cli(*db, "chat", "-m", "offline", "-c", "jkl012", "Is it fast?")
    assert (done.code, done.out) == (0, "You said: Is it fast?\n")
    last = done.err.split()[-1]
    assert f"clew --db {file} chat -c {last}" in done.err
    conn = sqlite3.connect(file)
    query = (
        "SELECT m.id, m.parent_id, m.role, content FROM messages m JOIN blocks ON message_id = m.id ORDER BY m.rowid"
    )
    question, answer = conn.execute(query).fetchall()[-2:]
    assert question[1:] == ("jkl012", "user", "Is it fast?")
    assert answer == (last, question[0], "assistant", "You said: Is it fast?")
    shown = clew_cli(*db, "conversation", "print", last).out
    assert "Sure, what's your question?" in shown and "You said: Is it fast?" in shown and "Python" not in shown
    clew_cli(*db, "chat", "-m", "offline", "-c", last, "And now?")
    clew_cli(*db, "chat", "-m", "offline", "-n", "Another")
    assert [row[2:] for row in conn.execute(query).fetchall()[-4:]] == [
        ("user", "And now?"), ("assistant", "You said: And now?"),
        ("user", "Another"), ("assistant", "You said: Another"),
    ]  # fmt: skip
    assert conn.execute("SELECT count(*) FROM messages WHERE parent_id = ?", [last]).fetchone() == (1,)
    conn.close()
    assert clew_cli(*db, "chat", "-m", "offline", "-c", "zzz999", "x").code == 3
    assert not Path(f"{file}-wal").exists()


@pytest.mark.checklist("D18")
def test_nothing_is_sent_if_the_file_cannot_be_written(
    clew_cli: Run, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question that cannot be stored in CPE's file is not sent."""
    with ProviderServer() as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "a-key")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        conn = sqlite3.connect(file, isolation_level=None)
        conn.execute("BEGIN IMMEDIATE")  # readers may still read
        args = ("--db", str(file), "chat", "-m", "sonnet", "-c", "jkl012", "Is it fast?")
        done = clew_cli(*args, env={"CLEW_TIMEOUT": "0.2"})
        assert (done.code, "locked by another program" in done.err) == (5, True)
        assert server.requests == []
        conn.execute("ROLLBACK")
        conn.close()
        assert clew_cli(*args).code == 0
        assert len(server.requests) == 1


def test_a_locked_file_is_said_to_be_locked(clew_cli: Run, file: Path) -> None:
    """It waits no longer than the setting says, and the message names the cause."""
    conn = sqlite3.connect(file, isolation_level=None)
    conn.execute("BEGIN EXCLUSIVE")
    for args in (["import", str(file)], ["--db", str(file), "ls"], ["--db", str(file), "conversation", "delete", "x"]):
        done = clew_cli(*args, env={"CLEW_TIMEOUT": "0.1"})
        assert (done.code, f"{file} is locked by another program" in done.err) == (5, True)
    conn.close()
    assert clew_cli("import", str(file)).code == 0


@pytest.mark.checklist("D3")
def test_a_malformed_tool_call_is_kept(clew_cli: Run, tmp_path: Path) -> None:
    """A tool call that is not JSON stays as it is in its message, and is exported unchanged."""
    made = sample(tmp_path / "odd")
    bad = '{"name": "look", "parameters": {'
    made.say("bad001", "jkl012", "assistant", "Wait", ("tool_call", 0, "application/json", bad, "c9", None))
    made.say("bad002", "bad001", "user", "What?")
    made.close()
    done = clew_cli("import", str(made.path))
    assert (done.code, done.err) == (0, "")
    shown = clew_cli("show", "bad002").out
    assert "Sure, what's your question?" in shown and "Wait" in shown and "[tool_call]" in shown
    out = tmp_path / "copy"
    clew_cli("export", "--as", "cpeconvo", "-o", str(out))
    conn = sqlite3.connect(out)
    found = conn.execute("SELECT block_type, content, id FROM blocks WHERE message_id = 'bad001'").fetchall()
    assert found[1] == ("tool_call", bad, "c9")
    conn.close()


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
    """`ls` and `conversation list` say that there is one, and how to import or read it, until all of it is imported."""
    monkeypatch.chdir(file.parent)
    clew_cli("append", input='{"text": "x"}')
    said = clew_cli("ls").err
    assert ".cpeconvo here has 3 conversations of CPE that are not in clew" in said
    assert "clew import .cpeconvo" in said and "clew --db .cpeconvo ls" in said
    assert "cpeconvo" not in clew_cli("--db", ".cpeconvo", "ls").err
    assert clew_cli("ls", "--json").err == ""
    assert "clew import .cpeconvo" in clew_cli("conversation", "list").err
    assert "cpeconvo" not in clew_cli("--db", ".cpeconvo", "conversation", "list").err
    clew_cli("import", ".cpeconvo")
    listed = clew_cli("ls")
    assert "cpeconvo" not in listed.err
    assert "  cpe  " in listed.out


def test_its_ids_name_imported_messages(clew_cli: Run, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An id of CPE names the message; before the import, a hint says where it is."""
    monkeypatch.chdir(file.parent)
    clew_cli("append", input='{"text": "x"}')
    known = clew_cli("show", "jkl012")
    assert (known.code, "clew import .cpeconvo" in known.err, "clew --db .cpeconvo show jkl012" in known.err) == (
        3, True, True,
    )  # fmt: skip
    clew_cli("import", ".cpeconvo")
    assert "Sure, what's your question?" in clew_cli("show", "jkl012").out
    assert len(clew_cli("show", "abc123", "--json").json["messages"]) == 1
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
    assert clew_cli("export", "Pictures", "--as", "cpeconvo", "-o", str(one), "--json").json["conversations"] == 1
    assert "Look" in clew_cli("--db", str(one), "tree").out


def _imported(clew_cli: Run, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    assert clew_cli("import", ".cpeconvo").code == 0


@pytest.mark.checklist("D14")
def test_a_message_never_stands_for_its_conversation(
    clew_cli: Run, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands that delete conversations refuse the id of a message, and name the conversation that has it."""
    _imported(clew_cli, file, monkeypatch)
    before = clew_cli("conversation", "list", "--json").json
    handle = {one["cpe_id"]: one["handle"] for one in before}["jkl012"]
    for typed in ("jkl012", "abc123", handle):  # a leaf, a root, a leaf by its handle
        for command in (["purge", "--yes"], ["rm"], ["hold", "add"], ["rename"]):
            done = clew_cli(*command, typed, *(["x"] if command == ["rename"] else []))
            assert (done.code, f"clew conversation delete {typed}" in done.err) == (3, True), (command, done)
            assert "is a message of conversation" in done.err
    assert clew_cli("conversation", "list", "--json").json == before
    conversation = clew_cli("ls", "--json").json["sessions"][-1]["handle"]
    assert clew_cli("rm", conversation).code == 0
    assert clew_cli("trash", "restore", "jkl012").code == 0


@pytest.mark.checklist("D14")
def test_deleting_by_its_id(clew_cli: Run, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`conversation delete` deletes the message with that id and no other."""
    _imported(clew_cli, file, monkeypatch)
    refused = clew_cli("conversation", "delete", "ghi789")
    assert (refused.code, "--cascade" in refused.err) == (1, True)
    done = clew_cli("conversation", "delete", "jkl012", "zzz999")
    assert (done.code, done.out) == (8, "jkl012: message deleted\n")
    assert "message 'zzz999' not found" in done.err
    assert clew_cli("conversation", "delete", "zzz999").code == 3
    left = {one["cpe_id"] for one in clew_cli("conversation", "list", "--json").json}
    assert "jkl012" not in left and {"abc123", "def456", "ghi789", "mno345", "pqr678"} <= left
    assert clew_cli("conversation", "delete", "--cascade", "def456").out == (
        "def456: message and 3 later messages deleted\n"
    )
    assert clew_cli("verify").code == 0


def test_its_ids_are_positions(clew_cli: Run, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that take a position mean that message, though the head of the tree is on another branch."""
    _imported(clew_cli, file, monkeypatch)
    words, other = "Sure, what's your question?", "Actually, Python instead"
    conversation = clew_cli("ls", "--json").json["sessions"][-1]["handle"]
    assert other in clew_cli("show", conversation).out
    found = clew_cli("search", "python", "--session", "jkl012", "--json").json
    assert {hit["session"]["handle"] for hit in found} == {conversation}

    def ends_there(text: str) -> None:
        assert words in text and other not in text

    ends_there(clew_cli("show", clew_cli("fork", "jkl012").out.strip()).out)
    ends_there(clew_cli("show", clew_cli("fork", conversation, "--at", "jkl012").out.strip()).out)
    ends_there(clew_cli("export", "jkl012", "--as", "markdown").out)
    ends_there(clew_cli("export", "jkl012").out)
    out = tmp_path / "one.cpeconvo"
    assert clew_cli("export", "jkl012", "--as", "cpeconvo", "-o", str(out)).code == 0
    ends_there(clew_cli("--db", str(out), "conversation", "list").out)
    saved = clew_cli("snapshot", "save", "jkl012").out.strip()
    ends_there(clew_cli("snapshot", "show", saved).out)
    assert clew_cli("rewind", conversation, "def456").code == 0
    assert "Of course!" in clew_cli("show", conversation).out and other not in clew_cli("show", conversation).out
    assert len(clew_cli("ls", "--json").json["sessions"]) == 4  # two forks; a snapshot leaves none


@pytest.mark.checklist("D14")
def test_lists_show_its_ids(clew_cli: Run, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In place and after an import, the ids in lists are CPE's, and each can be typed."""
    monkeypatch.chdir(file.parent)
    clew_cli("import", ".cpeconvo")
    for db in ([], ["--db", ".cpeconvo"]):
        lines = clew_cli(*db, "conversation", "list").out.splitlines()
        shown = [line.split()[0] for line in lines if "------" not in line]
        assert {"abc123", "jkl012", "pqr678"} <= set(shown)
        for id in shown:
            assert re.search(rf" · {id}( · |$)", clew_cli(*db, "conversation", "print", id).out, re.MULTILINE)
        assert "\npqr678  " in "\n" + clew_cli(*db, "search", "problem").out
        assert "· jkl012 ·" in clew_cli(*db, "show", "jkl012", "--as", "markdown").out


@pytest.mark.checklist("D20")
def test_a_trace_is_found_by_its_label(clew_cli: Run, tmp_path: Path) -> None:
    """An imported trace of a subagent has the label that CPE gave it."""
    made = sample(tmp_path / ".cpeconvo")
    label = "subagent:code-review:a1b2c3d4"
    made.say("tr4ce1", None, "user", "Review this", title=label)
    made.say("tr4ce2", "tr4ce1", "assistant", "Fine", title=label)
    made.close()
    clew_cli("import", str(made.path))
    for db in ([], ["--db", str(made.path)]):
        listed = clew_cli(*db, "ls", "--subagents", "--label", label)
        assert "code-review a1b2c3d4" in listed.out
        assert len(listed.out.splitlines()) == 1 and "code-review:" not in listed.out
    assert clew_cli("ls", "--label", label).out == ""
