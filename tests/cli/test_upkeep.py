"""`clew verify | backup`."""

import os
import sqlite3


def damage(db: str) -> None:
    """Changes one letter of a stored message behind the store's back."""
    conn = sqlite3.connect(db)
    conn.execute("UPDATE nodes SET body = CAST(replace(CAST(body AS TEXT), 'secret', 'sacred') AS BLOB)")
    conn.commit()
    conn.close()


def test_a_sound_store(clew_cli, talk):
    """Exit 0, and what was checked."""
    talk("a", "b")
    done = clew_cli("verify")
    assert (done.code, done.out.splitlines()[0]) == (0, "ok")
    assert done.out.splitlines()[1].startswith("checked 1 tree, 1 run, 2 nodes, ")
    report = clew_cli("verify", "--json").json
    assert (report["ok"], report["damage"], report["counts"]["nodes"]) == (True, [], 2)
    assert clew_cli("verify", "--jsonl").out == ""


def test_damage_is_named(clew_cli, talk, db):
    """Exit 7, with the session and the position of what is damaged, and none of its content."""
    session = talk("a", "a secret", "c")
    damage(db)
    done = clew_cli("verify")
    assert done.code == 7
    assert done.out.startswith("damaged  node ")
    assert "node node" not in done.out
    assert session in done.out
    assert "sacred" not in done.out + done.err
    report = clew_cli("verify", "--json")
    assert report.code == 7
    assert report.json["ok"] is False
    assert any(one["session"] == session and one["position"] == 1 for one in report.json["damage"])
    assert clew_cli("verify", "--jsonl").lines == report.json["damage"]


def test_a_store_that_is_not_there(clew_cli, db):
    """Neither command makes one."""
    assert clew_cli("verify").code == 3
    assert clew_cli("backup", db + ".bak").code == 3
    assert not os.path.exists(db)


def test_a_backup_is_a_store(clew_cli, talk, tmp_path):
    """The copy opens, verifies and says the same; an existing file is never overwritten."""
    session = talk("a", "b")
    path = str(tmp_path / "copy.db")
    done = clew_cli("backup", path)
    assert (done.code, done.out.strip()) == (0, path)
    assert clew_cli("verify", "--db", path).code == 0
    assert clew_cli("--db", path, "show", session, "--jsonl").out == clew_cli("show", session, "--jsonl").out
    again = clew_cli("backup", path)
    assert again.code == 1
    assert again.err.startswith("clew: ")
    made = clew_cli("backup", path + "2", "--json").json
    assert (made["path"], made["size"]) == (path + "2", os.path.getsize(path + "2"))


def test_a_head_shows_a_rollback(clew_cli, talk, db, tmp_path):
    """A head is one line; a store that has gone on is sound, and an earlier copy is exit code 7."""
    talk("a", "b")
    assert clew_cli("backup", str(tmp_path / "old.db")).code == 0
    talk("c")
    printed = clew_cli("verify", "--print-head")
    assert (printed.code, len(printed.out.splitlines())) == (0, 1)
    head = printed.out.strip()
    assert clew_cli("verify", "--print-head", "--json").json == {"head": head}
    talk("d")
    assert clew_cli("verify", "--since", head).code == 0
    rolled = clew_cli("verify", "--since", head, "--db", str(tmp_path / "old.db"))
    assert rolled.code == 7
    assert "rolled back" in rolled.out
    report = clew_cli("verify", "--since", head, "--json", "--db", str(tmp_path / "old.db"))
    assert (report.code, report.json["damage"][0]["what"]) == (7, "head")


def test_what_is_no_head(clew_cli, talk):
    """It is told what to give instead; the two options do not go together."""
    talk("a")
    refused = clew_cli("verify", "--since", "x")
    assert refused.code == 1
    assert "--print-head" in refused.err
    assert clew_cli("verify", "--since", "x", "--print-head").code == 2
