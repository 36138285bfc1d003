"""P20: the settings of a project cause no connection, start no program, and name no file outside the project."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

import clew
from clew.checkpoints.gitignore import Tracked, read_tracked
from clew.cli.setup.settings import SETTINGS, Setting, SettingsFile
from tests.cli.conftest import Run, leaves
from tests.cli.test_wrong_key import STORELESS, arguments
from tests.reliability.tools import need, need_strace, output, python

HOSTILE: dict[str, list[str]] = {
    "db": [
        '"postgresql://127.0.0.1:{port}/x"',
        '"postgresql://me@127.0.0.1:{port}/x"',
        '"postgres://me:word@127.0.0.1:{port}/x"',
        '"{outside}/store.db"',
        '"{outside}/new.db"',
        '"../outside/store.db"',
        '"sub/../../outside/store.db"',
        '"~/store.db"',
        '"link.db"',
        '"dangling.db"',
        '"folder/store.db"',
        '"beside.db"',
        '"."',
        '":memory:"',
    ],
    "key_file": ['"{outside}/key"', '"key"'],
    "keyring": ['"chats"'],
    "blobs": ['"file://{outside}/objects"', '"s3://127.0.0.1:{port}/x"'],
    "timeout": [],
    "hook_timeout": ["1000"],
    "provider": ['"claude-local"'],
    "model": ['"claude-local"', '"claude-local/x"', '"mine"'],
    "aliases": ['{{ sonnet = "claude-local" }}', '{{ sonnet = "claude-local/x" }}'],
    "prices": ['{{ "a-model" = "input=0 output=0" }}'],
    "system": [],
    "base_url": ['"http://127.0.0.1:{port}/"'],
    "redact": ['"off"'],
}
"""Values of each setting that a project may not give it; none where it may say what it likes."""
PERMITTED = {
    "db": ['"chats.db"', '"sub/chats.db"', '"$OUTSIDE/store.db"', '"~x.db"'],
    "timeout": ["5"],
    "provider": ['"offline"'],
    "model": ['"offline"'],
    "aliases": ['{{ sonnet = "offline" }}'],
    "system": ['"Be brief."'],
}
"""And values that it may."""
COMMANDS: dict[str, list[list[str]]] = {
    "redact": [["append"]],
    "hook_timeout": [["hook"]],
    "base_url": [["chat", "-m", "claude"], ["chat", "-m", "sonnet"]],
    "provider": [["chat"]],
    "model": [["chat"]],
    "aliases": [["chat", "-m", "sonnet"]],
    "prices": [["stats"], ["usage"]],
}
"""Commands that use a setting; for the others, these."""
USUAL = [["ls"], ["append"], ["search", "x"]]
DRIVER = """
import io, json, os, sys
from clew.cli.root import cli

file, cases = sys.argv[1], json.loads(sys.argv[2])
told, out = [], os.dup(1)
for number, (line, args) in enumerate(cases):
    with open(file, "w") as settings:
        settings.write(line)
    given = {"hook_event_name": "Stop", "session_id": "x"} if args == ["hook"] else {"text": "hello"}
    sys.stdin = io.TextIOWrapper(io.BytesIO(json.dumps(given).encode()))
    sys.stdout, sys.stderr = io.StringIO(), io.StringIO()
    try:
        os.open(f"/case/{number}", os.O_RDONLY)
    except OSError:
        pass
    code = cli.run(args)
    told.append([code, sys.stderr.getvalue()])
