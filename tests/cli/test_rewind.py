"""`clew rewind | undo | checkpoint`."""

from __future__ import annotations

import pytest

import clew
from clew.checkpoints import Checkpoints
from tests.cli.terminal import at_a_terminal


def texts(clew_cli, id):
    return [node["text"] for node in clew_cli("show", id, "--jsonl").lines]


def test_a_rewind_keeps_what_it_leaves(clew_cli, talk):
    """The session ends earlier; the tree still has the rest."""
    session = talk("a", "b", "c")
    first = clew_cli("show", session, "--jsonl").lines[0]["handle"]
    done = clew_cli("rewind", session, first)
    assert (done.code, done.out.strip()) == (0, session)
    assert texts(clew_cli, session) == ["a"]
    assert [one["snippet"] for one in clew_cli("tree", session, "--json").json] == ["a", "b", "c"]
    assert "already" in clew_cli("rewind", session, first).err
    assert clew_cli("rewind", session, "zzzzzz").code == 3


def test_a_look_has_the_form_of_what_it_looks_at(clew_cli, talk):
    """With --dry-run, JSON has the session as it would be, and the session stays as it is."""
    session = talk("a", "b", "c")
    first = clew_cli("show", session, "--jsonl").lines[0]["id"]
    would = clew_cli("rewind", session, first, "--dry-run", "--json")
    assert (would.code, would.err) == (0, "would keep 2 messages as a branch\n")
    assert (would.json["id"], would.json["head_id"]) == (session, first)
    assert texts(clew_cli, session) == ["a", "b", "c"]
    done = clew_cli("rewind", session, first, "--json")
    assert {**done.json, "updated_at": None} == {**would.json, "updated_at": None}


