"""`clew hook install`, `uninstall` and `status`: the settings of Claude Code are changed and nothing else in them."""

from __future__ import annotations

import json
import shlex
import stat
import sys

import pytest

from clew.cli.agent_hook.install import is_hook, own_command
from tests.cli.terminal import at_a_terminal

EVENTS = {"PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop", "SubagentStop", "SessionEnd"}


@pytest.fixture
def user(tmp_path):
    """The settings for all projects."""
    return tmp_path / "home" / ".claude" / "settings.json"


@pytest.fixture
def project(tmp_path):
    """The settings of a person for the project in the current directory."""
    return tmp_path / "here" / ".claude" / "settings.local.json"


def test_the_settings_are_printed(clew_cli, user):
    """--dry-run prints what to add, for every event that is needed, and changes nothing."""
    hooks = clew_cli("hook", "install", "--dry-run").json["hooks"]
    assert set(hooks) == EVENTS
    assert hooks["PreToolUse"][0]["matcher"] == "Edit|Write|MultiEdit|NotebookEdit|Bash"
    (called,) = hooks["Stop"][0]["hooks"]
    assert (called["type"], called["timeout"]) == ("command", 60)
    assert clew_cli("hook", "install", "--user", "--dry-run").json["hooks"] == hooks
    assert not user.exists()


def test_the_usual_files(clew_cli, user, project):
    """--user and --project name them; off a terminal one of them is needed, and never both or a file as well."""
    assert clew_cli("hook", "install").code == 2
    assert clew_cli("hook", "install", "--user", "x.json").code == 2
    assert clew_cli("hook", "install", "--user").code == 0
    assert set(json.loads(user.read_text())["hooks"]) == EVENTS
    assert not project.exists()
    assert clew_cli("hook", "install", "--project").code == 0
    assert set(json.loads(project.read_text())["hooks"]) == EVENTS


def test_somebody_is_asked(project, user):
    """On a terminal clew asks which of the two it is."""
    seen = at_a_terminal("hook", "install", answers=[("roject?", "p\n")])
    assert (seen.code, project.exists(), user.exists()) == (0, True, False)


def test_the_program_is_absolute(tmp_path):
    """The command does not depend on PATH, and can be run by a shell wherever the program is."""
    program = tmp_path / "a folder" / "clew"
    assert shlex.split(own_command(str(program))) == [sys.executable, "-m", "clew", "hook"]
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(stat.S_IRWXU)
    assert shlex.split(own_command(str(program))) == [str(program), "hook"]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("clew hook", True), ("'/a b/clew' --db x.db hook", True), ("/usr/bin/python3 -m clew hook", True),
        ("clew ls", False), ("say hook", False), ("echo 'clew hook", False), ("", False), ("clew hook; rm x", False),
    ],
)  # fmt: skip
def test_calls_of_clew_are_known(command, expected):
    """Whatever program and options it was installed with, and no other command."""
    assert is_hook(command) is expected


def test_the_settings_are_added_and_the_others_kept(clew_cli, tmp_path):
    """What is in the file stays: other settings, other hooks, its mode. Done twice, it is there once."""
    path = tmp_path / ".claude" / "settings.json"
    assert clew_cli("hook", "install", str(path)).code == 0
    mine = {"model": "x", "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}], "Other": []}}
    path.write_text(json.dumps(mine))
    path.chmod(0o640)
    assert clew_cli("hook", "install", str(path), "--command", "clew --db x.db hook").code == 0
    found = json.loads(path.read_text())
    assert (found["model"], found["hooks"]["Other"], path.stat().st_mode & 0o777) == ("x", [], 0o640)
    assert [one["hooks"][0]["command"] for one in found["hooks"]["Stop"]] == ["say done", "clew --db x.db hook"]
    before = path.read_bytes()
    assert "already" in clew_cli("hook", "install", str(path), "--command", "clew --db x.db hook").err
    assert path.read_bytes() == before
    assert [one.name for one in path.parent.iterdir()] == ["settings.json"]
    assert clew_cli("hook", "install", str(path), "--command", "/opt/clew hook").code == 0
    found = json.loads(path.read_text())
    assert [one["hooks"][0]["command"] for one in found["hooks"]["Stop"]] == ["say done", "/opt/clew hook"]
    assert clew_cli("hook", "uninstall", str(path)).code == 0
    assert json.loads(path.read_text()) == mine


def test_it_is_removed(clew_cli, user, project):
    """Without a file from all usual ones; a command with another name only if it is given."""
    clew_cli("hook", "install", "--user")
    clew_cli("hook", "install", "--project", "--command", "my-wrapper")
    assert clew_cli("hook", "uninstall").code == 0
    assert json.loads(user.read_text()) == {}
    assert set(json.loads(project.read_text())["hooks"]) == EVENTS
    assert clew_cli("hook", "uninstall", "--project", "--command", "my-wrapper").code == 0
    assert json.loads(project.read_text()) == {}
    assert "not installed" in clew_cli("hook", "uninstall").err


def test_status(clew_cli, user, project):
    """It says for each file whether clew is called, at all events, by a program that is there."""
    assert [row["state"] for row in clew_cli("hook", "status", "--json").json] == ["not installed"] * 3
    clew_cli("hook", "install", "--user")
    clew_cli("hook", "install", "--project", "--command", "/gone/clew hook")
    first, second, third = clew_cli("hook", "status", "--json").json
    assert (first["path"], first["state"], first["missing"]) == (str(user), "installed", [])
    assert "its program is missing" in second["state"]
    assert third["state"] == "not installed"
    some = json.loads(user.read_text())
    del some["hooks"]["Stop"]
    user.write_text(json.dumps(some))
    project.write_text("no json")
    shown = clew_cli("hook", "status")
    assert (shown.code, "incomplete: no Stop" in shown.out) == (0, True)
    assert "is not a JSON object" in shown.out


@pytest.mark.parametrize("content", ["", "{", "[]", '{"hooks": []}', '{"hooks": {"Stop": {}}}', "{} // comment"])
def test_settings_that_are_none_are_left_alone(clew_cli, tmp_path, content):
    """A file that cannot be understood is told, and not changed."""
    path = tmp_path / "settings.json"
    path.write_text(content)
    for command in ("install", "uninstall"):
        assert clew_cli("hook", command, str(path)).code == 1
        assert path.read_text() == content