os.write(out, json.dumps(told).encode())
"""
CALLS = "execve,connect,sendto,openat,open,creat,mkdir,unlink,rename,link,symlink,truncate,chmod"


class Watched(NamedTuple):
    """What a command line did: its exit code, what it said, and the calls that reached outside."""

    code: int
    err: str
    calls: list[str]


class Surroundings:
    """A project, a folder outside it with all that can be wanted, and a socket that listens."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.project, self.outside = folder / "project", folder / "outside"
        for place in (self.project / "sub", self.outside / "bin"):
            place.mkdir(parents=True)
        with clew.open(self.outside / "store.db") as store:
            store.sessions.create(title="private")
        (folder / "data" / "clew").mkdir(parents=True)
        with clew.open(folder / "data" / "clew" / "clew.db") as store:
            store.sessions.create(title="default")
        with clew.open(self.project / "beside.db") as store:
            store.sessions.create()
        (self.project / "beside.db-lock").unlink()
        (self.project / "beside.db-lock").symlink_to(self.outside / "lock")
        (self.outside / "key").write_text("ab" * 32)
        (self.outside / "key").chmod(0o600)
        (self.project / "key").write_text("ab" * 32)
        (self.project / "key").chmod(0o600)
        (self.outside / "objects").mkdir()
        (self.outside / "keyring").touch()
        (self.project / "link.db").symlink_to("../outside/store.db")
        (self.project / "dangling.db").symlink_to(self.outside / "new.db")
        (self.project / "folder").symlink_to(self.outside)
        program = self.outside / "bin" / "claude"
        program.write_text("#!/bin/sh\nexit 1\n")
        program.chmod(0o755)
        self.user = folder / "settings" / "clew" / "config.toml"
        self.user.parent.mkdir(parents=True)
        self.user.write_text('[aliases]\nmine = "claude-local"\n')
        self.trace = folder / "trace"
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.socket.setblocking(False)
        for name, value in {
            "HOME": str(self.outside), "OUTSIDE": str(self.outside), "PGPASSWORD": "canary",
            "PGCONNECT_TIMEOUT": "2", "ANTHROPIC_API_KEY": "canary", "PATH": f"{self.outside}/bin:{os.environ['PATH']}",
            "PYTHON_KEYRING_BACKEND": "tests.keyrings.FileKeyring",
            "KEYRING_PROPERTY_PATH": str(self.outside / "keyring"),
            "AWS_ACCESS_KEY_ID": "canary", "AWS_SECRET_ACCESS_KEY": "canary", "AWS_REGION": "x",
        }.items():  # fmt: skip
            monkeypatch.setenv(name, value)
        for name in ("CLEW_DB", "CLEW_HOOK_TIMEOUT"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.chdir(self.project)

    def filled(self, value: str) -> str:
        return value.format(port=self.socket.getsockname()[1], outside=self.outside)

    def heard(self) -> bool:
        """Whether anybody has connected."""
        try:
            self.socket.accept()[0].close()
        except BlockingIOError:
            return False
        return True

    def watch(self, file: Path, cases: list[tuple[str, list[str]]]) -> list[Watched]:
        """Runs a command line with each line of settings in the file, in one process under strace."""
        wrap = (need_strace(), "-f", "-qq", "-s", "4096", "-o", str(self.trace), "-e", f"trace={CALLS}")
        told = json.loads(output(python(DRIVER, file, json.dumps(cases), wrap=wrap)))
        calls: list[list[str]] = [[]]
        for line in self.trace.read_text(errors="replace").splitlines():
            if "openat(" in line and '"/case/' in line:
                calls.append([])
            elif self.reaches(line):
                calls[-1].append(line)
        assert len(calls) == len(cases) + 1, "strace has not seen every case"
        return [Watched(code, err, found) for (code, err), found in zip(told, calls[1:], strict=True)]

    def reaches(self, call: str) -> bool:
        """True for a connection, a program that is started, or a file outside."""
        return bool(re.search(r"execve\(|sa_family=AF_INET", call)) or str(self.outside) in call


@pytest.fixture
def around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Surroundings]:
    made = Surroundings(tmp_path, monkeypatch)
    yield made
    made.socket.close()


