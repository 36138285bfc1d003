"""Interrupts at every moment at which one may come."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

import clew

SOURCE = os.path.dirname(clew.__file__)


class Interrupt:
    """Raises KeyboardInterrupt at the nth moment at which Python may deliver a signal inside clew.

    Those moments are the beginning of a function and the return from a call into C.
    """

    def __init__(self, nth: int) -> None:
        self._left = nth
        self.where = ""

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event not in ("call", "c_return") or not code.co_filename.startswith(SOURCE):
            return
        self._left -= 1
        if self._left == 0:
            sys.setprofile(None)
            self.where = f"{code.co_name} {event}"
            raise KeyboardInterrupt

    def __enter__(self) -> Self:
        sys.setprofile(self)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)


def appended_anyhow(session: clew.Session, meanwhile: Callable[[str], object]) -> list[str]:
    """Interrupts an append at each moment of it, and then makes it again; the ids of what must be there once by then.

    In between `meanwhile` is told where the interrupt came.
    """
    expected = []
    for nth in range(1, 10_000):
        id, interrupt = str(uuid.uuid4()), Interrupt(nth)
        try:
            with interrupt:
                session.append(clew.user(f"{nth}"), id=id)
        except KeyboardInterrupt:
            pass
        if not interrupt.where:
            break
        meanwhile(interrupt.where)
        session.append(clew.user(f"{nth}"), id=id)
        expected.append(id)
    assert len(expected) > 50, "the interrupt never struck"
    return expected
