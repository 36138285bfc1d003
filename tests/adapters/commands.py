"""What the command line does with a conversation that a framework has written: show, redact, purge."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
MAIL = "ada@example.org"
QUESTION = f"Weather for {MAIL}?"
"""What a program asks whose agent then calls ``weather`` with the city Turin, and answers *It is sunny …*."""


def expect_weather(opened: Any, *, keeps_states: bool = False) -> None:
    """The one conversation of a store is listed, found, shown, redacted and purged, each by its command.

    The adapter must be closed. With `keeps_states` its framework's states repeat the question, and the redaction says
    so.
    """
    pytest.importorskip("click", reason="the command line is not installed")
    assert len(_run(opened, "ls").splitlines()) == 1
    assert "sunny" in _run(opened, "search", "sunny")
    shown = _run(opened, "show", "@last")
    wanted = [QUESTION, "weather", "Turin", "sunny", "It is sunny"]
    assert [word for word in wanted if word not in shown] == []
    assert [role for role in ("user", "assistant") if role not in shown] == []
    if all(map(find_spec, ("starlette", "uvicorn", "jinja2", "markdown_it", "nh3", "pygments"))):
        _expect_page(opened, wanted)
    expect_redacted(opened, keeps_states=keeps_states)
    _run(opened, "purge", "@last", "--yes")
    assert _run(opened, "ls") == ""
    assert _files_with(opened, "Weather") == []


def _expect_page(opened: Any, wanted: list[str]) -> None:
    """The page lists, finds and shows it, with the tool call as one line that has its state."""
    import clew
    from clew.web.server import Server, listen
    from tests.web.conftest import Client

    server = Server(lambda _: clew.open(opened.target, key=opened.key), listen(0))
    with server.in_background():
        client = Client(server)
        (row,) = client.get("/conversations.json").json["conversations"]
        assert row["id"] in client.get("/").text
        page = client.get(f"/c/{row['id']}").text
        assert [word for word in [*wanted, "Succeeded: "] if word not in page] == []
        assert client.get("/search.json?q=sunny").json["count"] > 0
        for end in (".json", ".md", "/outline", "/files", "/export/jsonl", "/export/markdown"):
            client.get(f"/c/{row['id']}{end}")


def expect_redacted(opened: Any, *, keeps_states: bool) -> None:
    """`redact --apply` removes an address from the question, wherever the adapter repeats it."""
    found = json.loads(_run(opened, "redact", "--also", "email", "--json", code=1))["found"]
    for message in {one["id"] for one in found if one["what"] == "message"}:
        done = run_clew(opened, "redact", "--apply", message, "--also", "email", "--yes")
        assert done.returncode == (8 if keeps_states else 0), done.stderr
        assert ("prune the states" in done.stderr) == keeps_states
    assert MAIL not in _run(opened, "show", "@last")
    assert "Weather for ***?" in _run(opened, "show", "@last")
    if keeps_states:
        left = json.loads(_run(opened, "redact", "--also", "email", "--json", code=1))["found"]
        assert {one["what"] for one in left} == {"state"}
    else:
        assert _files_with(opened, MAIL) == []


def _files_with(opened: Any, word: str) -> list[str]:
    """The files beside a store that have a word; of a sealed store, or one on a server, none can be read."""
    if not isinstance(opened.target, Path) or opened.key is not None:
        return []
    return [one.name for one in opened.target.parent.iterdir() if one.is_file() and word.encode() in one.read_bytes()]


def _run(opened: Any, *arguments: str, code: int = 0) -> str:
    done = run_clew(opened, *arguments)
    assert done.returncode == code, done.stderr
    return done.stdout


def run_clew(opened: Any, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a command of clew on the store that `opened` has opened last."""
    home = str(opened.target.parent) if isinstance(opened.target, Path) else "/nonexistent"
    key = {} if opened.key is None else {"CLEW_KEY": opened.key.hex()}
    return subprocess.run(
        [sys.executable, "-m", "clew", *arguments, "--db", str(opened.target)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "HOME": home, "NO_COLOR": "1", **key},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
