"""Real shells at a real terminal, with somebody who types and presses Tab."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

from tests.reliability.tools import need

PATIENCE = 60
PROMPT = "ready>"
START = {
    "bash": (["--norc", "--noprofile", "-i"], f"PS1='{PROMPT}'; bind 'set enable-bracketed-paste off'"),
    "zsh": (["-f", "-i"], f"PS1='{PROMPT}'; autoload -U compinit; compinit -u -D; unsetopt zle_bracketed_paste"),
}
_ESCAPES = re.compile("\x1b(?:\\[[0-9;?]*[a-zA-Z]|[=>]|\\][^\x07]*\x07)|\x07|\r")


class Shell:
    """A shell in which `clew` is ours, and completed."""

    def __init__(self, name: str, folder: Path) -> None:
        args, setup = START[name]
        path = os.pathsep.join([str(program(folder)), os.environ["PATH"]])
        env = {**os.environ, "PATH": path, "TERM": "xterm", "HOME": str(folder), "COLUMNS": "200"}
        self._ours, theirs = pty.openpty()
        self._running = subprocess.Popen(
            [need(name), *args], stdin=theirs, stdout=theirs, stderr=theirs, env=env, start_new_session=True
        )
        os.close(theirs)
        self._seen = ""
        self.type(f"{setup}\n", PROMPT)
        self.type(f'eval "$(clew completion {name})"; echo do""ne\n', "done")

    def type(self, keys: str, until: str) -> str:
        """Types, and returns what came on the screen up to and with `until`."""
        os.write(self._ours, keys.encode())
        end = time.monotonic() + PATIENCE
        while until not in self._seen:
            assert time.monotonic() < end, f"{until!r} did not come: {self._seen!r}"
            if select.select([self._ours], [], [], 0.1)[0]:
                self._seen += _ESCAPES.sub("", os.read(self._ours, 65536).decode(errors="replace"))
        shown, _, self._seen = self._seen.partition(until)
        return shown + until

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._running.kill()
        self._running.wait()
        os.close(self._ours)


def program(folder: Path) -> Path:
    """A folder with nothing but a `clew` that runs this source."""
    place = folder / "bin"
    place.mkdir(exist_ok=True)
    (place / "clew").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m clew "$@"\n')
    (place / "clew").chmod(0o755)
    return place
