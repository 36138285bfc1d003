"""Ctrl-C while a model answers: the first one stops the answer, and none stops what is being saved.

A terminal that is closed (SIGHUP) and whoever ends the program (SIGTERM) stop the answer too: what arrived is kept, and
then the program ends as the signal says.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ENOUGH = 4
"""So many Ctrl-C for one answer mean that somebody wants out, whatever is going on."""
_ENDING = tuple(getattr(signal, name) for name in ("SIGHUP", "SIGTERM") if hasattr(signal, name))
_BEAT = 0.1
"""Seconds that a signal which arrived may stay unseen."""


class Interrupts:
    """Raises KeyboardInterrupt once for an answer, and never inside of `shield`: there it waits for the end."""

    def __init__(self) -> None:
        self._count = 0
        self._shields = 0
        self._waiting = False
        self._ending: int | None = None

    @contextmanager
    def answering(self) -> Iterator[None]:
        """While inside, Ctrl-C is handled here. Outside of the main thread nothing is: signals do not come there."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._count, self._waiting, self._ending = 0, False, None
        heeded = [one for one in _ENDING if signal.getsignal(one) is signal.SIG_DFL]  # as nohup has it, it stays
        before = {one: signal.signal(one, self._arrived) for one in (signal.SIGINT, *heeded)}
        try:
            with _awake():
                yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)
            self._end()

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

    def _end(self) -> None:
        """Ends the program by the signal that asked for it, if one did."""
        if self._ending is not None:
            signal.raise_signal(self._ending)

    def _arrived(self, number: int, _: FrameType | None) -> None:
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
def _awake() -> Iterator[None]:
    """While inside, no wait of the main thread keeps a signal from being handled.

    Python handles a signal between two steps of the program. One that arrives between the last step and the wait for a
    server's next word does not end that wait, so it would be handled with that word, or never. A thread therefore wakes
    the main thread again and again, by a signal that means nothing; what waits goes on waiting.
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
