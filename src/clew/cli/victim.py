"""The writer that dies on the tour: a process of its own, killed while it appends."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress
from typing import IO

from clew.cli.sources import VARIABLES

ENOUGH = 60
"""Acknowledged messages after which the writer is killed: it is then in the middle of writing, whatever the machine."""
NOTE = "note "
"""How the writer's messages begin; the tree counts them instead of showing them."""
PATIENCE = 60
"""Seconds for the writer to get there on the slowest disk."""


def kill_a_writer(session: str, path: str) -> tuple[list[str], str]:
    """The ids that a writing process acknowledged before it was killed, and how it ended."""
    env = {name: value for name, value in os.environ.items() if name not in VARIABLES}  # the tour's store is plain
    command = [sys.executable, "-m", "clew", "append", session, "--db", path, "--role", "assistant"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1, env=env
    ) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        # Lines wait in the pipe all the time: the writer is never idle, so the kill meets it at work.
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
    with suppress(OSError), pipe:  # it ends when the reader is dead, as it should be
        for number in range(1_000_000):
            pipe.write(f'{{"text": "{NOTE}{number} of a writer that does not know what is coming"}}\n')
