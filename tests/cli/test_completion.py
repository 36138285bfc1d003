"""What a shell offers after Tab, in real shells; and help."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import clew
from clew.cli.exits import MEANINGS
from tests.cli.conftest import Run
from tests.cli.shells import START, Shell
from tests.cli.shells import program as ours
from tests.cli.test_tree import id_of
from tests.reliability.tools import need


@pytest.fixture
def filled(db: str) -> str:
    """A store with two sessions; returns its path."""
    with clew.open(db) as store:
        build = store.sessions.create(
            title="Build: it fails, badly",
            id=id_of("abc123"),
            labels=["urgent", "$(touch owned)", "a b"],
            model="opus-9",
        )
        build.append(clew.user("Why?"), id=id_of("mmm111"))
        build.append(clew.assistant("Because."), id=id_of("mmm222"))
        store.sessions.create(title="Other\n\x1b[31m", id=id_of("xyz789"), labels=["later"])
        store.sessions.create(title="Gone", id=id_of("q0q0q0")).trash()
    return db


def offered(clew_cli: Run, line: str, env: dict[str, str] | None = None) -> list[str]:
    """What bash is offered at the end of a line."""
    words = line.split(" ")
    asked = {"_CLEW_COMPLETE": "bash_complete", "COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}
    done = clew_cli(env={**asked, **(env or {})})
    assert (done.code, done.err) == (0, "")
    return done.out.split()


@pytest.mark.parametrize("name", START)
def test_a_shell_completes(name: str, filled: str, tmp_path: Path) -> None:
    """Commands, options, ids, messages of the session that is named, labels and models, in bash and in zsh."""
    with Shell(name, tmp_path) as shell:
        assert "Build: it fails" in shell.type("clew sho\tabc\t\n", "Because.")
        assert "abc123" in shell.type("clew fork abc\t--at mmm1\t --titl\tOther\n", "shares 1 message")
        shell.type("clew label xyz\turg\t\n", "labels of conversation xyz789: later, urgent")
        shell.type("clew config set mod\topu\t\n", "model set to opus-9")
    assert not os.path.exists("owned")


def test_fish_completes(filled: str, tmp_path: Path) -> None:
    """Fish shows what it would offer, with a few words about each."""
    path = os.pathsep.join([str(ours(tmp_path)), os.environ["PATH"]])
    script = "clew completion fish | source; complete -C 'clew show a'; complete -C 'clew verif'"
    done = subprocess.run(
        [need("fish"), "--no-config", "-c", script], capture_output=True, text=True, env={**os.environ, "PATH": path}
    )
    assert "abc123\tBuild" in done.stdout
    assert "verify" in done.stdout


def test_what_is_offered(clew_cli: Run, filled: str) -> None:
    """By the names of parameters; also after --db, wherever it stands."""
    assert offered(clew_cli, "clew show ") == ["plain,xyz789", "plain,abc123"]
    assert offered(clew_cli, "clew trash restore ") == ["plain,q0q0q0"]
    assert offered(clew_cli, "clew rewind abc123 ") == ["plain,mmm222", "plain,mmm111"]
    assert offered(clew_cli, "clew config set t") == ["plain,timeout"]
    clew_cli("config", "set", "aliases.swift", "haiku-9")
    assert offered(clew_cli, "clew config set model ") == ["plain,swift", "plain,opus-9"]
    assert offered(clew_cli, "clew search --role a") == ["plain,assistant"]
    assert offered(clew_cli, "clew ls --db ") == ["file,"]
    none = {"CLEW_DB": "/none"}
    assert offered(clew_cli, "clew show ", env=none) == []
    assert offered(clew_cli, f"clew --db {filled} show a", env=none) == ["plain,abc123"]


def test_a_label_is_never_a_command(clew_cli: Run, filled: str) -> None:
    """What a shell would take for more than a word is not offered."""
    assert offered(clew_cli, "clew ls --label ") == ["plain,later", "plain,urgent"]


def test_nothing_is_asked_or_told_while_a_shell_waits(clew_cli: Run, filled: str, tmp_path: Path) -> None:
    """A sealed store, a broken file of settings, a store that is damaged: nothing is offered, and nothing said."""
    (tmp_path / "settings" / "clew").mkdir(parents=True)
    told = tmp_path / "settings" / "clew" / "config.toml"
    told.write_text("strange = 1\n")
    assert offered(clew_cli, "clew show a") == ["plain,abc123"]
    told.write_text("no toml")
    assert offered(clew_cli, "clew show a") == []
    told.unlink()
    with clew.open(filled) as store:
        store.seal(clew.keys.from_passphrase("words"))
    before = Path(filled).read_bytes()
    assert offered(clew_cli, "clew show a") == []
    assert offered(clew_cli, "clew show a", env={"CLEW_PASSPHRASE": "words"}) == ["plain,abc123"]
    assert Path(filled).read_bytes() == before


def test_completing_imports_little(filled: str) -> None:
    """A shell waits for every Tab."""
    code = "import sys; from clew.cli import main; code = main(); sys.stderr.write(' '.join(sys.modules))"
    import sys

    for line in ("clew sho", "clew show a"):
        env = {"_CLEW_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **env}, check=True
        )
        assert done.stdout.startswith("plain,")
        assert {"asyncio", "rich", "cryptography", "tomlkit", "mcp", "clew.store.search.query"}.isdisjoint(
            done.stderr.split()
        )


def test_help(clew_cli: Run) -> None:
    """Of a command as its --help; of exit codes all of them; of what is not there an error that names the topics."""
    assert clew_cli("help", "key", "seal").out == clew_cli("key", "seal", "--help").out
    assert clew_cli("help").out == clew_cli("--help").out
    codes = clew_cli("help", "exit-codes").out
    assert [int(line.split()[0]) for line in codes.splitlines()] == list(MEANINGS)
    done = clew_cli("help", "nothing")
    assert (done.code, "exit-codes" in done.err) == (2, True)
    assert clew_cli("help", "show", "x").code == 2
