"""A clock and ids that a test controls."""

from __future__ import annotations

import itertools
from datetime import timedelta

from clew.base import ids


class FakeClock:
    """A clock that a test sets: microseconds since 1970, for `clew.open(clock=…)`."""

    def __init__(self, start: int = 1_700_000_000_000_000, *, tick: int = 0) -> None:
        self.now = start
        """The time that the next call returns."""
        self.tick = tick
        """Microseconds added by every call."""

    def __call__(self) -> int:
        now = self.now
        self.now += self.tick
        return now

    def advance(self, by: int | timedelta = 1) -> None:
        """Advances the clock by microseconds or a timedelta; negative values move it back."""
        self.now += by if isinstance(by, int) else by // timedelta(microseconds=1)


class SequentialIds:
    """Ids that count up from `first`, in stored form, for `clew.open(ids=…)`: the same in every run."""

    def __init__(self, first: int = 1) -> None:
        self._numbers = itertools.count(first)

    def __call__(self) -> bytes:
        return ids.parse(f"00000000-0000-7000-8000-{next(self._numbers):012x}")
