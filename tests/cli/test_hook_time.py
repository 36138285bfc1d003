"""`clew hook` never blocks the agent: it ends in time, whatever it is given, and the next call continues."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.sources import records
from tests.reliability.tools import python

SESSION = "8c35adc1-0000-4000-8000-000000000001"
LIMIT = 1.0
SLACK = 8.0
"""Seconds that a busy machine may need to start a program and to end it."""
HOOK = "import sys; sys.argv[1:] = ['hook']; from clew.cli import main; sys.exit(main())"
SMALL_BATCHES = f"from clew.sources import importer; importer.MANY = 20; {HOOK}"


@pytest.fixture
def event(tmp_path: Path, db: str) -> dict[str, Any]:
    """What an agent says about an event of a session whose transcript is not there yet."""
    (tmp_path / "work").mkdir()
    return {"session_id": SESSION, "transcript_path": str(tmp_path / f"{SESSION}.jsonl"), "cwd": str(tmp_path / "work")}


def hook(event: dict[str, Any], name: str, *, limit: float = LIMIT, program: str = HOOK, **more: Any) -> str:
    """Runs the hook as a program, which has to end in time; returns what it said."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", program], input=json.dumps({**event, "hook_event_name": name, **more}),
        env={**os.environ, "CLEW_HOOK_TIMEOUT": str(limit)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "")
    assert time.monotonic() - began < limit + SLACK
    return done.stderr


@pytest.fixture
def enough(event: dict[str, Any]) -> float:
    """Seconds in which a hook can begin on this machine, as busy as it is: several times what one needs for nothing."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", HOOK], input=b"{}", capture_output=True, check=False)
    return max(LIMIT, 5 * (time.monotonic() - began))


def test_a_transcript_without_an_end(event: dict[str, Any], db: str, enough: float) -> None:
    """30 GB without a newline: each call stops in time and says that something is left; what is before it is stored."""
    before = "".join(f'{{"type":"x","uuid":"{number}"}}\n' for number in range(5))
    with open(event["transcript_path"], "w") as file:
        file.write(before)
        file.truncate(30 << 30)
    for _ in range(2):
        assert "left for the next call" in hook(event, "Stop", limit=enough, prompt_id=str(uuid.uuid4()))
    with clew.open(db) as store:
        assert b"".join(records(store.sessions.get(SESSION), store)) == before.encode()


@pytest.mark.parametrize("path", ["a/" * 100_000, "../" * 70_000, "a" * 200_000])
def test_a_path_that_no_file_can_have(event: dict[str, Any], path: str, enough: float) -> None:
    """It is refused at once, and not repeated on stderr."""
    for more in ({"tool_input": {"file_path": path}}, {"cwd": "/" + path, "tool_input": {"file_path": "a"}}):
        told = hook(event, "PreToolUse", limit=enough, tool_name="Edit", **more)
        assert ("the limit for a path is 4,096" in told, len(told) < 500) == (True, True)
    assert "the limit for a path is 4,096" in hook(event, "Stop", limit=enough, transcript_path="/" + path)


def test_a_store_that_another_process_writes_to(event: dict[str, Any], db: str, enough: float) -> None:
    """The hook gives up while it still has time to say so."""
    Path(event["transcript_path"]).write_text('{"type":"x"}\n')
    with clew.open(db) as store, store.transaction():
        store.sessions.create()
        assert "clew:" in hook(event, "Stop")
    assert hook(event, "Stop", limit=30) == ""


def test_an_agent_that_never_finishes_its_sentence(event: dict[str, Any]) -> None:
    """Stdin stays open: the hook ends all the same."""
    began = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-c", HOOK], stdin=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "CLEW_HOOK_TIMEOUT": str(LIMIT)},
    ) as one:  # fmt: skip
        assert one.stderr is not None and one.stdin is not None
        one.stdin.write(b'{"hook_event_name": ')
        one.stdin.flush()
        assert one.wait(60) == 0
        assert b"stopped after 1 seconds" in one.stderr.read()
    assert time.monotonic() - began < LIMIT + SLACK


def test_what_does_not_stop_is_ended() -> None:
    """Whatever the main thread does with the interruption, the process ends, with exit code 0."""
    code = """
import time
from clew.cli.commands.hook import limit
with limit(0.2):
    while True:
        try:
            time.sleep(60)
        except BaseException:
            pass
"""
    began = time.monotonic()
    running = python(code)
    assert running.communicate(timeout=60)[1] == "clew: stopped after 0.2 seconds\n"
    assert running.returncode == 0
    assert time.monotonic() - began < SLACK


def test_what_was_left_is_caught_up(event: dict[str, Any], db: str) -> None:
    """Hooks that are stopped again and again: every line is there once, in order, also those of a subagent."""
    own = Path(event["transcript_path"])
    other = own.with_suffix("") / "subagents" / "agent-a1.jsonl"
    other.parent.mkdir(parents=True)
    sizes = {own: 300, other: 6000}
    for path, size in sizes.items():
        path.write_text("".join(f'{{"type":"x","uuid":"{number}"}}\n' for number in range(size)))
    told = []
    for number in range(60):
        told.append(hook(event, "Stop", limit=0.05 + number / 10, program=SMALL_BATCHES))
        if told[-1] == "":
            break
    assert told[-1] == ""
    assert all("stopped after" in one for one in told[:-1])  # on a fast machine there may be none
    with clew.open(db) as store:
        session = store.sessions.get(SESSION)
        for one, path in zip((session, *session.subagents()), sizes, strict=True):
            assert b"".join(records(one, store)) == path.read_bytes()
        assert store.verify().ok


def test_files_come_before_the_transcript(event: dict[str, Any], db: str, enough: float) -> None:
    """A transcript that takes all the time does not keep the end of a turn, or of a session, from being noted."""
    with open(event["transcript_path"], "wb") as file:
        file.truncate(30 << 30)
    hook(event, "SessionEnd", limit=enough, reason="logout")
    with clew.open(db) as store:
        assert store.sessions.get(SESSION).extra["exit_reason"] == "logout"


def test_a_writer_does_not_wait_for_a_transcript(event: dict[str, Any], db: str) -> None:
    """While a hook reads, no transaction is open: another process appends at once."""
    with open(event["transcript_path"], "wb") as file:
        file.truncate(30 << 30)
    with clew.open(db) as store:
        session, waited = store.sessions.create(), list[float]()
        running = subprocess.Popen([sys.executable, "-m", "clew", "hook"], stdin=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env={**os.environ, "CLEW_HOOK_TIMEOUT": "4"})  # fmt: skip
        assert running.stdin is not None
        running.stdin.write(json.dumps({**event, "hook_event_name": "Stop"}).encode())
        running.stdin.close()
        while running.poll() is None:
            began = time.monotonic()
            session.append(clew.user("x"))
            waited.append(time.monotonic() - began)
            time.sleep(0.02)
        assert running.stderr is not None
        assert b"left for the next call" in running.stderr.read()
        running.stderr.close()
        assert max(waited) < 3.0  # of the 4 that the hook reads
