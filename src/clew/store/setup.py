"""`Setup`: with which provider, at which address and with which tools a session was last continued.

It is stored in the session's free data, which any program can write.
"""

from __future__ import annotations

from typing import Any

import msgspec

from clew.base.messages import SETUP
from clew.snapshots.types import ToolSnapshot
from clew.store.session import Session


class Setup(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The setup of a conversation; unknown fields are empty."""

    provider: str = ""
    base_url: str = ""
    """Where its requests went. Only for comparison: stored data must never decide where an API key is sent."""
    tools: tuple[ToolSnapshot, ...] = ()


def setup_of(session: Session) -> Setup:
    """The setup that a session was last continued with."""
    try:
        return msgspec.convert(session.extra.get(SETUP) or {}, Setup)
    except msgspec.ValidationError:  # any program can write free data
        return Setup()


def with_setup(extra: dict[str, Any], setup: Setup) -> dict[str, Any] | None:
    """Free data with its setup replaced by this one."""
    fields = msgspec.to_builtins(setup)
    return {**extra, SETUP: fields} if fields or SETUP in extra else extra or None
