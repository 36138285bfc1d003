"""The messages of the records that were last read, so that what a write returns costs what the write has added.

They are used for that alone: `get` reads everything from the store, and so finds what is damaged there.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import NamedTuple

from clew.records.kept import Found, Messages
from clew.records.repository import Repository

MOST = 4
"""Records whose messages are kept in memory."""


class Read(NamedTuple):
    """A session and its messages, of one moment."""

    found: Found
    messages: Messages


class Recent:
    """Reads records, and remembers the messages of a few."""

    def __init__(self, records: Repository) -> None:
        self._records = records
        self._seen: OrderedDict[bytes, Messages] = OrderedDict()
        self._lock = threading.Lock()

    def whole(self, key: bytes) -> Read | None:
        """A record, read from the store; None if there is none. Tampered."""
        whole = self._records.whole(key)
        return None if whole is None else self._remember(key, Read(whole.found, Messages.none().plus(whole.nodes)))

    def after_write(self, key: bytes) -> Read | None:
        """A record that was just written to: of what was seen before, only what is new is read. Tampered."""
        with self._lock:
            seen = self._seen.get(key)
        since = None if seen is None else self._records.since(key, seen.head, seen.depth)
        if seen is None or since is None:
            return self.whole(key)
        return self._remember(key, Read(since.found, seen.plus(since.nodes)))

    def forget(self) -> None:
        """Keeps no messages any more: some were deleted."""
        with self._lock:
            self._seen.clear()

    def _remember(self, key: bytes, read: Read) -> Read:
        with self._lock:
            self._seen.pop(key, None)
            if read.messages.head is not None and not read.messages.damage:
                self._seen[key] = read.messages
            while len(self._seen) > MOST:
                self._seen.popitem(last=False)
        return read
