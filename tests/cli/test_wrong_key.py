"""P7: a wrong key destroys nothing, whatever the command."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import click
import pytest

import clew
from tests.cli.conftest import Done, Run, leaves
from tests.reliability.tools import python

KEY, OTHER = bytes(range(32)), bytes(range(1, 33))
SEALED, GIVEN = (clew.keys.key_id(key).hex() for key in (KEY, OTHER))

WRITE = """
import os, sys, time, clew
from clew.checkpoints import Checkpoints
from tests.reliability import sample
store = clew.open(sys.argv[1], key=bytes(range(32)))
sample.fill(store, words=5)
session = store.sessions.create(title="The one", cwd="/src")
node, last = session.append([clew.user("lint"), clew.assistant("step")])
checkpoints = Checkpoints(session, os.path.dirname(sys.argv[1]))
checkpoints.capture(node.id, ["none.txt"])
session.append(clew.user("more"))
checkpoints.rewind(last.id, mode="conversation")
gone = store.sessions.create(title="In the trash")
gone.append(clew.user("gone"))
gone.trash()
spoiled = store.sessions.create(title="Damaged").append(clew.user("spoiled"))
store._engine.write(lambda tx: tx.maintenance.set_bodies("nodes", [(b"spoiled", spoiled._row[0])]))
store.quarantine.sweep(force=True)
clew.retention.set_policy(store, clew.retention.Policy())
frozen = store.snapshots.take(session).id
loose = store.nodes.save(clew.user("loose"))[0].id
print(session.id, node.id, gone.id, spoiled.id, frozen, loose, flush=True)
time.sleep(60)
"""


class Crashed:
    """A sealed store whose writer was killed, with everything still in the write-ahead log; each test has a copy."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "chats.db"
        writer = python(WRITE, self.path)
        assert writer.stdout is not None
        ids = writer.stdout.readline().split()
        self.session, self.node, self.trashed, self.spoiled, self.snapshot, self.loose = ids
        os.kill(writer.pid, signal.SIGKILL)
        writer.communicate()
        assert (folder / "chats.db-wal").stat().st_size > 0

    def copy(self, folder: Path) -> Path:
        folder.mkdir()
        for end in ("", "-wal"):
            shutil.copy(f"{self.path}{end}", folder)
        return folder / "chats.db"


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Crashed:
    return Crashed(tmp_path_factory.mktemp("crashed"))


def arguments(name: str, command: click.Command, crashed: Crashed, work: Path) -> list[str]:
    """A command line that the command would carry out: what it requires, and what it needs beside that."""
    words = {"message": crashed.node, "title": "Other", "words": "lint", "path": str(work / "copy.db")}
    words |= {"source": str(crashed.path), "target": str(work / "copy.db")}
    words["folder"] = str(tree(work.parent / "tree"))
    words |= {"old": "/src", "new": "/elsewhere", "setting": "model", "value": "m", "shell": "bash"}
    other = {"trash restore": crashed.trashed, "quarantine restore": crashed.spoiled}
    other |= {"conversation print": crashed.node, "conversation delete": crashed.loose}
    other |= dict.fromkeys(("snapshot show", "snapshot restore", "snapshot convert", "snapshot rm"), crashed.snapshot)
    given = [
        words.get(param.name or "", other.get(name, crashed.session))
        for param in command.params
        if isinstance(param, click.Argument)
        and (param.required or param.name in ("session", "sessions") or name in NAMED)
    ]
    root = ["--root", str(crashed.path.parent)]
    flags = {
        "label": ["label"],
        "chat": ["-m", "offline"],
        "run": ["--as", "scout", "-m", "offline"],
        "rewind": [crashed.node],
        "undo": root,
        "checkpoint ls": root,
        "checkpoint show": [crashed.node, *root],
        "checkpoint diff": [crashed.node, *root],
        "hook install": ["--dry-run"],
        "import": [words["folder"]],
        "purge": ["--yes"],
        "redact": ["--scan"],
        "snapshot convert": ["--to", "openai"],
        "retention set": ["--days", "14"],
        "quarantine purge": ["--all"],
        "key rotate": ["--new-key-file", str(work / "new.key")],
        "key generate": ["--out", str(work / "made.key")],
        "key from-recovery": ["--out", str(work / "made.key")],
    }
    return [*name.split(), *given, *flags.get(name, [])]


def tree(folder: Path) -> Path:
    """A session kept as files, to be imported."""
    place = folder / "sessions" / "01890a5d-ac96-774b-bcce-b302099a8057"
    place.mkdir(parents=True, exist_ok=True)
    (place / "metadata.json").write_text(f'{{"id": "{place.name}"}}')
    (place / "messages.jsonl").write_text('{"role": "user", "content": "lint"}\n')
    return folder


def stdin(name: str) -> str:
    return clew.keys.recovery(KEY) if name == "key from-recovery" else '{"text": "more"}\n'


