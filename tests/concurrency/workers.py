"""Processes that write to one store, started together, and what must be there when they are done."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import clew

WRITER = """
import json, sys, time, uuid
import clew

path, session_id, writer, count, seconds, timeout = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
with clew.open(path, timeout=float(timeout)) as store:
    try:
        session = store.sessions.get(session_id)
    except clew.NotFound:
        try:
            session = store.sessions.create(id=session_id)
        except clew.Conflict:
            session = store.sessions.get(session_id)
    number, longest, began = 0, 0.0, time.monotonic()
    while number < int(count) and time.monotonic() - began < float(seconds):
        start = time.monotonic()
        session.append(clew.user(f"{writer} {number}", extra={"writer": writer, "number": number}))
        longest = max(longest, time.monotonic() - start)
        print("ACK", number, flush=True)
        number += 1
print(json.dumps({"count": number, "longest": longest}), flush=True)
"""


class Writer:
    """One process that appends to a session; it waits for `go` so that all begin at the same moment."""

    def __init__(
        self,
        path: Path | str,
        session: str,
        number: int,
        *,
        count: int = 10**9,
        seconds: float = 600,
        timeout: float = 60,
    ) -> None:
        self.name = f"w{number}"
        arguments = [str(path), session, self.name, str(count), str(seconds), str(timeout)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", WRITER, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def go(self) -> None:
        """Lets it begin."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def line(self) -> str:
        """The next line that it prints, and not a byte more: what is read ahead would be missing in `finish`."""
        assert self.process.stdout is not None
        said = b""
        while not said.endswith(b"\n"):
            said += os.read(self.process.stdout.fileno(), 1) or b"\n"
        return said.decode()

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()

    def finish(self) -> tuple[list[int], str, dict[str, Any] | None]:
        """The numbers it acknowledged, what it said on stderr, and its summary if it came to the end."""
        out, err = self.process.communicate(timeout=300)
        lines = out.splitlines()
        acked = [int(line.split()[1]) for line in lines if line.startswith("ACK ")]
        last = lines[-1] if lines and lines[-1].startswith("{") else None
        return acked, err, json.loads(last) if last else None


def crowd(path: Path | str, *, writers: int, count: int, kills: int, pause: float = 0.1) -> None:
    """Writers start together on a store that does not exist; some are killed; all that was acknowledged is there.

    They are killed one after the other, with `pause` seconds or up to twice as many before each.
    """
    session, rng = str(uuid.uuid4()), random.Random(7)
    crew = [Writer(path, session, number, count=count) for number in range(writers)]
    for writer in crew:
        writer.go()
    victims = rng.sample(crew, kills)
    for victim in victims:
        time.sleep(rng.uniform(pause, 2 * pause))
        victim.kill()
    acked = {}
    for writer in crew:
        acked[writer.name], err, summary = writer.finish()
        if writer not in victims:
            assert writer.process.returncode == 0, err
            assert err == "", "an error reached a caller"
            assert summary is not None
            assert acked[writer.name] == list(range(count))
    found = stored(path, session)
    for name, numbers in acked.items():
        kept = found.get(name, [])
        assert kept == list(range(len(kept))), f"{name}: each once, in its writer's order"
        # One append may have been stored by a victim that died before it could say so.
        assert len(numbers) <= len(kept) <= len(numbers) + 1


def stored(path: Path | str, session: str) -> dict[str, list[int]]:
    """The numbers stored for each writer, in stored order; and the store is sound."""
    found: dict[str, list[int]] = {}
    with clew.open(path, create=False) as store:
        for node in store.sessions.get(session).path():
            extra = node.message.extra or {}
            found.setdefault(extra["writer"], []).append(extra["number"])
        report = store.verify()
        assert report.ok, report.damage
    return found
