"""Interrupts its main thread again and again while that and others write; prints how often. Run by test_interrupt."""

from __future__ import annotations

import random
import signal
import sys
import threading
import time
from contextlib import suppress

import clew
from clew.errors import Unavailable


def interrupted(*_: object) -> None:
    """What Ctrl-C does."""
    raise KeyboardInterrupt


def main(path: str, seconds: float = 2.0) -> int:
    """How often it struck. AssertionError if somebody is kept waiting, or something is lost or stored twice."""
    chance, struck, over = random.Random(5), 0, threading.Event()
    signal.signal(signal.SIGALRM, interrupted)
    store = clew.open(path, timeout=20, durability="relaxed")
    sessions = [store.sessions.create() for _ in range(4)]
    acked: list[list[str]] = [[] for _ in sessions]

    def talk(number: int) -> None:
        while not over.is_set():
            with suppress(Unavailable):  # whoever wrote for it was interrupted
                acked[number].append(sessions[number].append(clew.user("word")).id)

    crew = [threading.Thread(target=talk, args=(number,), daemon=True) for number in (1, 2, 3)]
    for thread in crew:
        thread.start()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            signal.setitimer(signal.ITIMER_REAL, chance.uniform(5e-5, 4e-3))
            while time.monotonic() < until:  # an interrupt in a finaliser is ignored by Python
                with suppress(Unavailable):
                    acked[0].append(sessions[0].append(clew.user("word")).id)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            struck += 1
    over.set()
    for thread in crew:
        thread.join(20)
    assert not any(thread.is_alive() for thread in crew), "somebody is kept waiting"
    for session, ids in zip(sessions, acked, strict=True):
        stored = [node.id for node in session.path()]
        assert len(stored) == len(set(stored)), "something is stored twice"
        assert set(ids) <= set(stored), "something is lost"
    store.close()
    return struck


if __name__ == "__main__":
    print(main(sys.argv[1]))
