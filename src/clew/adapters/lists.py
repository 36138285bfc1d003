"""Lists of messages that a framework passes as a whole at each write: only new messages are stored.

A list is a slice of a session's path: the last message, and the number of messages. A list that lost messages at its
beginning, such as a moving window, shares the rest with the list before it. A list that changed in the middle becomes a
branch; the old messages stay.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from clew.adapters.chains import place
from clew.adapters.keyed import Keyed
from clew.adapters.natives import native_message
from clew.backends import ID, POS, RefRow, Tx
from clew.base import ids
from clew.base.messages import Native
from clew.engine import paths
from clew.engine.node import Node, node_row
from clew.errors import NotFound


class Slice(msgspec.Struct, frozen=True, array_like=True):
    """A stored list: the id of its last message, and the number of its messages."""

    last: str | None = None
    count: int = 0


def load_list(keyed: Keyed, tx: Tx, at: Slice) -> list[Node]:
    """The messages of a stored list. NotFound if they were deleted."""
    if at.last is None or at.count == 0:
        return []
    location = tx.node(ids.parse(at.last))
    if location is None:
        raise NotFound("message", at.last, hint="It was deleted.")
    return paths.last(keyed.engine, tx, location.row[POS], at.count)


def store_list(keyed: Keyed, tx: Tx, row: RefRow, before: Slice, messages: Sequence[Native]) -> Slice:
    """Stores the messages that the list before does not have, and moves the head of the session to the last one."""
    old = load_list(keyed, tx, before)
    said = [raw_message(node) for node in old]
    shared, kept = _overlap(said, [message.raw for message in messages])
    after = node_row(old[kept - 1])[ID] if kept else None
    drafts = [keyed.engine.draft(message) for message in messages[shared:]]
    place(keyed, tx, row, after, drafts)
    last = drafts[-1].id if drafts else after
    return Slice(None if last is None else ids.text(last), len(messages))


def raw_message(node: Node) -> bytes:
    """The JSON of a message, as the framework wrote it. Corrupted if it is not one of a framework."""
    return native_message(node).raw


def _overlap(old: Sequence[bytes], new: Sequence[bytes]) -> tuple[int, int]:
    """The number of messages at the beginning of a list that are stored, and the place in the old list they end at."""
    for start in range(len(old)):
        length = len(old) - start
        if length <= len(new) and old[start] == new[0] and old[start:] == new[:length]:
            return length, len(old)
    shared = 0
    while shared < min(len(old), len(new)) and old[shared] == new[shared]:
        shared += 1
    return shared, shared
