"""The example of a web service: several workers, of which one is killed, lose nothing and store nothing twice."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import clew
from tests.backends.postgres.conftest import server, url

__all__ = ["server", "url"]

EXAMPLE = Path(__file__).parents[2] / "examples/web_service.py"


@pytest.mark.parametrize("place", ["file", "server"])
def test_acknowledged_messages_are_stored_once_and_in_order(
    place: str, path: Path, request: pytest.FixtureRequest
) -> None:
    """As the load test finds by asking the service, and as the store has it."""
    db = str(path) if place == "file" else request.getfixturevalue("url")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("CLEW_", "PG"))}
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), "--workers", "2", "--users", "6", "--seconds", "3", "--kill", "--db", db],
        capture_output=True, text=True, timeout=120, env=environ,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 of 6 conversations have each acknowledged message once and in order" in done.stdout
    with clew.open(db) as store:
        sessions = store.sessions.list().items
        assert len(sessions) == 6
        for session in sessions:
            texts = [node.text for node in session.path()]
            name = texts[0].rpartition(" ")[2]
            said = [f"message {number} of {name}" for number in range(len(texts) // 2)]
            assert texts == [text for one in said for text in (one, f"You said: {one}")]
        requests = sum(session.counters.messages for session in sessions) / 2
    (rate,) = re.findall(r"(\d+) requests/s", done.stdout)
    assert abs(requests / 3 - float(rate)) <= 1
