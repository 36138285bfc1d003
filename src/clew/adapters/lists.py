"""Lists of messages that a framework passes as a whole at each write: only new messages are stored.

A list is a slice of a session's path: the last message, and the number of messages. A list that lost messages at its
beginning, such as a moving window, shares the rest with the list before it. A list that changed in the middle becomes a
branch; the old messages stay.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from clew.adapters.keyed import native_message
from clew.base.messages import Native
from clew.engine.node import Node
from clew.store.session import Session
from clew.store.unit import Unit


class Slice(msgspec.Struct, frozen=True, array_like=True):
    """A stored list: the id of its last message, and the number of its messages."""

    last: str | None = None
    count: int = 0


def load_list(unit: Unit, at: Slice) -> list[Node]:
    """The messages of a stored list. NotFound if they were deleted."""
    return [] if at.last is None or at.count == 0 else unit.path(at.last, last=at.count)


def store_list(unit: Unit, session: Session, before: Slice, messages: Sequence[Native]) -> Slice:
    """Stores the messages that the list before does not have, and moves the head of the session to the last one."""
    old = load_list(unit, before)
    shared, kept = _overlap([raw_message(node) for node in old], [message.raw for message in messages])
    after = old[kept - 1].id if kept else None
    new = unit.append(session, messages[shared:], after=after)
    return Slice(new[-1].id if new else after, len(messages))


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
