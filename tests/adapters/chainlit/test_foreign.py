"""Messages of other programs in a session: `tests.adapters.foreign`."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("chainlit", reason="the framework is not installed")

from tests.adapters.chainlit.drivers import Ours
from tests.adapters.foreign import check


def forms(ours, session):
    steps = asyncio.run(ours._layer.get_thread(session))["steps"]
    assert {step["threadId"] for step in steps} == {session}
    roles = {"user_message": "user", "assistant_message": "assistant", "system_message": "system"}
    first = {"first", "last"}  # the driver writes what it was given as the assistant's
    return [("user" if step["output"] in first else roles[step["type"]], "text", step["output"]) for step in steps]


def test_messages_of_other_programs(tmp_path):
    """They are steps, or left out with a warning."""
    check(Ours, str(tmp_path / "chats.db"), forms, {"call", "result"})
