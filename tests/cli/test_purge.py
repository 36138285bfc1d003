"""`clew purge | receipts`: for good, asked before, and told after."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import clew
from clew import agents
from clew.base import ids
from clew.cli.commands import purge
from clew.engine.receipts import Receipt
from clew.store.sessions import Sessions
from clew.testing import FakeClock
from tests.cli.conftest import Run
from tests.cli.terminal import at_a_terminal
from tests.sources.made import SESSION, an_id, claude_line, jsonl
from tests.sources.test_exports import chatgpt, node

Talk = Callable[..., str]
CANARY = "c4nary-of-the-test"


def traces(db: str) -> int:
    return sum(file.read_bytes().count(CANARY.encode()) for file in Path(db).parent.glob("chats.db*"))


def left(clew_cli: Run) -> list[str]:
    return [one["id"] for one in clew_cli("ls", "--all", "--jsonl").lines]


def test_what_is_purged_is_gone(clew_cli: Run, talk: Talk, db: str) -> None:
    """The session, its words in every file, and nothing else; the receipt says so in words and as JSON."""
    session, other = talk(CANARY, "b", title=f"About {CANARY}"), talk("kept")
    assert clew_cli("search", CANARY).code == 0
    assert traces(db) > 0
    done = clew_cli("purge", session, "--yes")
    assert done.code == 0, done.err
    assert done.out.startswith("purged 1 conversation, 2 messages, ")
    assert "all traces in the files are cleared" in done.out
    assert traces(db) == 0
    assert left(clew_cli) == [other]
    assert clew_cli("show", session).code == clew_cli("trash", "restore", session).code == 3
    receipt = clew_cli("purge", other, "--yes", "--json", "--reason", "workspace-reset").json
    assert (receipt["sessions"], receipt["messages"], receipt["pending"]) == ([other], 1, [])
    assert receipt.pop("originals") == []
    assert receipt["reason"] == "workspace-reset"
    assert receipt["finished_at"] >= receipt["started_at"]
    listed = clew_cli("receipts", "--json").json
    assert [one["sessions"] for one in listed] == [[session], [other]]
    assert listed[1] == receipt
    assert clew_cli("receipts", "--jsonl").lines == listed
    lines = clew_cli("receipts").out.splitlines()
    assert len(lines) == 2
    assert "user-requested  1 conversation, 2 messages" in lines[0]
    assert CANARY not in clew_cli("receipts", "--json").out


def test_the_files_of_other_tools_are_named(clew_cli: Run, talk: Talk, tmp_path: Path) -> None:
    """A purge says which files still have the words, before and after, with those of subagents; a redaction, too."""
    talk("own")
    folder = tmp_path / "home" / ".claude" / "projects" / "p"
    folder.mkdir(parents=True)
    file, below, several = folder / f"{SESSION}.jsonl", folder / "agent-ab12cd34.jsonl", tmp_path / "conversations.json"
    token = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
    file.write_bytes(jsonl([claude_line(1, None, "user", CANARY), claude_line(2, 1, "assistant", token)]))
    below.write_bytes(jsonl([claude_line(11, None, "user", CANARY, isSidechain=True, agentId="ab12cd34")]))
    several.write_text(json.dumps([chatgpt(node("u", None, "user", CANARY), conversation_id=id) for id in "ab"]))
    assert clew_cli("import", str(folder), str(several)).code == 0
    files = ["~/.claude/projects/p/" + one.name for one in (below, file)]
    redacted = clew_cli("redact", "--apply", an_id(2), "--yes")
    assert all(one in redacted.out for one in files), redacted.out
    for args in ("--dry-run", "--yes"):
        done = clew_cli("purge", SESSION, args)
        said = "2 files of other tools still have the text; clew does not change them:"
        assert [line.strip() for line in done.out.splitlines()[-3:]] in ([said, *files], [said, *files[::-1]]), done.out
    one, two = (row["id"] for row in clew_cli("ls", "--tool", "chatgpt", "--json").json["sessions"])
    assert clew_cli("purge", one, "--yes", "--json").json["originals"] == [str(several)]
    several.unlink()
    assert clew_cli("purge", two, "--yes", "--json").json["originals"] == []
    assert clew_cli("purge", "--all", "--yes", "--json").json["originals"] == []


def test_a_purge_that_is_repeated(clew_cli: Run, talk: Talk) -> None:
    """Ids and handles that are gone already are named, and the others go; a name that never was stops it."""
    first, second, third = talk("a"), talk("b"), talk("c")
    handle = ids.handle(ids.parse(second), 10)
    assert clew_cli("purge", first, second, "--yes").code == 0
    assert clew_cli("purge", first, third, "nothere", "--yes").code == 3
    assert left(clew_cli) == [third]
    done = clew_cli("purge", first, handle, third, "--yes")
    assert (done.code, left(clew_cli)) == (0, [])
    assert done.err.splitlines() == [f"{name} is already purged" for name in (first, handle)]
    assert done.out.startswith("purged 1 conversation, 1 message")
    again = clew_cli("purge", first, handle, third, "--yes")
    assert (again.code, again.out) == (0, "nothing was purged\n")


def test_a_repeated_purge_tells_what_is_pending(clew_cli: Run, talk: Talk, db: str, tmp_path: Path) -> None:
    """While files of a mirror are left, the same command says so again, as the doctor does; then it removes them."""
    with agents.open(db, mirror=tmp_path / "mirror") as sessions:
        session = sessions.create(cwd="/src")
        session.append_and_save(clew.user(CANARY))
    away = (tmp_path / "mirror").rename(tmp_path / "away")
    pending = [f"mirror {tmp_path / 'mirror'}"]
    for _ in range(2):
        done = clew_cli("purge", session.id, "--yes", "--json")
        assert (done.code, done.json["pending"], done.json["finished_at"]) == (8, pending, None)
    told = clew_cli("purge", session.id, "--yes")
    assert (told.code, told.out.splitlines()[0]) == (8, "nothing was purged")
    assert "pending" in told.out
    (found,) = [one for one in clew_cli("doctor", "--json").json if one["name"] == "purges"]
    assert pending[0] in found["what"]
    away.rename(tmp_path / "mirror")
    done = clew_cli("purge", session.id, "--yes", "--json")
    assert (done.code, done.json["pending"]) == (0, [])
    assert not list((tmp_path / "mirror").rglob("messages.jsonl"))


def test_nothing_was_purged(clew_cli: Run, talk: Talk) -> None:
    """An empty list says so; what has nothing to purge is done."""
    assert clew_cli("receipts", env={"CLEW_DB": ""}).err == "No purges yet.\n"
    talk("a")
    assert (clew_cli("receipts").out, clew_cli("receipts").err) == ("", "No purges yet.\n")
    done = clew_cli("purge", "--trash", "--yes")
    assert (done.code, done.out) == (0, "nothing was purged\n")
    assert clew_cli("purge", "--trash", "--yes", "--json").json["pending"] == []


def test_what_is_to_be_purged_has_to_be_said(clew_cli: Run, talk: Talk, tmp_path: Path) -> None:
    """Sessions, the trash or everything; one of them; off a terminal only with --yes; and only what is there."""
    session = talk("a")
    for wrong in (
        [], [session, "--trash"], ["--trash", "--all"], [session, "--before", "2d"], ["--all", "--before", "x"],
        ["--all", "--reason", "because"],
    ):  # fmt: skip
        assert clew_cli("purge", *wrong, "--yes").code == 2
    assert clew_cli("purge", session).code == 2
    assert "--yes" in clew_cli("purge", session).err
    assert clew_cli("purge", session, "zzzzzz", "--yes").code == 3
    assert left(clew_cli) == [session]
    assert clew_cli("purge", session, "--yes", "--db", str(tmp_path / "no.db")).code == 3
    assert not (tmp_path / "no.db").exists()


def test_a_dry_run_changes_nothing(clew_cli: Run, talk: Talk, db: str) -> None:
    """It needs no --yes, and says the same numbers."""
    session, held = talk("a", "b"), talk("c")
    clew_cli("hold", "add", held)
    with closing(sqlite3.connect(db)) as conn:
        dump = list(conn.iterdump())
    would = clew_cli("purge", "--all", "--dry-run", "--json")
    assert (would.code, would.json["sessions"], would.json["messages"]) == (8, [session], 2)
    assert clew_cli("purge", session, "--dry-run").out.startswith("would purge 1 conversation, 2 messages, ")
    assert clew_cli("purge", held, "--dry-run").out == "nothing would be purged\n"
    with closing(sqlite3.connect(db)) as conn:
        assert list(conn.iterdump()) == dump
    assert clew_cli("receipts", "--json").json == []


def test_what_cannot_go_is_told(clew_cli: Run, talk: Talk) -> None:
    """A held session stays: exit 8 if others went, 1 if none did."""
    session, held = talk("a"), talk("b")
    clew_cli("hold", "add", held)
    done = clew_cli("purge", held, "--yes")
    assert (done.code, done.out) == (1, "nothing was purged\n")
    assert "is held" in done.err
    done = clew_cli("purge", session, held, "--yes", "--json")
    assert (done.code, done.json["sessions"]) == (8, [session])
    assert done.json["failures"][0]["session"] == held
    assert left(clew_cli) == [held]
    assert "not purged: " in clew_cli("receipts").out


def test_what_a_fork_shares_stays(clew_cli: Run, talk: Talk) -> None:
    """The receipt names who keeps it."""
    session = talk("a", "b", "c")
    fork = clew_cli("fork", session).out.strip()
    done = clew_cli("purge", session, "--yes")
    assert done.code == 0
    assert f"kept 3 messages of {session}: needed by {fork}" in done.out
    assert len(clew_cli("show", fork, "--jsonl").lines) == 3


def test_the_trash_is_emptied(clew_cli: Run, talk: Talk, db: str) -> None:
    """All of it, or what has been there since before a time; what is not in it stays."""
    with clew.open(db, clock=FakeClock()) as store:  # years ago
        old = store.sessions.create(title="old")
        old.trash()
    new, kept = talk("a"), talk("b")
    clew_cli("rm", new)
    assert clew_cli("purge", "--trash", "--before", "30d", "--yes", "--json").json["sessions"] == [old.id]
    assert clew_cli("purge", "--trash", "--yes", "--json").json["sessions"] == [new]
    assert left(clew_cli) == [kept]
    assert clew_cli("purge", "--all", "--yes", "--json").json["sessions"] == [kept]


def test_a_person_is_asked(clew_cli: Run, talk: Talk) -> None:
    """On a terminal the numbers are shown before; no is the default, and changes nothing."""
    session = talk("a", "b")
    for answer in ("n", ""):
        seen = at_a_terminal("purge", session, answers=[("Purge?", answer)])
        assert (seen.code, "nothing was purged" in seen.screen) == (1, True)
        assert "This deletes 1 conversation, 2 messages, " in seen.screen
    assert at_a_terminal("purge", session, answers=[("Purge?", "\x03")]).code == 130
    assert left(clew_cli) == [session]
    seen = at_a_terminal("purge", session, answers=[("Purge?", "y")])
    assert (seen.code, "purged 1 conversation" in seen.screen) == (0, True)
    assert left(clew_cli) == []


def test_a_reader_makes_it_pending(clew_cli: Run, talk: Talk, db: str) -> None:
    """A program that reads keeps the log from being emptied: the receipt says so, exit 8, and later it is finished."""
    session = talk(CANARY)
    with closing(sqlite3.connect(db, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM nodes").fetchone()
        done = clew_cli("purge", session, "--yes")
        assert done.code == 8
        assert "pending: traces in the write-ahead log, which another program" in done.out
        assert "the next program that opens or writes the store finishes this" in done.out
        pending = clew_cli("receipts", "--json").json[0]
        assert (pending["pending"], pending["finished_at"]) == (["wal"], None)
        assert "pending: traces in the write-ahead log" in clew_cli("receipts").out
    before = Path(db).read_bytes()
    assert clew_cli("verify").code == 0
    assert Path(db).read_bytes() == before  # who verifies only looks
    assert clew_cli("ls").code == 0
    finished = clew_cli("receipts", "--json").json[0]
    assert (finished["pending"], finished["id"]) == ([], pending["id"])
    assert finished["finished_at"]
    assert traces(db) == 0


def test_cut_short(clew_cli: Run, talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever interrupts it is told where to look for what has gone already."""
    first, second = talk("a"), talk("b")
    whole = Sessions.purge

    def interrupted(self: Sessions, *args: Any, dry_run: bool = False, **more: Any) -> Receipt:
        if dry_run:
            return whole(self, *args, dry_run=True, **more)
        whole(self, first)
        raise KeyboardInterrupt

    monkeypatch.setattr(Sessions, "purge", interrupted)
    done = clew_cli("purge", "--all", "--yes")
    assert (done.code, "clew receipts" in done.err) == (130, True)
    assert [one["sessions"] for one in clew_cli("receipts", "--json").json] == [[first]]
    assert left(clew_cli) == [second]


def test_what_a_server_may_keep() -> None:
    """Of a store on a server it is not said that every trace is cleared."""
    with clew.open(":memory:") as store:
        receipt = store.sessions.purge(store.sessions.create().id)
    assert "all traces in the files are cleared" in "".join(purge._ending(receipt))
    told = " ".join(purge._ending(receipt._replace(beyond=("pages", "wal", "replicas"))))
    assert ("replicas and backups" in told, "all traces" in told) == (True, False)


def test_a_purge_names_what_goes(clew_cli, talk):
    """Handle and title, in the question and in the receipt."""
    session = talk("a", title="Build fails")
    handle = clew_cli("show", session, "--json").json["session"]["handle"]
    asked = at_a_terminal("purge", session, answers=[("Purge?", "n")])
    assert asked.code == 1
    assert f"{handle} (Build fails)" in asked.screen
    assert f"  {handle} (Build fails)\n" in clew_cli("purge", session, "--yes").out
