"""A limit on the time that a command may take, whatever it waits for."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

GRACE = 1.0
"""Seconds to end in an orderly way, before the process is ended."""
_BEAT = 0.1


class OutOfTime(KeyboardInterrupt):
    """The time is over. Like Ctrl-C, it is raised wherever the main thread is, and no handler of errors catches it."""


@contextmanager
def limit(seconds: float) -> Iterator[None]:
    """Raises OutOfTime inside once `seconds` have passed; if that does not end it, the process ends with exit code 0.

    Nothing is limited with 0 seconds, nor outside of the main thread, which alone is given signals.
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
        for _ in range(round(GRACE / _BEAT)):  # a signal just before a wait does not end that wait: send it again
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
        rung.set()  # a signal that is still on its way raises nothing
        if before is not None:
            signal.signal(signal.SIGALRM, before)
