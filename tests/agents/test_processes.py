"""Processes that write to one session, its transcript and its mirror at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import clew
from clew import agents
from clew.agents.store import store_of
from tests.agents.conftest import lines, place
from tests.reliability.tools import python

WRITER = """
import sys, clew
from clew import agents
path, root, session, name, count = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
with agents.open(path, mirror=root) as sessions:
    for number in range(int(count)):
        sessions.append_message(session, clew.user(f"{name} {number}"))
        sessions.append_event(session, {"type": "x", "name": name, "n": number})
"""


def crowd(path: Path, root: Path, *, writers: int, count: int) -> None:
    with agents.open(path, mirror=root) as sessions:
        session = sessions.create(cwd="/src")
    crew = [python(WRITER, path, root, session.id, f"w{number}", str(count)) for number in range(writers)]
    for one in crew:
        assert one.stdout is not None and one.stdout.readline() == "ready\n"
    for one in crew:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
    for one in crew:
        _, err = one.communicate(timeout=300)
        assert (one.returncode, err) == (0, "")
    with agents.open(path, mirror=root) as sessions:
        said = [node.text for node in sessions.load_messages(session.id)]
        events = [event.data for event in sessions.transcript(session.id).read()]
        assert len(said) == len(events) == writers * count
        for number in range(writers):
            assert [text for text in said if text.startswith(f"w{number} ")] == [f"w{number} {n}" for n in range(count)]
            assert [event["n"] for event in events if event["name"] == f"w{number}"] == list(range(count))
        folder = place(sessions, session)
        assert [line["message"]["blocks"][0]["text"] for line in lines(folder / "messages.jsonl")] == said
        assert lines(folder / "transcript.jsonl") == events
        assert json.loads((folder / "metadata.json").read_bytes())["message_count"] == len(said)
        assert store_of(sessions).verify().ok


@pytest.mark.checklist("B19")
def test_eight_processes(path, root):
    """Each message and each event is there once, in its writer's order, in the store and in the files."""
    crowd(path, root, writers=8, count=8)


@pytest.mark.soak
def test_eight_processes_for_long(path, root):
    """The same with two hundred each."""
    crowd(path, root, writers=8, count=200)


@pytest.mark.checklist("B19")
def test_waiting_for_the_store_ends_in_an_error(path):
    """A lock timeout raises an error; nothing is dropped silently, and the same call succeeds later."""
    with agents.open(path, timeout=0.1) as sessions, clew.open(path) as other:
        session = sessions.create()
        with other.transaction():
            other.sessions.create()
            for call in (lambda: session.append_and_save(clew.user("x")), lambda: session.append_event({"type": "x"})):
                with pytest.raises(clew.Unavailable):
                    call()
        session.append_and_save(clew.user("x"))
        session.append_event({"type": "x"})
        assert (len(session.messages), session.transcript.count()) == (1, 1)
