"""Narrow interfaces to a tree of messages, and the dialog of a message over any of them.

`store.nodes` has all four. A program that needs one accepts only that, and can be given another store.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

from clew.errors import Corrupted

if TYPE_CHECKING:
    from clew.base.messages import AnyMessage
    from clew.base.values import Page
    from clew.engine.node import Node


class TreeMessage(Protocol):
    """A message with an id, and the id of the one before it."""

    @property
    def id(self) -> str:
        """Unique in its tree."""

    @property
    def parent_id(self) -> str | None:
        """None for a root."""


M_co = TypeVar("M_co", bound=TreeMessage, covariant=True)


@runtime_checkable
class MessageGetter(Protocol[M_co]):
    """Reads messages by id."""

    def get(self, ids: list[str], /) -> Sequence[M_co]:
        """The messages with these ids, in this order. NotFound if one is missing."""


@runtime_checkable
class MessageSaver(Protocol):
    """Stores messages."""

    def save(self, messages: Sequence[AnyMessage], /, *, parent: str | None = None) -> Sequence[Node]:
        """Stores messages, all or none, each after the one before it, the first after `parent` or as a root."""


@runtime_checkable
class MessageLister(Protocol):
    """Lists messages."""

    def list(self, *, limit: int = 50, offset: int = 0, ascending: bool = False) -> Page[Node]:
        """All messages, newest first unless `ascending`."""


@runtime_checkable
class MessageDeleter(Protocol):
    """Deletes messages."""

    def delete(self, ids: Iterable[str], /, *, recursive: bool = False) -> object:
        """Deletes messages, all or none. Conflict if one has children, unless `recursive`."""


def dialog(getter: MessageGetter[M_co], id: str) -> list[M_co]:
    """The messages from the root down to this one, in order, read one at a time. NotFound; Corrupted for a cycle."""
    found: dict[str, M_co] = {}
    above: str | None = id
    while above is not None:
        (message,) = getter.get([above])
        if message.id in found:
            raise Corrupted(f"message {message.id}", "it follows itself")
        found[message.id] = message
        above = message.parent_id
    return [*reversed(found.values())]
