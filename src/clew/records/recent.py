"""Caches the messages of recently read records, so that a write reads back only the messages it added.

Only writes use the cache: `get` reads everything from the store, and so detects damage.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import NamedTuple

from clew.records.record_data import RecordMessages, StoredRecord
from clew.records.repository import Repository

MOST = 4
"""Number of records in the cache."""


class RecordRead(NamedTuple):
    """A session and its messages, read in one transaction."""

    found: StoredRecord
    messages: RecordMessages


class Recent:
    """Reads records and caches the messages of a few."""

    def __init__(self, records: Repository) -> None:
        self._records = records
        self._seen: OrderedDict[str, RecordMessages] = OrderedDict()
        self._lock = threading.Lock()

    def whole(self, key: str) -> RecordRead | None:
        """Reads a record from the store; None if there is none. Raises Corrupted."""
        whole = self._records.whole(key)
        return (
            None
            if whole is None
            else self._remember(key, RecordRead(whole.found, RecordMessages.none().plus(whole.nodes)))
        )

    def after_write(self, key: str) -> RecordRead | None:
        """Reads a record after a write; reads only new messages if the others are cached. Raises Corrupted."""
        with self._lock:
            seen = self._seen.get(key)
        since = None if seen is None else self._records.since(key, seen.head, seen.depth)
        if seen is None or since is None:
            return self.whole(key)
        return self._remember(key, RecordRead(since.found, seen.plus(since.nodes)))

    def forget(self) -> None:
        """Clears the cache, after a deletion."""
        with self._lock:
            self._seen.clear()

    def _remember(self, key: str, read: RecordRead) -> RecordRead:
        with self._lock:
            self._seen.pop(key, None)
            if read.messages.head is not None and not read.messages.damage:
                self._seen[key] = read.messages
            while len(self._seen) > MOST:
                self._seen.popitem(last=False)
        return read
