"""The JSON of the exports of ChatGPT and Claude.ai."""

from __future__ import annotations

import json

from tests.sources.made import an_id
from tests.sources.test_exports import TALK, TREE, chatgpt, claude, node, say

_TOOLS = chatgpt(
    node("u", None, "user", "Search"),
    node("c", "u", "assistant", "query", recipient="web"),
    node("t", "c", "tool", "found"),
    node("a", "t", "assistant", "It is there", metadata={"model_slug": "gpt-x"}),
    conversation_id="c2",
    title="Second",
    current_node="a",
)
_TOOLS["mapping"]["t"]["message"]["author"]["name"] = "web"
_EDITED = claude(
    say(11, "human", "One", parent_message_uuid="00000000-0000-4000-8000-000000000000"),
    say(12, "assistant", "A", parent_message_uuid=an_id(11)),
    say(13, "assistant", "B", parent_message_uuid=an_id(11)),
    uuid=an_id(501),
    name="Second",
    current_leaf_message_uuid=an_id(12),
)

CHATGPT = {
    "conversations-000.json": json.dumps([TREE]).encode(),
    "conversations-001.json": json.dumps([_TOOLS], indent=1, ensure_ascii=False).encode(),
}
CLAUDE = {"conversations.json": json.dumps([TALK, _EDITED]).encode()}
