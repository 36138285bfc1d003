"""`clew rm | trash | hold`."""

import sqlite3

import pytest

import clew
from clew.testing import FakeClock

COMMANDS = [["rm"], ["trash", "restore"], ["hold", "add"], ["hold", "release"]]


def ids(done):
    return [session["id"] for session in done.json["sessions"]]


def test_what_is_removed_is_out_of_sight_and_comes_back(clew_cli, talk):
    """rm says what it did and how to undo it; until then the session is not listed, shown or found."""
    session, other = talk("a lint step", title="Build fails"), talk("b")
    handle = clew_cli("show", session, "--json").json["session"]["handle"]
    done = clew_cli("rm", handle)
    assert (done.code, done.out.split()) == (0, [session])
    assert (
        done.err
        == f"conversation {handle} (Build fails) moved to the trash; restore with: clew trash restore {handle}\n"
    )
    assert ids(clew_cli("ls", "--json")) == [other]
    assert clew_cli("show", session).code == clew_cli("append", handle, input='{"text": "x"}').code == 3
    assert clew_cli("search", "lint", "--jsonl").out == ""
    assert [leaf["snippet"] for leaf in clew_cli("tree", "--json").json] == ["b"]
    assert (clew_cli("rm", handle).code, clew_cli("rm", session).code) == (0, 0)
    back = clew_cli("trash", "restore", handle)
    assert (back.code, back.out.split(), back.err) == (0, [session], f"conversation {handle} (Build fails) restored\n")
    assert ids(clew_cli("ls", "--json")) == [other, session]
    assert clew_cli("trash", "restore", handle).code == 3


def test_the_trash_is_listed(clew_cli, talk, db):
    """trash ls shows what is there, last put there first, when it went, and pages; an empty one says so."""
    with clew.open(db, clock=FakeClock()) as store:  # years ago
        old = store.sessions.create(title="old").id
    assert (clew_cli("trash", "ls").out, clew_cli("trash", "ls").err) == ("", "The trash is empty.\n")
    sessions = [talk(word, title=word) for word in ("one", "two", "three")]
    untitled = talk("its first words")
    clew_cli("rm", *sessions, untitled)
    assert "2023-11-14" not in clew_cli("ls", "--empty").out  # a conversation without messages has no time
    clew_cli("rm", old)
    assert "just now  0  old" in clew_cli("trash", "ls", "--limit", "1").out
    clew_cli("trash", "restore", old)
    lines = clew_cli("trash", "ls").out.splitlines()
    assert [line.split("just now  1  ")[1].split("  ")[0] for line in lines] == [
        "its first words", "three", "two", "one",
    ]  # fmt: skip
    page = clew_cli("trash", "ls", "--limit", "2", "--json")
    assert ids(page) == [untitled, sessions[2]]
    assert all(one["trashed_at"].endswith("Z") for one in page.json["sessions"])
    rest = clew_cli("trash", "ls", "--json", "--cursor", page.json["next_cursor"])
    assert ids(rest) == [sessions[1], sessions[0]]
    assert [one["id"] for one in clew_cli("trash", "ls", "--all", "--jsonl").lines] == [untitled, *sessions[::-1]]
    for filters in (["--here"], ["--cwd", "/"], ["--label", "l"], ["--title", "one"]):
        assert clew_cli("trash", "ls", *filters).code == 2


def test_a_dry_run_changes_nothing(clew_cli, talk, db):
    """rm --dry-run says what would go and what would not, with the same exit code, and leaves the store as it is."""
    session, held = talk("a", title="One"), talk("b")
    clew_cli("hold", "add", held)
    dump = list(sqlite3.connect(db).iterdump())
    done = clew_cli("rm", "--dry-run", session, held, session, "zzzzzz")
    assert (done.code, done.out.split()) == (8, [session])
    assert "(One) would be moved to the trash\n" in done.err
    assert f"session {held} is held" in done.err
    assert clew_cli("rm", "--dry-run", held).code == 1
    items = clew_cli("rm", "--dry-run", "--json", session, held).json
    assert [(item["asked"], item["ok"]) for item in items] == [(session, True), (held, False)]
    assert list(sqlite3.connect(db).iterdump()) == dump


def test_each_is_told_by_itself(clew_cli, talk):
    """One that fails keeps no other from going: exit 8 if some went, else the code of what went wrong."""
    one, two, held = talk("a"), talk("b"), talk("c")
    clew_cli("hold", "add", held)
    done = clew_cli("rm", one, "zzzzzz", held, two, "--json")
    assert done.code == 8
    assert [(item["asked"], item["ok"]) for item in done.json] == [
        (one, True), ("zzzzzz", False), (held, False), (two, True),
    ]  # fmt: skip
    assert done.json[0]["session"]["id"] == one
    assert done.json[0]["session"]["trashed_at"]
    assert (done.json[1]["code"], done.json[2]["code"], done.json[2]["hint"]) == (3, 1, "Release it first.")
    assert "conversation 'zzzzzz' not found" in done.err
    assert [item["ok"] for item in clew_cli("trash", "restore", one, held, "--jsonl").lines] == [True, False]
    for command in COMMANDS:
        assert clew_cli(*command, "zzzzzz").code == 3
        assert clew_cli(*command, "zzzzzz", two if "restore" in command else one).code == 8
        assert clew_cli(*command).code == 2
        clew_cli("trash", "restore", one)


def test_an_ambiguous_handle_is_told(clew_cli, db):
    """A handle that fits several sessions in the trash is ambiguous there, and one that fits one elsewhere is not."""
    twins = ["00000000-0000-4000-8000-00ff00000005", "00000000-0000-4000-8000-000000000005"]
    third = "00000000-0000-4000-8000-0fff00000005"
    with clew.open(db) as store:
        for id in (*twins, third):
            store.sessions.create(id=id)
        handle = store.sessions.get(third).handle[:6]
    assert clew_cli("rm", handle).code == 4
    assert clew_cli("rm", *twins).code == 0
    assert clew_cli("trash", "restore", handle).code == 4
    assert clew_cli("rm", handle).out.split() == [third]
    assert clew_cli("trash", "restore", *twins).code == 0


def test_a_hold_is_kept_until_it_is_released(clew_cli, talk):
    """hold keeps its reason, shows in JSON, and refuses rm; release ends it."""
    session = talk("a")
    done = clew_cli("hold", "add", session, "--reason", "Audit of May")
    assert (done.code, done.out.split()) == (0, [session])
    assert "on hold; release with: clew hold release " in done.err
    shown = clew_cli("ls", "--jsonl").lines[0]
    assert (shown["held"], shown["hold_reason"], shown["trashed_at"]) == (True, "Audit of May", None)
    refused = clew_cli("rm", session)
    assert (refused.code, refused.out) == (1, "")
    assert "Release it first." in refused.err
    assert clew_cli("rename", session, "New").code == clew_cli("label", session, "l").code == 0
    assert clew_cli("hold", "release", session, "--json").json[0]["session"]["held"] is False
    assert clew_cli("rm", session).code == 0
    assert clew_cli("hold", "add", session).code == 3


@pytest.mark.parametrize("command", COMMANDS)
def test_a_store_that_is_not_there_is_not_made(clew_cli, tmp_path, command):
    """Nothing can be removed from, or kept in, a store that is not there."""
    assert clew_cli(*command, "k3m9qa", "--db", str(tmp_path / "no.db")).code == 3
    assert not (tmp_path / "no.db").exists()
