"""Processes that write to one store, started together."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

WRITER = """
import json, sys, time, uuid
import clew

path, session_id, writer, count, seconds, timeout = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
began = time.monotonic()
with clew.open(path, timeout=float(timeout)) as store:
    try:
        session = store.sessions.get(session_id)
    except clew.NotFound:
        try:
            session = store.sessions.create(id=session_id)
        except clew.Conflict:
            session = store.sessions.get(session_id)
    number, longest = 0, 0.0
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
        self, path: Path, session: str, number: int, *, count: int = 10**9, seconds: float = 600, timeout: float = 60
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
