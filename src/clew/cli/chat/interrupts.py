"""Ctrl+C while a model answers: the first one stops the answer; none interrupts a write to the store.

SIGHUP and SIGTERM stop the answer too: the part that arrived is stored, and the program ends with the signal.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ENOUGH = 4
"""Number of Ctrl+C that interrupt the program even during a write."""
_ENDING = tuple(getattr(signal, name) for name in ("SIGHUP", "SIGTERM") if hasattr(signal, name))
_BEAT = 0.1
"""Maximum delay of a signal in seconds."""


class Interrupts:
    """Raises KeyboardInterrupt once per answer; inside `shield`, only at its end."""

    def __init__(self) -> None:
        self._count = 0
        self._shields = 0
        self._waiting = False
        self._ending: int | None = None

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Handles signals inside; does nothing outside the main thread, which receives no signals."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._count, self._waiting, self._ending = 0, False, None
        heeded = [one for one in _ENDING if signal.getsignal(one) is signal.SIG_DFL]  # keep the handlers of nohup
        before = {one: signal.signal(one, self._on_signal) for one in (signal.SIGINT, *heeded)}
        try:
            with _wake_regularly():
                yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)
            self._end()

    @contextmanager
    def shield(self) -> Iterator[None]:
        """Delays KeyboardInterrupt until the end of the block."""
        self._shields += 1
        try:
            yield
        finally:
            self._shields -= 1
            if self._waiting and not self._shields:
                self._waiting = False
                raise KeyboardInterrupt

    def _end(self) -> None:
        """Raises the signal that asked the program to end, if any."""
        if self._ending is not None:
            signal.raise_signal(self._ending)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if number != signal.SIGINT:
            self._ending = number
        self._count += 1
        if self._count >= ENOUGH:
            raise KeyboardInterrupt
        if self._count > 1:
            return
        if self._shields:
            self._waiting = True
        else:
            raise KeyboardInterrupt


@contextmanager
def _wake_regularly() -> Iterator[None]:
    """Makes sure that a blocking wait of the main thread does not delay a signal.

    Python handles signals between bytecode steps. A signal that arrives just before a blocking read does not interrupt
    it and would be handled only after the read. A thread therefore wakes the main thread regularly with a signal that
    has no effect; interrupted reads continue.
    """
    if not hasattr(signal, "pthread_kill"):  # Windows
        yield
        return
    over, main = threading.Event(), threading.get_ident()

    def beat() -> None:
        while not over.wait(_BEAT):
            signal.pthread_kill(main, signal.SIGURG)

    before = signal.signal(signal.SIGURG, lambda *_: None)
    beating = threading.Thread(target=beat, daemon=True)
    beating.start()
    try:
        yield
    finally:
        over.set()
        beating.join()
        signal.signal(signal.SIGURG, before)