def state(folder: Path) -> dict[str, str]:
    """Every file by its hash, but for what is not data: SQLite's shared memory, and where writers queue."""
    return {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.iterdir())
        if not file.name.endswith(("-shm", "-lock"))
    }


def key_file(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    path.chmod(0o600)
    return str(path)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A folder with keys, outside of the store's."""
    folder = tmp_path / "work"
    folder.mkdir()
    told = tmp_path / "settings" / "clew" / "config.toml"
    told.parent.mkdir(parents=True)
    told.write_text('model = "m"\n')
    for name, content in (("wrong.key", OTHER), ("empty.key", b""), ("short.key", OTHER[:31]), ("new.key", b"n" * 32)):
        key_file(folder / name, content)
    return folder


KEYS: dict[str, Callable[[Path], dict[str, str]]] = {
    "wrong file": lambda work: {"CLEW_KEY_FILE": str(work / "wrong.key")},
    "wrong key": lambda work: {"CLEW_KEY": OTHER.hex()},
    "wrong passphrase": lambda work: {"CLEW_PASSPHRASE": "wrong words"},
    "empty file": lambda work: {"CLEW_KEY_FILE": str(work / "empty.key")},
    "short file": lambda work: {"CLEW_KEY_FILE": str(work / "short.key")},
    "no file": lambda work: {"CLEW_KEY_FILE": str(work / "none.key")},
    "no name": lambda work: {"CLEW_KEY_FILE": ""},
    "empty key": lambda work: {"CLEW_KEY": ""},
    "malformed key": lambda work: {"CLEW_KEY": KEY.hex()[1:]},
    "empty passphrase": lambda work: {"CLEW_PASSPHRASE": ""},
    "empty name in the keyring": lambda work: {"CLEW_KEYRING": ""},
    "none": lambda work: {},
}
LEAVES = leaves()
NAMED = ("fork", "show", "export", "conversation print")
"""Commands that find a conversation themselves if none is named; here one is."""
STORELESS = {
    "tour", "key generate", "key from-recovery", "config show", "config set", "config unset", "completion", "help",
    "hook install", "hook uninstall", "hook status", "statusline", "copy",  # a copy needs no key: it stays sealed
}  # fmt: skip
"""Commands that open no store of the user's: no key can be wrong for them."""


def test_every_command_that_opens_a_store_takes_a_key() -> None:
    """Those that have --db, and no others, have --key-file; only a few have neither."""
    for name, command in LEAVES.items():
        flags = {flag for param in command.params for flag in param.opts}
        assert ("--db" in flags) == ("--key-file" in flags) == (name not in STORELESS), name


@pytest.mark.usefixtures("quick_passphrases")
@pytest.mark.parametrize("name", LEAVES)
def test_a_wrong_key_changes_nothing(name: str, clew_cli: Run, crashed: Crashed, tmp_path: Path, work: Path) -> None:
    """With a wrong, an empty, a malformed or no key, every command ends with 6, names the keys, and writes nothing."""
    path = crashed.copy(tmp_path / "store")
    args = arguments(name, LEAVES[name], crashed, work)
    before, beside = state(path.parent), state(work)
    assert len(before) == 2
    for kind, make in list(KEYS.items())[:: len(KEYS) if name in STORELESS else 1]:
        if name == "serve" and kind == "none":
            continue  # the page asks for the key: tests/cli/test_serve.py
        done = clew_cli(*args, input=stdin(name), env={"CLEW_DB": str(path), **make(work)})
        assert state(path.parent) == before, kind
        if name in STORELESS:
            assert done.code == 0, done.err
            continue
        told, rest = (done.out, done.err) if name == "doctor" else (done.err, done.out)  # which reports what it finds
        assert (done.code, rest) == (6, ""), (kind, told)
        assert state(work) == beside, kind
        if kind in ("none", "wrong file", "wrong key", "wrong passphrase"):
            assert f"{path} is sealed with key {SEALED}" in told
        if kind in ("wrong file", "wrong key"):
            assert f"not with key {GIVEN}" in told
        assert KEY.hex()[1:] not in told
        assert OTHER.hex() not in told


@pytest.mark.parametrize("name", sorted(LEAVES.keys() - STORELESS - {"serve", "open"}))  # these do not end
def test_with_the_right_key_it_is_done(name: str, clew_cli: Run, crashed: Crashed, tmp_path: Path, work: Path) -> None:
    """The same command lines are carried out with the right key: nothing but the key kept them from it."""
    path = crashed.copy(tmp_path / "store")
    before = state(path.parent)
    right = key_file(work / "right.key", KEY)
    args = arguments(name, LEAVES[name], crashed, work)
    done: Done = clew_cli(*args, "--key-file", right, input=stdin(name), env={"CLEW_DB": str(path)})
    # They come across the message in quarantine.
    damaged = name in ("redact", "tree", "conversation list", "quarantine restore")
    assert done.code == (7 if damaged else 0), done.err
    if name in ("append", "rename", "purge", "key unseal", "key rotate"):
        assert state(path.parent) != before  # the hashes would show it
