"""A terminal of a given width, with somebody at it who waits for what is shown."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from itertools import count
from pathlib import Path
from typing import Self

from tests.reliability.tools import need

PATIENCE = 60
"""Seconds for something to be shown, on a machine that does much else."""
HEIGHT = 32
_NUMBERS = count()


class Terminal:
    """A shell in tmux, on a socket of its own. `clew` in it is the one that is tested."""

    def __init__(self, width: int, folder: Path, env: dict[str, str]) -> None:
        need("tmux")
        self._socket = f"clew-{os.getpid()}-{next(_NUMBERS)}"  # the server before it may still be ending
        self._width = width
        self._folder = folder
        tools = folder / "bin"
        tools.mkdir()
        program = tools / "clew"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m clew "$@"\n')
        program.chmod(0o755)
        self._env = {
            "PATH": f"{tools}:/usr/bin:/bin", "HOME": str(folder), "LANG": "C.UTF-8", "TZ": "UTC", "PS1": "$ ",
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "HISTFILE": "", **env,
        }  # fmt: skip

    def __enter__(self) -> Self:
        words = [f"{name}={value}" for name, value in self._env.items()]
        self._tmux(
            "-f", "/dev/null", "new-session", "-d", "-s", "t", "-x", str(self._width), "-y", str(HEIGHT),
            "-c", str(self._folder / "project"), "env", "-i", "TERM=screen-256color", *words, "bash", "--norc",
        )  # fmt: skip
        self.shown(r"^\$$")
        return self

    def __exit__(self, *_: object) -> None:
        self._tmux("kill-server")

    def type(self, *keys: str) -> None:
        """Presses keys, by tmux's names; a text is typed letter by letter."""
        self._tmux("send-keys", "-t", "t", *keys)

    def resize(self, width: int, height: int) -> None:
        """Makes the terminal another size."""
        self._tmux("resize-window", "-t", "t", "-x", str(width), "-y", str(height))

    def run(self, command: str, until: str) -> str:
        """Types a command on an empty screen, and waits until something is shown."""
        self.type(f"clear; {command}", "Enter")
        return self.shown(until)

    def shown(self, pattern: str) -> str:
        """What is on the screen, once it has this and does not change any more."""
        end, before = time.monotonic() + PATIENCE, ""
        while time.monotonic() < end:
            screen = self._tmux("capture-pane", "-t", "t", "-p").rstrip("\n")
            if screen == before and re.search(pattern, screen, re.MULTILINE):
                return "\n".join(line.rstrip() for line in screen.splitlines()) + "\n"
            before = screen
            time.sleep(0.04)
        raise AssertionError(f"{pattern!r} was not shown:\n{before}")

    def _tmux(self, *args: str) -> str:
        done = subprocess.run(["tmux", "-L", self._socket, *args], capture_output=True, text=True, check=True)
        return done.stdout
