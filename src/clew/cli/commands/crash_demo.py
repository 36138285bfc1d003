"""Starts a process that appends messages, and kills it; used by `clew tour`."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress
from typing import IO

from clew.cli.setup.key_sources import VARIABLES

ENOUGH = 60
"""Acknowledged messages before the writer is killed; enough that it is busy writing on any machine."""
NOTE = "note "
"""Start of the writer's messages; the tree only counts them."""
PATIENCE = 60
"""Longest run of the writer in seconds."""


def kill_a_writer(session: str, path: str) -> tuple[list[str], str]:
    """Runs and kills a writer; returns the IDs it acknowledged, and how it ended."""
    env = {name: value for name, value in os.environ.items() if name not in VARIABLES}  # the tour's store is plain
    command = [sys.executable, "-m", "clew", "append", session, "--db", path, "--role", "assistant"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1, env=env
    ) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        # The pipe always has lines, so the writer is never idle when it is killed.
        feeder = threading.Thread(target=_feed, args=(writer.stdin,), daemon=True)
        late = threading.Timer(PATIENCE, writer.kill)
        acknowledged: list[str] = []
        try:
            feeder.start()
            late.start()
            for line in writer.stdout:
                if line.endswith("\n"):
                    acknowledged.append(line.split('"')[3])
                if len(acknowledged) == ENOUGH:
                    writer.kill()
        finally:
            late.cancel()
            writer.kill()  # also when the tour itself is interrupted
            code = writer.wait()
            feeder.join()
    return acknowledged, f"signal {-code}" if code < 0 else f"exit code {code}"


def _feed(pipe: IO[str]) -> None:
    with suppress(OSError), pipe:  # fails when the writer is dead
        for number in range(1_000_000):
            pipe.write(f'{{"text": "{NOTE}{number} of a writer that does not know what is coming"}}\n')
