"""What a conversation was held with beside its messages: the provider, its address, and the tools.

A session keeps it in its free data, so that it can be continued with the same, also by way of a snapshot. No API key
and no function of a tool is part of it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from clew.base.messages import SETUP
from clew.snapshots.types import ToolSnapshot
from clew.store.session import Session


class Setup(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The setup of a conversation; what is not known is empty."""

    provider: str = ""
    base_url: str = ""
    """Where its requests went. It is for comparison: data in a store does not say where an API key is sent."""
    tools: tuple[ToolSnapshot, ...] = ()


def setup_of(session: Session) -> Setup:
    """The setup that a session was last continued with."""
    try:
        return msgspec.convert(session.extra.get(SETUP) or {}, Setup)
    except msgspec.ValidationError:  # it is free data: anybody may have written it
        return Setup()


def with_setup(extra: dict[str, Any], setup: Setup) -> dict[str, Any] | None:
    """Free data with this setup in place of the one it has."""
    told = msgspec.to_builtins(setup)
    return {**extra, SETUP: told} if told or SETUP in extra else extra or None
