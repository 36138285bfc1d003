"""Ctrl-C while a model answers: the first one stops the answer, and none stops what is being saved."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ENOUGH = 4
"""So many Ctrl-C for one answer mean that somebody wants out, whatever is going on."""


class Interrupts:
    """Raises KeyboardInterrupt once for an answer, and never inside of `shield`: there it waits for the end."""

    def __init__(self) -> None:
        self._count = 0
        self._shields = 0
        self._waiting = False

    @contextmanager
    def answering(self) -> Iterator[None]:
        """While inside, Ctrl-C is handled here. Outside of the main thread nothing is: signals do not come there."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._count, self._waiting = 0, False
        before = signal.signal(signal.SIGINT, self._arrived)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    @contextmanager
    def shield(self) -> Iterator[None]:
        """While inside, nothing is raised; what arrived meanwhile is raised on leaving."""
        self._shields += 1
        try:
            yield
        finally:
            self._shields -= 1
            if self._waiting and not self._shields:
                self._waiting = False
                raise KeyboardInterrupt

    def _arrived(self, _: int, __: FrameType | None) -> None:
        self._count += 1
        if self._count >= ENOUGH:
            raise KeyboardInterrupt
        if self._count > 1:
            return
        if self._shields:
            self._waiting = True
        else:
            raise KeyboardInterrupt
