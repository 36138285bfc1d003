"""Runs `clew` in this process for speed, and as a real program where it matters."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest
from click.testing import CliRunner

from clew.cli.command_list import COMMANDS
from clew.cli.root import cli
from clew.cli.setup.key_sources import NEW_VARIABLES, VARIABLES
from clew.cli.setup.settings import SETTINGS
from clew.providers.registry import PROVIDERS
from tests.cli import schemas


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The document without its version; of a list, the items."""
        found = json.loads(self.out)
        if isinstance(found, dict):
            found.pop("schema_version", None)  # the runners compare documents with their types
        return found["items"] if list(found) == ["items"] else found

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Done]


def leaves() -> dict[str, click.Command]:
    """Every command that does something, by all the words of its name: 'ls', 'key seal'."""
    found = {}
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        below = command.commands if isinstance(command, click.Group) else {}
        found.update({f"{name} {word}": one for word, one in below.items()} or {name: command})
    return found


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the home folder or the settings of whoever runs it."""
    set_ = (one.variable for one in SETTINGS.values() if one.variable is not None)
    for name in ("CLEW_DEBUG", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "PAGER", "EDITOR", "VISUAL",
                 "CLEW_PROVIDER", "CLEW_MODEL", "CLEW_SYSTEM", "CLEW_BASE_URL",
                 *(name for row in PROVIDERS.values() for name in (row.base_url_variable, *row.api_keys) if name),
                 *set_, *VARIABLES, *NEW_VARIABLES):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("CLEW_HOOK_TIMEOUT", "0")  # however slow the machine is; where the limit is tested it is set
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The path of a store that is not there yet, named by CLEW_DB."""
    path = str(tmp_path / "chats.db")
    monkeypatch.setenv("CLEW_DB", path)
    return path


@pytest.fixture
def clew_cli(db: str) -> Run:
    """Runs a command line in this process."""

    def run(*args: str, input: str | bytes | None = None, env: dict[str, str] | None = None) -> Done:
        result = CliRunner().invoke(cli, args, input=input, env=env)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        if "--json" in args and result.stdout.startswith("{"):
            wrong = schemas.problems(args, json.loads(result.stdout))
            assert not wrong, wrong
        return Done(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture
def program(db: str) -> Run:
    """Runs a command line as a program of its own."""

    def run(*args: str, input: bytes = b"", env: dict[str, str] | None = None, **more: Any) -> Done:
        done = subprocess.run(
            [sys.executable, "-m", "clew", *args],
            input=input, capture_output=True, env={**os.environ, **(env or {})}, timeout=60, **more,
        )  # fmt: skip
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


@pytest.fixture
def talk(clew_cli: Run) -> Callable[..., str]:
    """Stores messages, given as words or as whole lines, in a new session; returns its id."""

    def store(*messages: str | dict[str, Any], **options: str) -> str:
        flags = [part for name, value in options.items() for part in (f"--{name}", value)]
        lines = [json.dumps({"text": one} if isinstance(one, str) else one) for one in messages]
        done = clew_cli("append", *flags, input="\n".join(lines))
        assert done.code == 0, done.err
        return done.err.split()[1]

    return store
