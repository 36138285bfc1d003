"""Tool, project and git branch: shown by ls, search and stats, and chosen by them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import clew
from tests.cli.conftest import Run

ROWS = (
    ("One", "/src/app", {"tool": "claude-code", "id": "aa", "branch": "main"}),
    ("Two", "/src/app/web", {"tool": "codex", "id": "bb", "branch": "fix"}),
    ("Three", "/src/apple", {"tool": "codex", "id": "cc"}),
    ("Four", "/src/app", None),
)


@pytest.fixture(autouse=True)
def filled(db: str) -> None:
    with clew.open(db) as store:
        for title, cwd, source in ROWS:
            session = store.sessions.create(title=title, cwd=cwd, extra=None if source is None else {"source": source})
            session.append([clew.user(f"lint {title}"), clew.assistant("ok", model="m")])
        session.fork(title="Five")


CASES = [
    (["--tool", "codex"], {"Two", "Three"}),
    (["--tool", "claude"], {"One"}),
    (["--project", "/src/app"], {"One", "Two", "Four", "Five"}),
    (["--cwd", "/src/app"], {"One", "Four", "Five"}),
    (["--branch", "main"], {"One"}),
    (["--project", "/src/app", "--tool", "codex"], {"Two"}),
    (["--tool", "none"], set()),
]


@pytest.mark.parametrize(("flags", "titles"), CASES)
def test_ls(flags: list[str], titles: set[str], clew_cli: Run) -> None:
    """Only what matches all of them; a project has its folders below, and no other that begins so."""
    found = clew_cli("ls", *flags, "--json").json["sessions"]
    assert {one["title"] for one in found} == titles
    if not titles:
        assert "Leave out --tool to find more." in clew_cli("ls", *flags).err


@pytest.mark.parametrize(("flags", "titles"), CASES)
def test_search(flags: list[str], titles: set[str], clew_cli: Run) -> None:
    """A message that a fork shares is found in one of its conversations."""
    found = {one["session"]["title"] for one in clew_cli("search", "lint", *flags, "--json").json}
    assert found == titles - {"Five"} or found == titles - {"Four"}
    if not titles:
        assert "Leave out --tool to find more." in clew_cli("search", "lint", *flags).err


@pytest.mark.parametrize(("flags", "titles"), CASES)
def test_stats(flags: list[str], titles: set[str], clew_cli: Run) -> None:
    """Conversations that match, and their messages, each once."""
    total = clew_cli("stats", *flags, "--json").json["total"]
    assert total["sessions"] == len(titles)
    assert total["messages"] == 2 * len(titles - {"Five"})


def test_stats_by_tool_and_branch(clew_cli: Run) -> None:
    """What was made in clew has no tool; only those with a branch are listed by branch."""
    found = clew_cli("stats", "--json").json
    assert {tool: one["messages"] for tool, one in found["by_tool"].items()} == {"claude-code": 2, "codex": 4, "": 2}
    assert {name: one["sessions"] for name, one in found["by_branch"].items()} == {"main": 1, "fix": 1}
    text = clew_cli("stats").out
    assert "by tool" in text
    assert "by branch" in text


def test_what_is_shown(clew_cli: Run) -> None:
    """ls has a column for the tool and marks forks; search names the tool."""
    lines = clew_cli("ls").out.splitlines()
    assert ["codex" in line for line in lines] == ["Two" in line or "Three" in line for line in lines]
    assert [line for line in lines if "⑂ Five" in line]
    assert "claude-code" in clew_cli("search", "lint One").out
    (one,) = clew_cli("ls", "--tool", "claude-code", "--json").json["sessions"]
    assert (one["tool"], one["branch"]) == ("claude-code", "main")


def test_pages_of_a_choice(clew_cli: Run) -> None:
    """The cursor after a page continues exactly after its last conversation."""
    titles, cursor = [], None
    while True:
        page = clew_cli("ls", "--tool", "codex", "-n", "1", "--json", *(["--cursor", cursor] if cursor else [])).json
        titles += [one["title"] for one in page["sessions"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert titles == ["Three", "Two"]


def test_one_directory_is_chosen_in_one_way(clew_cli: Run) -> None:
    """--here, --cwd and --project exclude each other."""
    for command in (["ls"], ["search", "x"], ["stats"]):
        assert clew_cli(*command, "--here", "--project", "/").code == 2


def test_subagents(clew_cli: Run, tmp_path: Path) -> None:
    """Listed by name and run, with the conversation that called them."""
    assert clew_cli("ls", "--subagents").err == "No conversations of subagents yet.\n"
    owner = clew_cli("ls", "--json", "--tool", "claude").json["sessions"][0]
    args = ("run", "--as", "scout", "--run", "r7", "--parent", owner["id"], "-m", "offline", "Look")
    assert clew_cli(*args).code == 0
    (line,) = clew_cli("ls", "--subagents").out.splitlines()
    assert "scout r7" in line
    assert f"of {owner['handle']} One" in line
    assert clew_cli("ls", "--subagents", "--json").json["sessions"][0]["agent"] == "scout"
    assert "Look" not in clew_cli("ls").out
    assert json.dumps(owner["id"]) not in clew_cli("trash", "ls", "--json").out
