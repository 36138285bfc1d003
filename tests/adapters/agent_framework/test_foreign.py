"""Messages of other programs in a session: `tests.adapters.foreign`."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("agent_framework", reason="the framework is not installed")

from tests.adapters.agent_framework.drivers import Ours
from tests.adapters.foreign import check


def forms(ours, session):
    found = []
    for message in asyncio.run(ours.provider.get_messages(session)):
        for content in message.contents:
            match content.type:
                case "function_call":
                    found.append((str(message.role), "call", content.name))
                case "function_result":
                    found.append(("tool", "result", str(content.result)))
                case _:
                    found.append((str(message.role), "text", content.text))
    return found


def test_messages_of_other_programs(tmp_path):
    """They are messages of the framework, or left out with a warning."""
    check(Ours, str(tmp_path / "chats.db"), forms)


@pytest.mark.filterwarnings("ignore:.*is left out")
def test_a_transcript_sent_back_is_stored_once(tmp_path):
    """A program that sends the whole transcript back, with messages of others, adds only what is new."""
    from agent_framework import Content, Message

    import clew

    path = str(tmp_path / "chats.db")
    ours = Ours(path)
    asyncio.run(ours.append("s", ["first"], ["i1"]))
    with clew.open(path) as store:
        store.sessions.latest().append(clew.assistant("added"))
        sent = asyncio.run(ours.provider.get_messages("s"))
        new = Message("user", [Content.from_text("next")], message_id="i2")
        asyncio.run(ours.provider.save_messages("s", [*sent, new]))
        assert len(store.sessions.latest().path()) == 3
    ours.close()
