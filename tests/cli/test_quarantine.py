"""`clew quarantine ls | sweep | restore | purge`."""

import re
import sqlite3

import pytest

from tests.reliability.tools import AS_IT_WAS, DEAR


def sql(db: str, statement: str) -> None:
    """Runs a statement behind the store's back."""
    conn = sqlite3.connect(db)
    conn.execute(statement)
    conn.commit()
    conn.close()


@pytest.fixture
def damaged(clew_cli, talk, db) -> tuple[str, str]:
    """A session of 120 messages, one of which is damaged: the ids of both."""
    session = talk(*(f"message {n}" for n in range(120)))
    node = clew_cli("show", session, "--jsonl").lines[7]["id"]
    sql(db, f"UPDATE nodes SET {DEAR} WHERE pos = (1 << 24) + 7")
    return session, node


def test_a_damaged_message_goes_and_comes_back(clew_cli, db, damaged):
    """sweep moves it and says so, ls lists it, show and verify know, restore brings it back once it can be read."""
    session, node = damaged
    assert (clew_cli("quarantine", "ls").out, clew_cli("quarantine", "ls").err) == ("", "The quarantine is empty.\n")
    assert clew_cli("verify").code == 7
    done = clew_cli("quarantine", "sweep")
    assert (done.code, done.out, done.err) == (0, f"{node}\n", "1 message of 121 items moved to quarantine\n")
    assert clew_cli("verify", "--json").json["counts"]["quarantined"] == 1
    shown = clew_cli("show", session, "--jsonl")
    assert (shown.code, shown.lines[7]["damaged"]) == (7, "it is in quarantine")
    (one,) = clew_cli("quarantine", "ls", "--json").json
    assert (one["node"], one["session"], one["kept"], one["at"][-1]) == (node, session, True, "Z")
    assert clew_cli("quarantine", "ls", "--jsonl").lines == [one]
    handle = shown.lines[7]["handle"]
    line = clew_cli("quarantine", "ls").out
    assert line.startswith(f"{handle}  just now  {one['bytes']} bytes  its checksum does not match")
    assert session in line

    assert clew_cli("quarantine", "restore", handle).code == 7
    sql(db, f"UPDATE nodes SET {AS_IT_WAS} WHERE pos = (1 << 24) + 7")
    back = clew_cli("quarantine", "restore", handle)
    assert (back.code, back.out, back.err) == (0, f"{node}\n", f"message {handle} restored\n")
    assert clew_cli("show", session, "--jsonl").lines[7]["text"] == "message 7"
    assert clew_cli("quarantine", "restore", handle).code == 3
    none = clew_cli("quarantine", "sweep")
    assert (none.code, none.out, none.err) == (0, "", "121 items read; no damaged messages\n")


def test_each_is_told_by_itself(clew_cli, db, damaged):
    """restore does what it can: exit 8 if some came back, and JSON says which."""
    _, node = damaged
    clew_cli("quarantine", "sweep")
    sql(db, f"UPDATE nodes SET {AS_IT_WAS} WHERE pos = (1 << 24) + 7")
    done = clew_cli("quarantine", "restore", "zzzzzz", node, "--json")
    assert done.code == 8
    assert [(item["asked"], item["ok"]) for item in done.json] == [("zzzzzz", False), (node, True)]
    assert (done.json[0]["code"], done.json[1]["node"]) == (3, node)


def test_dry_runs_change_nothing(clew_cli, db, damaged):
    """sweep and purge say what they would do, with the same exit code, and leave the store as it is."""
    _, node = damaged

    def dump():
        return list(sqlite3.connect(db).iterdump())

    before = dump()
    done = clew_cli("quarantine", "sweep", "--dry-run")
    assert (done.code, done.out) == (0, f"{node}\n")
    assert "would be moved to quarantine" in done.err
    assert dump() == before
    clew_cli("quarantine", "sweep")
    before = dump()
    done = clew_cli("quarantine", "purge", "--all", "--dry-run")
    assert (done.code, done.out) == (0, "")
    assert re.fullmatch(r"1 message \(\d+ bytes\) would be purged\n", done.err), done.err
    assert dump() == before


