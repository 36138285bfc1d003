"""`clew doctor`."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

import clew
from clew.cli.commands import doctor
from clew.engine.node import node_row
from clew.store.parts import Parts
from tests.cli.conftest import Run


def states(clew_cli: Run, *flags: str) -> dict[str, str]:
    return {one["name"]: one["state"] for one in clew_cli("doctor", *flags, "--json").json}


def test_all_is_well(clew_cli: Run, talk: Callable[..., str], db: str) -> None:
    """It says so, reads no conversation, and changes nothing."""
    talk("a canary")
    before = Path(db).read_bytes()
    done = clew_cli("doctor")
    assert (done.code, done.err, "canary" in done.out) == (0, "", False)
    assert set(states(clew_cli).values()) == {"ok"}
    assert Path(db).read_bytes() == before


def test_a_store_that_does_not_open(clew_cli: Run, talk: Callable[..., str], db: str, tmp_path: Path) -> None:
    """Is told among the rest, with the exit code that says why."""
    talk("a")
    conn = sqlite3.connect(db)
    (tmp_path / "text.db").write_text("no database")
    (tmp_path / "cut.db").write_bytes(conn.serialize()[: 8 * 4096])
    clew.open(tmp_path / "sealed.db", key=b"k" * 32).close()
    for name, code in (("none", 3), ("text", 1), ("cut", 7), ("sealed", 6)):
        done = clew_cli("doctor", "--db", str(tmp_path / f"{name}.db"), "--json")
        assert (done.code, done.err) == (code, "")
        assert [one["state"] for one in done.json if one["name"] in ("clew", "settings")] == ["ok", "ok"]
        assert (done.json[-1]["name"], done.json[-1]["state"]) == ("store", "wrong")


def test_before_the_first_message(clew_cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no store yet, and nothing is wrong with that."""
    monkeypatch.delenv("CLEW_DB")
    done = clew_cli("doctor")
    assert (done.code, "does not exist yet" in done.out) == (0, True)
    assert states(clew_cli)["store"] == "note"


def test_settings_that_cannot_be_read(clew_cli: Run, talk: Callable[..., str]) -> None:
    """Are what is wrong, and the store is not looked for."""
    talk("a")
    Path(".clew.toml").write_text("no = = toml")
    done = clew_cli("doctor", "--json")
    assert done.code == 1
    assert (done.json[-1]["name"], "is not valid TOML" in done.json[-1]["what"]) == ("settings", True)


def test_a_file_beside_the_store_that_cannot_be_written(clew_cli: Run, talk: Callable[..., str], db: str) -> None:
    """Keeps the store from being written, whatever its own mode is."""
    talk("a")
    Path(f"{db}-wal").touch(0o400)
    done = clew_cli("doctor")
    assert (done.code, f"chmod 600 {db}-wal" in done.out) == (1, True)
    os.chmod(f"{db}-wal", 0o600)
    assert clew_cli("doctor").code == 0


def test_what_is_wrong_is_named(
    clew_cli: Run, talk: Callable[..., str], db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what to do, and exit code 1."""
    talk("a")
    os.chmod(db, 0o644)
    done = clew_cli("doctor")
    assert (done.code, "chmod 600" in done.out) == (1, True)
    os.chmod(db, 0o600)
    told = tmp_path / "settings" / "clew" / "config.toml"
    told.parent.mkdir(parents=True)
    told.write_text("modle = 'x'\n")
    assert states(clew_cli)["file"] == "note"
    told.unlink()
    monkeypatch.setattr(doctor, "SPACE", 1 << 62)
    monkeypatch.setattr(doctor, "LOG", -1)
    monkeypatch.setattr(doctor, "EXTRAS", {"moon": "no_such_module"})
    assert states(clew_cli) == {
        "clew": "ok", "extras": "note", "settings": "ok", "store": "ok", "log": "note", "space": "wrong", "key": "ok",
    }  # fmt: skip


def test_a_folder_that_is_copied_elsewhere(clew_cli: Run, tmp_path: Path) -> None:
    """Is no place for a store."""
    (tmp_path / "Dropbox").mkdir()
    path = str(tmp_path / "Dropbox" / "chats.db")
    clew.open(path).close()
    assert states(clew_cli, "--db", path)["folder"] == "wrong"


def test_work_that_was_cut_short(
    clew_cli: Run, talk: Callable[..., str], db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exchange of keys, messages in quarantine."""
    talk("a")
    with clew.open(db) as store:
        node = store.nodes.list().items[0]
        Parts.of(store).engine.write(lambda tx: tx.maintenance.set_bodies("nodes", [(b"spoiled", node_row(node)[0])]))
        store.quarantine.sweep(force=True)
        assert states(clew_cli)["quarantine"] == "note"
        status = store.key_status()
    monkeypatch.setattr(clew.Store, "key_status", lambda _: status._replace(state="rotating"))
    assert states(clew_cli)["key"] == "wrong"


def test_quick_answers_a_readiness_probe(clew_cli: Run, talk: Callable[..., str], db: str, tmp_path: Path) -> None:
    """One line or one value, without the other checks; the exit code of opening if the store cannot be read."""
    talk("a")
    os.chmod(db, 0o644)  # a whole check would say so
    done = clew_cli("doctor", "--quick")
    assert (done.code, done.err, done.out.count("\n"), " answered in " in done.out) == (0, "", 1, True)
    (one,) = clew_cli("doctor", "--quick", "--json").json
    assert (one["name"], one["state"]) == ("store", "ok")
    clew.open(tmp_path / "sealed.db", key=b"k" * 32).close()
    for name, code in (("none", 3), ("sealed", 6)):
        done = clew_cli("doctor", "--quick", "--db", str(tmp_path / f"{name}.db"), "--json")
        assert (done.code, done.err, [one["state"] for one in done.json]) == (code, "", ["wrong"])


def test_which_sqlite_has_the_wal_reset_bug() -> None:
    """Versions before 3.51.3, but for two older lines that have the fix."""
    bad = [(3, 37, 0), (3, 40, 1), (3, 44, 5), (3, 45, 0), (3, 50, 6), (3, 51, 2)]
    good = [(3, 44, 6), (3, 50, 7), (3, 51, 3), (3, 52, 0), (3, 53, 1)]
    assert [doctor.resets_badly(version) for version in (*bad, *good)] == [True] * len(bad) + [False] * len(good)
