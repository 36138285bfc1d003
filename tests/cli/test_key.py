"""`clew key`: made, sealed with, exchanged, printed, brought back; cut short and gone on with."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import clew
from clew import agents
from clew.cli.output.progress import ProgressLine
from tests.cli.conftest import Run
from tests.cli.terminal import at_a_terminal
from tests.reliability.tools import python

CANARY = b"c4nary-of-the-test"
LAST = "the last word"
WORDS, OTHER_WORDS = "correct horse battery", "staple and so on"


def make(path: Path, key: bytes | None = None) -> str:
    """A key file with a new key, or this one."""
    path.write_text((key or clew.keys.generate()).hex())
    path.chmod(0o600)
    return str(path)


def id_of(path: str) -> str:
    return clew.keys.key_id(clew.keys.from_file(path)).hex()


@pytest.fixture
def keys(tmp_path: Path) -> tuple[str, str]:
    """Two key files."""
    return make(tmp_path / "one.key"), make(tmp_path / "two.key")


@pytest.fixture
def filled(db: str) -> str:
    """A plain store with more rows than a few batches, and the id of its session."""
    with clew.open(db) as store:
        session = store.sessions.create(title="Build fails")
        session.append([clew.user(f"{CANARY.decode()} {number}") for number in range(2500)])
        session.append(clew.assistant(LAST))
    return session.id


def traces(db: str) -> int:
    return sum(file.read_bytes().count(CANARY) for file in Path(db).parent.glob("chats.db*"))


# -- keys themselves


def test_generate_makes_a_file_for_its_owner_alone(clew_cli: Run, tmp_path: Path) -> None:
    """The file is new, and never replaced, not even behind a link; the key is not shown."""
    path = tmp_path / "new.key"
    done = clew_cli("key", "generate", "--out", str(path))
    assert (done.code, done.out.strip()) == (0, str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert id_of(str(path)) in done.err
    assert path.read_text().strip() not in done.out + done.err
    before = path.read_bytes()
    (tmp_path / "link.key").symlink_to(tmp_path / "nowhere")
    for taken in (path, tmp_path / "link.key", tmp_path):
        assert clew_cli("key", "generate", "--out", str(taken)).code == 1
    assert path.read_bytes() == before
    assert not (tmp_path / "nowhere").exists()
    assert clew_cli("key", "generate", "--out", str(tmp_path / "no" / "x.key")).code == 1
    assert clew_cli("key", "generate", "--out", "").code == 2
    assert clew_cli("key", "generate", "--out", "x", "--keyring", "y").code == 2


def test_generate_without_a_place_is_for_programs(clew_cli: Run) -> None:
    """Into a pipe the key goes as hex digits; a terminal does not get to see it."""
    first, second = (clew_cli("key", "generate").out for _ in range(2))
    assert re.fullmatch("[0-9a-f]{64}\n", first)
    assert first != second
    made = clew_cli("key", "generate", "--json").json
    assert clew.keys.key_id(bytes.fromhex(made["key"])).hex() == made["key_id"]
    seen = at_a_terminal("key", "generate")
    assert (seen.code, "refusing to print a key to a terminal" in seen.screen) == (2, True)
    assert not re.search("[0-9a-f]{64}", seen.screen)


def test_a_recovery_key_goes_to_paper_and_back(clew_cli: Run, db: str, keys: tuple[str, str], tmp_path: Path) -> None:
    """What export-recovery prints, from-recovery makes a key file of, which opens the store; a typing error is told."""
    clew_cli("append", "--key-file", keys[0], input='{"text": "a"}')
    done = clew_cli("key", "export-recovery", "--key-file", keys[0])
    assert done.code == 0
    assert "Anyone who has this key can read the whole store" in done.err
    assert id_of(keys[0]) in done.err
    paper = done.out.strip()
    assert paper not in done.err
    assert clew_cli("key", "export-recovery", "--key-file", keys[0], "--json").json == {
        "recovery_key": paper, "key_id": id_of(keys[0]),
    }  # fmt: skip
    copy = str(tmp_path / "copy.key")
    wrong = clew_cli("key", "from-recovery", "--out", copy, input=paper[:-1] + ("2" if paper[-1] != "2" else "3"))
    assert (wrong.code, os.path.exists(copy)) == (1, False)
    back = clew_cli("key", "from-recovery", "--out", copy, input=paper.lower().replace("-", " ") + "\n", env={})
    assert (back.code, back.out.strip()) == (0, copy)
    assert clew_cli("ls", "--key-file", copy).code == 0
    assert clew_cli("key", "from-recovery", "--out", copy, input=paper).code == 1


def test_a_recovery_key_on_a_terminal(clew_cli: Run, db: str, tmp_path: Path) -> None:
    """It is shown only to whoever says yes, also for a passphrase; typed, it may be wrong twice."""
    clew_cli("append", input='{"text": "a"}', env={"CLEW_PASSPHRASE": WORDS})
    env = {"CLEW_PASSPHRASE": WORDS}
    paper = clew_cli("key", "export-recovery", env=env).out.strip()
    refused = at_a_terminal("key", "export-recovery", answers=[("Print it to this terminal?", "n")], env=env)
    assert (refused.code, paper in refused.screen) == (1, False)
    shown = at_a_terminal("key", "export-recovery", answers=[("Print it to this terminal?", "y")], env=env)
    assert (shown.code, paper in shown.screen) == (0, True)
    assert at_a_terminal("key", "export-recovery", piped=True, env=env).out.strip() == paper
    copy = str(tmp_path / "copy.key")
    typed = at_a_terminal(
        "key", "from-recovery", "--out", copy, answers=[("Recovery key", "x"), ("Recovery key", paper)]
    )
    assert typed.code == 0, typed.screen
    assert clew_cli("ls", "--key-file", copy).code == 0


def test_a_plain_store_has_no_recovery_key(clew_cli: Run, filled: str) -> None:
    """There is nothing to be printed."""
    done = clew_cli("key", "export-recovery")
    assert (done.code, done.out) == (1, "")
    assert "is not sealed" in done.err


# -- sealing and unsealing


def test_a_plain_store_is_sealed_and_unsealed(clew_cli: Run, db: str, filled: str, keys: tuple[str, str]) -> None:
    """Sealed, none of its words is left in any file; unsealed, it opens without a key; again is no error."""
    assert clew_cli("search", "canary", "--json").code in (0, 1)  # the index on disk has words too
    assert traces(db) > 2000
    assert clew_cli("key", "status", "--json").json["state"] == "plain"
    done = clew_cli("key", "seal", "--key-file", keys[0])
    assert (done.code, done.out.strip()) == (0, id_of(keys[0]))
    assert traces(db) == 0
    assert clew_cli("show", filled).code == 6
    assert LAST in clew_cli("show", filled, "--last", "1", "--key-file", keys[0]).out
    again = clew_cli("key", "seal", "--key-file", keys[0])
    assert (again.code, "is already sealed" in again.err) == (0, True)
    assert clew_cli("key", "seal", "--key-file", keys[1]).code == 6
    status = clew_cli("key", "status", "--key-file", keys[0], "--json").json
    assert status == {
        "state": "sealed", "key_ids": [id_of(keys[0])], "passphrase": False, "done": 0, "total": 0, "unclean": False,
    }  # fmt: skip
    assert clew_cli("key", "unseal", "--key-file", keys[0], "--json").json["state"] == "plain"
    assert LAST in clew_cli("show", filled, "--last", "1").out
    again = clew_cli("key", "unseal", "--key-file", keys[0])
    assert (again.code, "is not sealed" in again.err) == (0, True)


def test_a_plain_store_names_where_the_key_came_from(clew_cli: Run, filled: str, keys: tuple[str, str]) -> None:
    """A key in the settings refuses a store that is not sealed; the hint names the setting."""
    assert clew_cli("config", "set", "key_file", keys[0]).code == 0
    refused = clew_cli("show", filled)
    assert (refused.code, "is not sealed" in refused.err) == (1, True)
    assert "The key comes from key_file in" in refused.err
    assert clew_cli("config", "unset", "key_file").code == 0
    assert clew_cli("show", filled).code == 0


def test_sealing_names_mirrors(clew_cli: Run, db: str, keys: tuple[str, str], tmp_path: Path) -> None:
    """A mirror stays clear text when its store is sealed: sealing says so, and so does the doctor until it is gone."""
    root = tmp_path / "mirror"
    with agents.open(db, mirror=root) as sessions:
        sessions.create(cwd="/src").append_and_save(clew.user("secret"))
    done = clew_cli("key", "seal", "--key-file", keys[0])
    assert done.code == 0
    assert f"{root} still contains conversations in clear text" in done.err
    checks = clew_cli("doctor", "--key-file", keys[0], "--json").json
    assert [one["what"] for one in checks if one["name"] == "mirror"] == [
        f"{root} contains conversations in clear text"
    ]
    shutil.rmtree(root)
    assert "in clear text" not in clew_cli("doctor", "--key-file", keys[0]).out


def test_a_reader_keeps_traces(clew_cli: Run, db: str, filled: str, keys: tuple[str, str]) -> None:
    """While somebody reads, readable traces stay: that is said, with exit code 8, until someone could clear them."""
    with closing(sqlite3.connect(db, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM nodes").fetchone()
        done = clew_cli("key", "seal", "--key-file", keys[0])
        assert (done.code, done.out.strip(), "another program is reading" in done.err) == (8, id_of(keys[0]), True)
        status = clew_cli("key", "status", "--key-file", keys[0])
        assert (status.code, "traces of the earlier state" in status.out) == (0, True)
        assert clew_cli("key", "status", "--key-file", keys[0], "--json").json["unclean"]
        assert "traces of the state before" in clew_cli("doctor", "--key-file", keys[0]).out
        assert traces(db) > 0
    assert clew_cli("append", filled, "--key-file", keys[0], input='{"text": "more"}').code == 0
    assert traces(db) == 0
    assert not clew_cli("key", "status", "--key-file", keys[0], "--json").json["unclean"]


def test_sealing_needs_a_key(clew_cli: Run, filled: str, tmp_path: Path) -> None:
    """Without one, with two, or with one that is none, nothing is changed; and no store is made."""
    assert clew_cli("key", "seal").code == 2
    assert clew_cli("key", "seal", "--passphrase", env={"CLEW_KEY": "00" * 32}).code == 2
    assert clew_cli("key", "seal", "--passphrase").code == 2  # nobody to ask
    assert clew_cli("key", "seal", env={"CLEW_KEY": ""}).code == 6
    assert clew_cli("key", "status", "--json").json["state"] == "plain"
    for command in ("seal", "unseal", "status", "export-recovery"):
        assert clew_cli("key", command, "--db", str(tmp_path / "no.db"), env={"CLEW_KEY": "00" * 32}).code == 3
    assert not (tmp_path / "no.db").exists()


def test_a_passphrase_is_chosen_on_a_terminal(clew_cli: Run, db: str, filled: str) -> None:
    """It is typed twice, the same; and somebody is reminded to put the key away."""
    new, again = "New passphrase:", "Repeat passphrase:"
    differ = at_a_terminal("key", "seal", "--passphrase", answers=[(new, WORDS), (again, OTHER_WORDS)])
    assert (differ.code, "do not match" in differ.screen) == (6, True)
    assert at_a_terminal("key", "seal", "--passphrase", answers=[(new, "")]).code == 6
    assert clew_cli("key", "status", "--json").json["state"] == "plain"
    seen = at_a_terminal("key", "seal", "--passphrase", answers=[(new, WORDS), (again, WORDS)])
    assert seen.code == 0, seen.screen
    assert "clew key export-recovery" in seen.screen
    assert WORDS not in seen.screen
    status = clew_cli("key", "status", env={"CLEW_PASSPHRASE": WORDS})
    assert status.out.splitlines()[-1] == "from   a passphrase"


@pytest.mark.usefixtures("filled")
def test_sealing_asks_on_a_terminal(clew_cli: Run, keys: tuple[str, str]) -> None:
    """Nothing changes without a yes; `--yes` does not ask."""
    asked = at_a_terminal("key", "seal", "--key-file", keys[0], answers=[("Seal the store?", "n")])
    assert (asked.code, "nothing was changed" in asked.screen) == (1, True)
    assert clew_cli("key", "status", "--json").json["state"] == "plain"
    done = at_a_terminal("key", "seal", "--yes", "--key-file", keys[0])
    assert (done.code, "Seal the store?" in done.screen) == (0, False)
    assert clew_cli("key", "status", "--key-file", keys[0], "--json").json["state"] == "sealed"


# -- exchanging


@pytest.mark.parametrize("deep", [[], ["--deep"]])
def test_a_key_is_exchanged(deep: list[str], clew_cli: Run, filled: str, keys: tuple[str, str]) -> None:
    """The new key opens the store and the old one no more; the same command again finds it done."""
    old, new = keys
    clew_cli("key", "seal", "--key-file", old)
    command = ["key", "rotate", *deep, "--key-file", old, "--new-key-file", new]
    done = clew_cli(*command)
    assert (done.code, done.out.strip()) == (0, id_of(new))
    assert LAST in clew_cli("show", filled, "--last", "1", "--key-file", new).out
    assert clew_cli("ls", "--key-file", old).code == 6
    again = clew_cli(*command)
    assert (again.code, "already uses the new key" in again.err) == (0, True)
    assert clew_cli("verify", "--key-file", new).code == 0


def test_a_new_key_comes_from_anywhere(clew_cli: Run, filled: str, keys: tuple[str, str]) -> None:
    """From a file, from a variable, from a person who types a passphrase; never from two places, and it is there."""
    old, new = keys
    clew_cli("key", "seal", "--key-file", old)
    rotate = ["key", "rotate", "--key-file", old]
    assert clew_cli(*rotate).code == 2
    two = clew_cli(*rotate, "--new-key-file", new, env={"CLEW_NEW_PASSPHRASE": WORDS})
    assert two.code == 2
    assert "CLEW_NEW_PASSPHRASE" in two.err
    assert "--new-key-file" in two.err
    assert clew_cli(*rotate, "--new-key-file", new + "no").code == 6
    assert not os.path.exists(new + "no")
    assert clew_cli(*rotate, "--new-key-file", old).code == 1
    assert clew_cli(*rotate, env={"CLEW_NEW_KEY": Path(new).read_text()}).code == 0
    answers = [("New passphrase:", WORDS), ("Repeat passphrase:", WORDS)]
    seen = at_a_terminal("key", "rotate", "--key-file", new, "--new-passphrase", answers=answers)
    assert seen.code == 0, seen.screen
    again = clew_cli("key", "rotate", env={"CLEW_PASSPHRASE": WORDS, "CLEW_NEW_PASSPHRASE": OTHER_WORDS})
    assert again.code == 0, again.err
    assert clew_cli("ls", env={"CLEW_PASSPHRASE": OTHER_WORDS}).code == 0
    assert clew_cli("ls", env={"CLEW_PASSPHRASE": WORDS}).code == 6


def test_a_plain_store_has_no_key_to_exchange(clew_cli: Run, filled: str, keys: tuple[str, str]) -> None:
    """It is sealed, not rotated."""
    done = clew_cli("key", "rotate", "--key-file", keys[0], "--new-key-file", keys[1])
    assert done.code == 1
    assert "Seal it with: clew key seal" in done.err


# -- cut short


def cut_short(monkeypatch: pytest.MonkeyPatch, after: int) -> Callable[[], None]:
    """Ctrl-C comes when so many batches are done; returns what takes it back."""
    calls = []

    def interrupt(self: ProgressLine, done: int, total: int) -> None:
        calls.append(done)
        if len(calls) == after:
            raise KeyboardInterrupt

    real = ProgressLine.__call__
    monkeypatch.setattr(ProgressLine, "__call__", interrupt)
    return lambda: monkeypatch.setattr(ProgressLine, "__call__", real)


def test_it_goes_on_after_an_interrupt(
    clew_cli: Run, db: str, filled: str, keys: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C says that nothing is lost; meanwhile the store is used with its key; the same command goes on."""
    old, new = keys
    steps = [
        ("sealing", ["seal", "--key-file", old], [old]),
        ("rotating", ["rotate", "--key-file", old, "--new-key-file", new, "--deep"], [old, new]),
        ("unsealing", ["unseal", "--key-file", new], [new]),
    ]
    for state, command, opening in steps:
        go_on = cut_short(monkeypatch, 3)
        cut = clew_cli("key", *command)
        go_on()
        assert (cut.code, cut.out) == (130, "")
        assert f"Nothing is lost; run the same 'clew key {command[0]}' again to continue." in cut.err
        for key in opening:
            status = clew_cli("key", "status", "--key-file", key, "--json").json
            assert status["state"] == state
            assert 0 < status["done"] < status["total"]
            assert LAST in clew_cli("show", filled, "--last", "1", "--key-file", key).out
        assert (
            f"run the same 'clew key {command[0]}' again to continue"
            in clew_cli("key", "status", "--key-file", key).out
        )
        if state == "rotating":
            other = clew_cli("key", "rotate", "--key-file", old, "--new-key-file", new)
            assert (other.code, "deep key rotation" in other.err) == (1, True)
            passphrase = clew_cli("key", "rotate", "--deep", "--key-file", old, env={"CLEW_NEW_PASSPHRASE": WORDS})
            assert (passphrase.code, "to another key" in passphrase.err) == (1, True)
        if state == "sealing":
            assert clew_cli("key", "unseal", "--key-file", old).code == 1
        done = clew_cli("key", *command)
        assert done.code == 0, done.err
        assert "Continuing: " in done.err
        assert "Continuing" not in clew_cli("key", *command).err
    assert clew_cli("verify").code == 0