@pytest.fixture
def work(tmp_path, monkeypatch):
    """The current folder, with files in it."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "a.txt").write_text("one\ntwo\n")
    return folder


class Told:
    """A session whose first message has changed files."""

    def __init__(self, db, work):
        with clew.open(db) as store:
            session = store.sessions.create(cwd=work)
            node = session.append(clew.user("change it"))
            with Checkpoints(session, work).guard(node, ["a.txt", "new.txt"]):
                (work / "a.txt").write_text("one\n2\nthree\n")
                (work / "new.txt").write_text("new\n")
            session.append(clew.assistant("done"))
            self.session, self.message, self.handle = session.id, node.id, node.handle


@pytest.fixture
def told(db, work):
    return Told(db, work)


def test_files_go_back_and_forward(clew_cli, told, work):
    """--files changes files alone and prints their names; undo takes it back; JSON has the names of the SDK."""
    would = clew_cli("rewind", told.handle, "--files", "--dry-run", "--json").json
    assert (would["canRewind"], would["filesChanged"], would["insertions"], would["deletions"]) == (
        True, ["a.txt", "new.txt"], 1, 3,
    )  # fmt: skip
    assert (work / "new.txt").exists()
    done = clew_cli("rewind", told.session, told.handle, "--files")
    assert (done.code, done.out) == (0, "a.txt\nnew.txt\n")
    assert "2 files, 1 insertion(+), 3 deletions(-); undo with: clew undo" in done.err
    assert (work / "a.txt").read_text() == "one\ntwo\n"
    assert not (work / "new.txt").exists()
    assert texts(clew_cli, told.session) == ["change it", "done"]
    assert clew_cli("undo").code == 0
    assert (work / "new.txt").read_text() == "new\n"


def test_both_go_back(clew_cli, told, work):
    """--both moves the conversation as well, and undo brings it back."""
    assert clew_cli("rewind", told.session, told.message, "--both", "--jsonl").lines[0]["canRewind"]
    assert texts(clew_cli, told.session) == ["change it"]
    assert (work / "a.txt").read_text() == "one\ntwo\n"
    assert clew_cli("undo", told.session, "--dry-run").code == 0
    assert clew_cli("undo", told.session).code == 0
    assert texts(clew_cli, told.session) == ["change it", "done"]


def test_a_conversation_goes_back_and_forward(clew_cli, told, work):
    """Without a flag the conversation alone goes back, and undo knows of it."""
    assert "1 message" in clew_cli("rewind", told.handle, "--dry-run").err
    assert texts(clew_cli, told.session) == ["change it", "done"]
    assert clew_cli("rewind", told.handle).code == 0
    assert texts(clew_cli, told.session) == ["change it"]
    assert (work / "new.txt").exists()
    assert clew_cli("undo").code == 0
    assert texts(clew_cli, told.session) == ["change it", "done"]


def test_what_someone_else_changed_needs_force(clew_cli, told, work):
    """The file is named, the exit code is 1, and --force does it."""
    (work / "a.txt").write_text("mine\n")
    done = clew_cli("rewind", told.handle, "--files")
    assert (done.code, done.out) == (1, "")
    assert "changed by someone else: a.txt" in done.err
    assert "--force" in done.err
    assert clew_cli("rewind", told.handle, "--files", "--json").json["conflicts"] == ["a.txt"]
    assert clew_cli("rewind", told.handle, "--files", "--force").code == 0
    assert (work / "a.txt").read_text() == "one\ntwo\n"


def test_what_is_not_there(clew_cli, told, work):
    """No checkpoint is exit code 3, no rewind to undo 1, too many names 2, no folder 1."""
    unknown = "0198f000-0000-7000-8000-00000000000a"
    assert clew_cli("rewind", unknown, "--files").code == 3
    assert clew_cli("checkpoint", "show", unknown).code == 3
    assert clew_cli("checkpoint", "diff", unknown).code == 3
    assert clew_cli("undo").code == 1
    assert clew_cli("rewind", "a", "b", "c").code == 2
    assert clew_cli("rewind", told.handle, "--files", "--root", "/none").code == 1
    assert clew_cli("checkpoint").code == 2


def test_checkpoints_are_listed_and_shown(clew_cli, told, work):
    """ls has a line for each, show a line for each file; as JSON a manifest."""
    clew_cli("rewind", told.handle, "--files")
    lines = clew_cli("checkpoint", "ls").out.splitlines()
    assert lines[0].startswith(told.handle[:6])
    assert "2 files" in lines[0]
    assert f"before a rewind to {told.handle[:6]}" in lines[1]
    listed = clew_cli("checkpoint", "ls", told.session, "--json").json
    assert listed[0]["user_message_uuid"] == told.message
    assert clew_cli("checkpoint", "ls", "--jsonl").lines == listed
    shown = clew_cli("checkpoint", "show", told.handle)
    assert "file     a.txt  8 bytes" in shown.out
    assert "missing  new.txt" in shown.out
    assert clew_cli("checkpoint", "show", told.handle, "--json").json["files"][0]["size"] == 8


def test_a_diff_is_shown(clew_cli, told, work):
    """As lines, with colour where it is wanted; as one line for each file; as JSON."""
    plain = clew_cli("checkpoint", "diff", told.handle)
    assert "-three" in plain.out.splitlines()
    assert "+++ /dev/null" in plain.out.splitlines()
    assert "\x1b" not in plain.out
    coloured = clew_cli("checkpoint", "diff", told.handle, env={"FORCE_COLOR": "1"})
    assert "\x1b[31m-three\x1b[0m" in coloured.out
    assert clew_cli("checkpoint", "diff", told.handle, "--stat").out.splitlines() == ["~ a.txt +1 -2", "- new.txt -1"]
    found = clew_cli("checkpoint", "diff", told.handle, "--json").json
    assert [(one["path"], one["insertions"], one["deletions"]) for one in found] == [("a.txt", 1, 2), ("new.txt", 0, 1)]


def test_hostile_names_and_contents_do_not_command_the_terminal(clew_cli, db, work):
    """Escapes in names and contents are shown and not obeyed."""
    name = "evil\x1b]0;title\x07.txt"
    (work / name).write_text("\x1b[2Jgone\n")
    with clew.open(db) as store:
        session = store.sessions.create(cwd=work)
        node = session.append(clew.user("x"))
        Checkpoints(session, work).capture(node, [name])
        (work / name).write_text("other\n")
    for args in (["diff", node.id], ["show", node.id], ["diff", node.id, "--stat"]):
        done = clew_cli("checkpoint", *args)
        assert done.code == 0
        assert "\x1b" not in done.out
    assert "\x1b" not in clew_cli("rewind", node.id, "--files").out


def test_on_a_terminal_it_asks_first(told, work, db):
    """What would change is shown, and nothing is done without a yes."""
    no = at_a_terminal("rewind", told.message, "--files", answers=[("Change these files?", "n")])
    assert no.code == 1
    assert "~ a.txt +1 -2" in no.screen
    assert no.screen.index("Change:") < no.screen.index("~ a.txt") < no.screen.index("Delete:")
    assert no.screen.index("Delete:") < no.screen.index("- new.txt -1")
    assert (work / "new.txt").exists()
    yes = at_a_terminal("rewind", told.message, "--files", answers=[("Change these files?", "y")])
    assert yes.code == 0
    assert not (work / "new.txt").exists()
    assert at_a_terminal("undo", answers=[("Change these files?", "y")]).code == 0
    assert (work / "new.txt").exists()
    assert at_a_terminal("rewind", told.message, "--files", "--yes").code == 0


def test_a_dry_run_lists_deletions_apart(clew_cli, told, work):
    """What would be changed, then what would be deleted; as JSON, those removed are named as well."""
    would = clew_cli("rewind", told.handle, "--files", "--dry-run")
    assert would.out == "Change:\n  a.txt\nDelete:\n  new.txt\n"
    assert would.err == "would change 2 files, 1 insertion(+), 3 deletions(-) and delete 1 file of them\n"
    assert clew_cli("rewind", told.handle, "--files", "--dry-run", "--json").json["removed"] == ["new.txt"]


def test_what_was_not_seen_is_named(clew_cli, db, work):
    """On the terminal and as JSON, by a dry run and by the run; the file stays."""
    (work / ".gitignore").write_text(".env\n")
    (work / ".env").write_text("secret")
    with clew.open(db) as store:
        session = store.sessions.create(cwd=work)
        node = session.append(clew.user("x"))
        with Checkpoints(session, work).guard(node):
            (work / ".gitignore").write_text("")
    for args in ([], ["--dry-run"]):
        assert clew_cli("rewind", node.id, "--files", "--json", "--dry-run").json["unseen"] == [".env"]
        assert "not in the checkpoint, left unchanged: .env" in clew_cli("rewind", node.id, "--files", *args).err
    assert (work / ".env").read_text() == "secret"
    assert clew_cli("checkpoint", "show", node.id).code == 0


def test_undo_goes_back_several_steps(clew_cli, told, work):
    """Two undos go back by two rewinds, and so does --steps 2; there are no more than there were."""
    for _ in range(2):
        clew_cli("rewind", told.handle, "--files")
        clew_cli("rewind", told.handle)
        assert clew_cli("undo", "--steps", "3").code == 1
        assert clew_cli("undo", "--steps", "2").code == 0
        assert (work / "new.txt").exists()
        assert texts(clew_cli, told.session) == ["change it", "done"]
    assert "no rewind to undo" in clew_cli("undo").err
    assert clew_cli("undo", "--steps", "0").code == 2


def test_an_undo_of_a_conversation_says_where_it_is(clew_cli, tmp_path, db):
    """It asks about no files, and names the conversation and its last message."""
    with clew.open(db) as store:
        session = store.sessions.create(title="Build fails", cwd=tmp_path)
        first, last = session.append([clew.user("Why?"), clew.assistant("The lint step.")])
        names = session.handle, first.handle, last.handle
    assert clew_cli("rewind", names[0], names[1]).code == 0
    asked = at_a_terminal("undo", names[0])
    assert asked.code == 0
    assert "Change these files" not in asked.screen
    where = f"conversation {names[0]} (Build fails) is back at {names[2]}, assistant: The lint step."
    assert where in " ".join(asked.screen.split())
