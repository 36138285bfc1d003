"""A time limit for a command, also while it waits."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

GRACE = 1.0
"""Seconds for an orderly end before the process is terminated."""
_BEAT = 0.1


class OutOfTime(KeyboardInterrupt):
    """The time limit is reached. Like Ctrl+C, it is raised anywhere in the main thread, and is not an Exception."""


@contextmanager
def limit(seconds: float) -> Iterator[None]:
    """Raises OutOfTime after `seconds`; if that does not end the block, ends the process with exit code 0.

    No limit with 0 seconds, or outside the main thread, which alone receives signals.
    """
    if not seconds or threading.current_thread() is not threading.main_thread():
        yield
        return
    over, rung, main = threading.Event(), threading.Event(), threading.get_ident()

    def ring(*_: object) -> None:
        if not rung.is_set():
            rung.set()
            raise OutOfTime

    def wait() -> None:
        if over.wait(seconds):
            return
        for _ in range(round(GRACE / _BEAT)):  # repeat: a signal just before a wait does not end it
            if hasattr(signal, "pthread_kill"):
                signal.pthread_kill(main, signal.SIGALRM)
            if over.wait(_BEAT):
                return
        with suppress(OSError):
            os.write(2, f"clew: stopped after {seconds:g} seconds\n".encode())
        os._exit(0)

    before = signal.signal(signal.SIGALRM, ring) if hasattr(signal, "SIGALRM") else None
    watching = threading.Thread(target=wait, daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()
        rung.set()  # ignore a signal that arrives late
        if before is not None:
            signal.signal(signal.SIGALRM, before)
