"""A real terminal with somebody at it, who answers what is asked."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

PATIENCE = 30
_TAKE_IT = (
    "import fcntl, os, sys, termios; fcntl.ioctl(2, termios.TIOCSCTTY, 0);"
    "os.execv(sys.executable, [sys.executable, '-m', 'clew', *sys.argv[1:]])"
)
"""Makes the terminal the one that /dev/tty means, and becomes clew."""


class Seen(NamedTuple):
    """How a command ended, and all that was on the screen."""

    code: int
    screen: str
    out: str


def at_a_terminal(
    *args: str,
    answers: Sequence[tuple[str, str]] = (),
    input: bytes | None = None,
    piped: bool = False,
    env: dict[str, str] | None = None,
) -> Seen:
    """Runs clew on a terminal, and types each answer when its question is there. Ctrl-C is "\\x03".

    With `input` stdin is a pipe; with `piped` stdout is, and its content is `out`.
    """
    ours, theirs = pty.openpty()
    stdin = subprocess.PIPE if input is not None else theirs
    running = subprocess.Popen(
        [sys.executable, "-c", _TAKE_IT, *args],
        stdin=stdin, stdout=subprocess.PIPE if piped else theirs, stderr=theirs,
        env={**os.environ, "TERM": "dumb", **(env or {})}, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    if running.stdin is not None:
        running.stdin.write(input or b"")
        running.stdin.close()
    screen, left, until, seen = b"", list(answers), time.monotonic() + PATIENCE, 0
    while time.monotonic() < until:
        if not select.select([ours], [], [], 0.1)[0]:
            continue
        try:
            part = os.read(ours, 65536)
        except OSError:  # Linux says so when the other side is closed
            break
        if not part:
            break
        screen += part
        if left and left[0][0].encode() in screen[seen:]:
            seen = len(screen)
            time.sleep(0.1)  # whoever asks for a secret switches the echo off first
            os.write(ours, left.pop(0)[1].encode() + b"\r")
    out = running.stdout.read().decode() if running.stdout is not None else ""
    if running.stdout is not None:
        running.stdout.close()
    code = running.wait(timeout=PATIENCE)
    os.close(ours)
    assert not left, (left, screen)
    return Seen(code, screen.decode().replace("\r\n", "\n"), out)
