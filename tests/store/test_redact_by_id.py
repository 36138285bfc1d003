"""Calls of redact_message with something else than a node."""

from __future__ import annotations

from pathlib import Path

import pytest

import clew
from clew.errors import Invalid
from clew.redaction import Rules, builtin
from clew.store.redact_message import redact_message


def test_an_id_is_not_a_node(path: Path) -> None:
    """An id instead of a node is refused with a hint that says how to read the node."""
    with clew.open(path) as store, pytest.raises(Invalid, match="must be a Node"):
        redact_message(store, "an-id", Rules(builtin()))  # type: ignore[arg-type]
