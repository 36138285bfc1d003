"""Errors under --json and --jsonl: one JSON object on stderr, whatever went wrong."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

import clew
from tests.cli.conftest import Run


@pytest.mark.parametrize("form", ["--json", "--jsonl"])
@pytest.mark.parametrize(
    ("args", "code", "kind"),
    [
        (["show", "zzzzzz"], 3, "NotFound"),
        (["ls", "--nonsense"], 2, "NoSuchOption"),
        (["nonsense"], 2, "UsageError"),
        (["ls", "--key-file", "none.key"], 6, "InvalidKey"),
        (["rm", "zzzzzz"], 3, "NotFound"),
        (["export", "-o", "no/such/folder/x"], 5, "Unavailable"),
    ],
)
def test_an_error_is_one_json_object(
    args: list[str], code: int, kind: str, form: str, clew_cli: Run, talk: Callable[..., str]
) -> None:
    """With type, message, hint and exit code; nothing but JSON is on stderr."""
    talk("a")
    done = clew_cli(*args, form)
    error = json.loads(done.err)["error"]
    assert (done.code, error["exit_code"], error["type"]) == (code, code, kind)
    assert error["message"]
    assert set(error) == {"type", "message", "hint", "exit_code"}


def test_without_json_an_error_is_text(clew_cli: Run, talk: Callable[..., str]) -> None:
    """A message after -- is no option."""
    session = talk("a")
    assert clew_cli("show", "zzzzzz").err.startswith("clew: conversation or message 'zzzzzz' not found")
    assert clew_cli("rename", "zzzzzz", "--", "--json").err.startswith("clew: ")
    assert clew_cli("rename", session, "--", "--json").code == 0


def test_text_in_an_error_commands_no_terminal(clew_cli: Run, db: str) -> None:
    """A title with escape sequences is escaped in the list of similar ones."""
    with clew.open(db) as store:
        for _ in range(2):
            store.sessions.create(title="x\x1b[31mred").append(clew.user("a"))
    done = clew_cli("show", "x\x1b", "--json")
    assert done.code == 4
    assert "\x1b" not in done.err
    assert json.loads(done.err)["error"]["type"] == "Ambiguous"
