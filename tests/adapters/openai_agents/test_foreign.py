"""Messages of other programs in a session: `tests.adapters.foreign`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("agents.memory", reason="the framework is not installed")

import clew
from clew.adapters.openai_agents import ClewSession
from tests.adapters.foreign import check
from tests.adapters.openai_agents.drivers import Ours


def forms(ours, session):
    found = []
    for item in asyncio.run(ours.session(session).get_items()):
        match item.get("type"):
            case "function_call":
                found.append(("assistant", "call", item["name"]))
            case "function_call_output":
                found.append(("tool", "result", item["output"]))
            case _:
                found.append((item["role"], "text", item["content"]))
    return found


def test_messages_of_other_programs(tmp_path):
    """They are items, or left out with a warning."""
    check(Ours, str(tmp_path / "chats.db"), forms)


@pytest.mark.filterwarnings("ignore:.*is left out")
def test_limits_and_pops_count_items(tmp_path):
    """A message may be several items, or none: a limit and a pop count items."""
    with clew.open(tmp_path / "chats.db") as store:
        ours = ClewSession("s", store)
        asyncio.run(ours.add_items([{"role": "user", "content": "first"}]))
        call = clew.ToolCall(id="c", name="weather", arguments={})
        store.sessions.latest().append([clew.assistant("Let me see", call), clew.Message("assistant")])
        assert [item.get("type", "text") for item in asyncio.run(ours.get_items(2))] == ["text", "function_call"]
        popped: Any = [asyncio.run(ours.pop_item())]
        assert popped[0]["type"] == "function_call"
        assert [item["content"] for item in asyncio.run(ours.get_items())] == ["first", "Let me see"]
        popped = [asyncio.run(ours.pop_item()) for _ in range(3)]
        assert [popped[0]["content"], popped[1]["content"], popped[2]] == ["Let me see", "first", None]