KILLED = """
import os, sys, clew.upkeep.rekey
from clew.cli.root import cli
real, calls = clew.upkeep.rekey._step, []
def step(*args):
    calls.append(1)
    if len(calls) == 4:
        os.kill(os.getpid(), 9)
    return real(*args)
clew.upkeep.rekey._step = step
cli.run(sys.argv[1:])
"""


def test_it_goes_on_after_a_kill(clew_cli: Run, db: str, filled: str, keys: tuple[str, str]) -> None:
    """So it does after SIGKILL; and then none of the words is left."""
    old, new = keys
    for command in (["seal", "--key-file", old], ["rotate", "--deep", "--key-file", old, "--new-key-file", new]):
        victim = python(KILLED, "key", *command)
        victim.communicate(timeout=60)
        assert victim.returncode == -9
        assert LAST in clew_cli("show", filled, "--last", "1", "--key-file", old).out
        done = clew_cli("key", *command)
        assert (done.code, "Continuing: " in done.err) == (0, True)
    assert traces(db) == 0
    assert clew_cli("verify", "--key-file", new).code == 0


def test_a_machine_without_cryptography_fails_with_a_hint(tmp_path: Path) -> None:
    """`key seal` says what to install, exit 1: it is not the code for a busy store, where trying again helps."""
    code = (
        "import runpy, sys\nsys.modules['cryptography'] = None\nsys.argv[0] = 'clew'\n"
        "runpy.run_module('clew', run_name='__main__', alter_sys=True)"
    )
    db, key = tmp_path / "chats.db", tmp_path / "new.key"
    with clew.open(db):
        pass
    key.write_bytes(bytes(range(32)))
    key.chmod(0o600)
    process = python(code, "key", "seal", "--key-file", key, "--db", db)
    _, said = process.communicate(timeout=60)
    assert "pip install cryptography" in said
    assert process.returncode == 1