def test_too_many_stop_and_ask(clew_cli, talk, db):
    """More than a few: exit 1, the counts and what to do are named, nothing is moved; --force moves them."""
    talk("a", "b", "c")
    sql(db, f"UPDATE nodes SET {DEAR}")
    done = clew_cli("quarantine", "sweep")
    assert (done.code, done.out) == (1, "")
    assert "3 of 4 stored bodies" in done.err
    assert "force" in done.err
    assert clew_cli("quarantine", "sweep", "--dry-run").code == 1
    assert clew_cli("quarantine", "ls", "--json").json == []
    assert len(clew_cli("quarantine", "sweep", "--force", "--json").json["moved"]) == 3


def test_damage_that_stays_is_told(clew_cli, talk, db):
    """Exit 7 if nothing could be moved, 8 if something was; what stays is named."""
    session = talk("a", title="t")
    sql(db, "UPDATE refs SET data = CAST(data || 'x' AS BLOB)")
    done = clew_cli("quarantine", "sweep", "--force")
    assert (done.code, done.out) == (7, "")
    assert f"the data of session {session}" in done.err
    sql(db, f"UPDATE nodes SET {DEAR}")
    done = clew_cli("quarantine", "sweep", "--force", "--json")
    assert (done.code, len(done.json["moved"]), len(done.json["left"])) == (8, 1, 1)


def test_purging(clew_cli, damaged):
    """What was kept is gone, with a receipt; the message keeps its place."""
    _, node = damaged
    clew_cli("quarantine", "sweep")
    assert clew_cli("quarantine", "purge").code == clew_cli("quarantine", "purge", node, "--all").code == 2
    assert clew_cli("quarantine", "purge", "zzzzzz").code == 3
    receipt = clew_cli("quarantine", "purge", node, "--json").json
    assert (receipt["reason"], receipt["messages"], receipt["pending"]) == ("corruption-detected", 1, [])
    assert receipt["finished_at"].endswith("Z")
    (one,) = clew_cli("quarantine", "ls", "--json").json
    assert (one["bytes"], one["kept"]) == (0, False)
    assert "  purged  " in clew_cli("quarantine", "ls").out
    assert clew_cli("quarantine", "purge", "--all").err == "0 messages (0 bytes) purged\n"
    assert clew_cli("verify").code == 0


def test_strict_purges_at_once(clew_cli, damaged):
    """sweep --strict keeps nothing, and says so."""
    _, node = damaged
    done = clew_cli("quarantine", "sweep", "--strict")
    assert (done.code, done.out) == (0, f"{node}\n")
    assert re.search(r"^1 message \(\d+ bytes\) purged; receipt [0-9a-f-]{36}$", done.err, re.MULTILINE), done.err
    assert clew_cli("quarantine", "ls", "--json").json[0]["kept"] is False


def test_what_is_held_is_not_purged(clew_cli, damaged):
    """purge refuses it, and a strict sweep keeps its bytes; both name the session."""
    session, node = damaged
    clew_cli("hold", "add", session)
    done = clew_cli("quarantine", "sweep", "--strict")
    assert (done.code, done.out) == (0, f"{node}\n")
    assert f"conversation {session}: it is held" in done.err
    assert done.err.rstrip().endswith("; bytes kept")
    done = clew_cli("quarantine", "purge", node)
    assert (done.code, done.out) == (1, "")
    assert f"conversation {session}: it is held, and so is node {node}" in done.err
    assert clew_cli("quarantine", "ls", "--json").json[0]["kept"] is True


def test_help_and_a_store_that_is_not_there(clew_cli, tmp_path):
    """Without a command it says what there is; none of them makes a store."""
    alone = clew_cli("quarantine")
    assert alone.code == 2
    for command in ("ls", "sweep", "restore", "purge"):
        assert f"  {command} " in alone.err
        shown = clew_cli("quarantine", command, "--help")
        assert shown.code == 0
        assert "Example" in shown.out
        more = {"restore": ["k3m9qa"], "purge": ["--all"]}.get(command, [])
        assert clew_cli("quarantine", command, *more, "--db", str(tmp_path / "no.db")).code == 3
    assert not (tmp_path / "no.db").exists()