def cases(around: Surroundings, values: dict[str, list[str]]) -> list[tuple[str, str, list[str]]]:
    """Each setting with each value, and each command that uses it."""
    return [
        (name, f"{name} = {around.filled(value)}\n", args)
        for name, of_it in values.items()
        for value in of_it
        for args in COMMANDS.get(name, USUAL)
    ]


def test_p20_nothing_outside_is_reached(around: Surroundings) -> None:
    """Whatever a project's file says: no byte is sent, no program is started, no file outside it is opened."""
    assert HOSTILE.keys() == SETTINGS.keys()
    given = cases(around, HOSTILE)
    done = around.watch(around.project / ".clew.toml", [(line, args) for _, line, args in given])
    for (name, line, args), one in zip(given, done, strict=True):
        assert one.calls == [], (line, args)
        assert (one.code == 0) == (args == ["hook"]), (line, args, one)
        assert str(around.project / ".clew.toml") in one.err, (line, args, one.err)
        assert re.search(rf"\b{name}\b", one.err), (line, one.err)
        assert "hint:" in one.err
    assert not around.heard()
    assert not [name for name in ("lock", "new.db", "objects/x") if (around.outside / name).exists()]


def test_p20_no_command_connects(around: Surroundings, tmp_path: Path) -> None:
    """Every command that opens a store refuses a server that the project names, and the completion of shells does."""
    (tmp_path / "work").mkdir()
    names = dict.fromkeys(("node", "session", "trashed", "spoiled", "loose", "snapshot"), str(uuid.UUID(int=1)))
    store: Any = SimpleNamespace(path=around.project / "beside.db", **names)
    found = {name: command for name, command in leaves().items() if name not in STORELESS}
    line = around.filled(f"db = {HOSTILE['db'][0]}\n")
    given = [(line, arguments(name, command, store, tmp_path / "work")) for name, command in found.items()]
    for name, one in zip(found, around.watch(around.project / ".clew.toml", given), strict=True):
        assert (one.calls, one.code == 0) == ([], name == "hook"), (name, one)
        assert "may not set db" in one.err or name == "doctor", (name, one)  # which reports on stdout
    (around.project / ".clew.toml").write_text(line)
    env = {**os.environ, "_CLEW_COMPLETE": "bash_complete", "COMP_WORDS": "clew show ", "COMP_CWORD": "2"}
    subprocess.run([sys.executable, "-P", "-m", "clew"], env=env, capture_output=True, timeout=60, check=False)
    assert not around.heard()


