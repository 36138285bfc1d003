"""What a cleanup of agents' sessions reports; apart from the cleanup itself, which loads more."""

from __future__ import annotations

from typing import NamedTuple

from clew.engine.receipts import Receipt


class CleanupReport(NamedTuple):
    """The result of a cleanup: the purged sessions, their bytes in the store and in the mirror, and failures."""

    deleted: tuple[str, ...]
    bytes_freed: int
    failures: tuple[tuple[str, str], ...]
    receipt: Receipt
    """What remains: shared messages, and traces that are not cleared yet."""
