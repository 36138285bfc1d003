"""Messages of other programs in a session: `tests.adapters.foreign`."""

from __future__ import annotations

import pytest

pytest.importorskip("strands", reason="the framework is not installed")

from tests.adapters.foreign import check
from tests.adapters.strands.drivers import Ours


def forms(ours, session):
    found = []
    records = ours._repository.list_messages(session, "a")
    assert [one.message_id for one in records] == sorted({one.message_id for one in records})
    for record in records:
        for block in record.message["content"]:
            if "toolUse" in block:
                found.append((record.message["role"], "call", block["toolUse"]["name"]))
            elif "toolResult" in block:
                found.append(("tool", "result", block["toolResult"]["content"][0]["text"]))
            else:
                found.append((record.message["role"], "text", block["text"]))
    return found


def test_messages_of_other_programs(tmp_path):
    """They are messages with a number of their own, or left out with a warning."""
    check(Ours, str(tmp_path / "chats.db"), forms, {"system"})
