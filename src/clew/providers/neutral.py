"""Encodes and views any message, in clew's own form or in a provider's."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from clew.base import codec
from clew.base.codec import Encoded
from clew.base.loading import loading
from clew.base.messages import AnyMessage, Message, Native


def neutral(said: AnyMessage) -> Message:
    """A message in clew's own form; a native one is read by its provider's rules."""
    if isinstance(said, Message):
        return said
    return _view()(said)


@cache
def _view() -> Callable[[Native], Message]:
    with loading:
        from clew.providers.view import view  # most stores never need it

    return view


def encode(said: AnyMessage, seen: Message | None = None) -> Encoded:
    """The bytes of a message. Invalid if reading them would not give the same message back. See `codec.encode`."""
    return codec.encode(said, neutral, seen)
