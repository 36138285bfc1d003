"""Measures the 95th percentile of recent write times and reports when it exceeds a limit."""

from __future__ import annotations

import threading
from collections import deque

LIMIT_MS = 150.0
WINDOW = 100
"""Number of writes in the window."""
FEWEST = 20
"""With fewer, one slow write would be the 95th percentile."""


class Latency:
    """A rolling window of write times."""

    def __init__(self, limit_ms: float = LIMIT_MS) -> None:
        self._limit = limit_ms
        self._lock = threading.Lock()
        self._last: deque[float] = deque(maxlen=WINDOW)
        self._over = False

    def note(self, milliseconds: float) -> tuple[float, int] | None:
        """Adds a write. Returns the percentile and the sample count if the percentile has just exceeded the limit."""
        with self._lock:
            self._last.append(milliseconds)
            if len(self._last) < FEWEST:
                return None
            ordered = sorted(self._last)
            p95 = ordered[-(-len(ordered) * 95 // 100) - 1]
            was, self._over = self._over, p95 > self._limit
            return (p95, len(ordered)) if self._over and not was else None
