"""Encodes and views any message, in clew's own form or in a provider's."""

from __future__ import annotations

from clew.base import codec
from clew.base.codec import Encoded
from clew.base.loading import loading
from clew.base.messages import AnyMessage, Message


def neutral(message: AnyMessage) -> Message:
    """A message in clew's own form; a native one is read by its provider's rules."""
    if isinstance(message, Message):
        return message
    with loading:
        from clew.providers.view import view  # most stores never need it

    return view(message)


def encode(message: AnyMessage) -> Encoded:
    """The bytes of a message. Invalid if decoding them would not give the same message."""
    return codec.encode(message, neutral)