def test_p20_the_watch_sees_what_the_users_own_settings_do(
    around: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same values in the user's file connect, start a program, and open files: the watch is not blind."""
    monkeypatch.setenv("CLEW_TIMEOUT", "0")
    seen = [
        ('db = "postgresql://127.0.0.1:{port}/x?connect_timeout=2"', ["ls"], "AF_INET"),
        ('db = "{outside}/store.db"', ["ls"], "store.db"),
        ('key_file = "{outside}/key"', ["ls"], "outside/key"),
        ('keyring = "chats"', ["append"], "outside/keyring"),
        ('provider = "claude-local"', ["chat"], "bin/claude"),
    ]
    done = around.watch(around.user, [(around.filled(line), args) for line, args, _ in seen])
    for (line, _, what), one in zip(seen, done, strict=True):
        assert any(what in call for call in one.calls), (line, one)
    assert around.heard()


def test_p20_a_project_may_still_say(around: Surroundings) -> None:
    """A store inside the project, a model, a provider, aliases, a prompt, a timeout: they are used."""
    given = cases(around, PERMITTED)
    with clew.open(around.project / "chats.db") as store:
        store.sessions.create(title="ours")
    done = around.watch(around.project / ".clew.toml", [(line, args) for _, line, args in given])
    for (_, line, args), one in zip(given, done, strict=True):
        assert one.calls == [], (line, args)
        assert "may not set" not in one.err, (line, one.err)
    assert not around.heard()


def test_p20_a_file_that_is_a_link_out_is_refused(around: Surroundings, clew_cli: Run) -> None:
    """The project's file is part of the project: neither read nor written elsewhere."""
    theirs = around.outside / "theirs.toml"
    theirs.write_text('model = "private"\n')
    (around.project / ".clew.toml").symlink_to(theirs)
    for args in (["config", "show"], ["ls"], ["config", "set", "--project", "model", "x"]):
        done = clew_cli(*args, env={"CLEW_DB": ""})
        assert (done.code, "is a link to a file outside the project" in done.err, "private" in done.out + done.err) == (
            1,
            True,
            False,
        )
    assert theirs.read_text() == 'model = "private"\n'
    (around.project / ".clew.toml").unlink()
    (around.project / "real.toml").write_text('model = "ours"\n')
    (around.project / ".clew.toml").symlink_to("real.toml")
    assert clew_cli("config", "show", "--json").json["settings"]["model"] == "ours"


def test_p20_what_may_not_be_read_is_not_written(around: Surroundings, clew_cli: Run) -> None:
    """`config set --project` refuses what a project's file may not have."""
    for name, value in (("db", str(around.outside / "x.db")), ("db", "postgresql://db.test/x"), ("keyring", "x")):
        done = clew_cli("config", "set", "--project", name, value)
        assert (done.code, "may not set" in done.err) == (1, True)
    assert not (around.project / ".clew.toml").exists()
    assert clew_cli("config", "set", "--project", "db", "sub/x.db").code == 0


def test_p20_what_a_person_types_counts(around: Surroundings) -> None:
    """A program may be chosen with -m, and by the user's own settings, whatever the project says."""
    from clew.cli.chat.models import choose

    (around.project / ".clew.toml").write_text('provider = "openai"\n')
    assert choose("claude-local").provider == choose("mine").provider == "claude-local"
    around.user.write_text('model = "claude-local"\n')
    assert choose().provider == "claude-local"


def test_p20_a_repository_starts_no_program(tmp_path: Path) -> None:
    """Git misses an object, and the settings of the repository name a program that fetches it: it does not run."""
    need("git")
    program, work = tmp_path / "program", tmp_path / "work"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    program.chmod(0o755)
    (work / "sub").mkdir(parents=True)
    (work / "sub" / ".gitignore").write_text("x\n")

    def git(*args: str) -> str:
        return subprocess.run(["git", *args], cwd=work, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q")
    git("add", "-f", ".")
    blob = git("rev-parse", ":sub/.gitignore")
    git("update-index", "--skip-worktree", "sub/.gitignore")
    for setting in ("core.repositoryformatversion=1", "extensions.partialClone=origin", "remote.origin.promisor=true",
                    f"remote.origin.url=ext::{program}", "protocol.ext.allow=always"):  # fmt: skip
        git("config", *setting.split("=", 1))
    (work / "sub" / ".gitignore").unlink()
    (work / ".git/objects" / blob[:2] / blob[2:]).unlink()
    read_tracked(str(work), Tracked())
    assert not (tmp_path / "started").exists()


def test_p20_a_new_setting_is_refused_in_a_project(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless somebody has decided that it does no harm there."""
    monkeypatch.setitem(SETTINGS, "new", Setting("new", "text", "Something."))
    with pytest.raises(clew.Invalid, match=r"/p/\.clew\.toml is a project file and may not set new"):
        SettingsFile("/p/.clew.toml", "project", {"new": "x"}, ()).value("new")
    assert SettingsFile("/u", "user", {"new": "x"}, ()).value("new") == "x"


def test_p20_the_documents_say_what_a_project_may_set() -> None:
    """Every setting has a row in the table, with what a project may say."""
    page = (Path(__file__).parents[2] / "docs/how-to/settings.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|", page, re.MULTILINE))
    words = {"never": "no", "inside": "a path inside the project", "any": "yes"}
    assert rows == {name: words[one.project] for name, one in SETTINGS.items()}
