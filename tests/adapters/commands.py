"""What the command line shows of a conversation that a framework has written."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def expect_weather(store: Path) -> None:
    """`ls` lists the one conversation, `search` finds the tool's answer, `show` has roles, call, result and answer."""
    pytest.importorskip("click", reason="the command line is not installed")
    assert len(_run(store, "ls").splitlines()) == 1
    assert "sunny" in _run(store, "search", "sunny")
    shown = _run(store, "show", "@last")
    wanted = ["Weather?", "weather", "Turin", "sunny", "It is sunny."]
    assert [word for word in wanted if word not in shown] == []
    assert [role for role in ("user", "assistant", "tool") if role not in shown] == []
    if all(map(find_spec, ("starlette", "uvicorn", "jinja2", "markdown_it", "nh3", "pygments"))):
        _expect_page(store, wanted)


def _expect_page(store: Path, wanted: list[str]) -> None:
    """The page lists, finds and shows it, with the tool call as one line that has its state."""
    import clew
    from clew.web.server import Server, listen
    from tests.web.conftest import Client

    server = Server(lambda _: clew.open(store), listen(0))
    with server.in_background():
        client = Client(server)
        (row,) = client.get("/conversations.json").json["conversations"]
        assert row["id"] in client.get("/").text
        page = client.get(f"/c/{row['id']}").text
        assert [word for word in [*wanted, "Succeeded: "] if word not in page] == []
        assert client.get("/search.json?q=sunny").json["count"] > 0
        for end in (".json", ".md", "/outline", "/files", "/export/jsonl", "/export/markdown"):
            client.get(f"/c/{row['id']}{end}")


def _run(store: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "clew", *arguments, "--db", str(store)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "HOME": str(store.parent), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
