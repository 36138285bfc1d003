"""Exports of LibreChat."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clew.base.messages import Opaque, Text, Thinking, ToolCall, ToolResult, Usage
from clew.sources.contract import derived_id
from clew.sources.librechat import NAME, LibreChat
from tests.sources.made import about, an_id, document_of, messages, path, read, skips, view
from tests.sources.samples import librechat as sample

SOURCE = LibreChat()
BOTH = pytest.mark.parametrize("chat", [sample.FLAT, sample.NESTED], ids=["flat", "nested"])


def id_of(number: int) -> str:
    return derived_id(NAME, sample.CONVERSATION, an_id(number))


@BOTH
def test_the_whole_tree(chat: dict[str, Any]) -> None:
    """Both forms give the same tree; the head is the message written last."""
    parts = read(SOURCE, sample.document(chat), "a/b.json")
    found = messages(parts)
    assert path(found, id_of(4)) == [id_of(1), id_of(2), id_of(4)]
    assert found[id_of(3)].parent == id_of(1)
    assert (about(parts, "head"), about(parts, "title")) == ([id_of(4)], ["Search"])
    assert about(parts, "model") == ["gpt-6-sol"]
    assert str(found[id_of(4)].created_at) == "2026-11-01 10:00:04+00:00"


@BOTH
def test_what_a_message_says(chat: dict[str, Any]) -> None:
    """Reasoning, calls with results, text, unknown parts, files, model and tokens."""
    found = messages(read(SOURCE, sample.document(chat), "a/b.json"))
    answer = view(found[id_of(2)])
    assert answer.blocks == (
        Thinking(text="I search."),
        ToolCall(id="c1", name="search", arguments={"q": "x"}),
        ToolResult(call_id="c1", content=(Text(text="found"),)),
        Text(text="I found it."),
        Opaque(kind="made_up", data={"type": "made_up"}),
    )
    assert (answer.role, answer.model, answer.usage) == ("assistant", "gpt-6-sol", Usage(output=11))
    assert view(found[id_of(4)]).blocks == (Text(text="Thanks"), Opaque(kind="file", data={"file_id": "f"}))


@BOTH
@pytest.mark.parametrize("form", [{}, {"indent": 2}], ids=repr)
def test_every_byte_is_kept(chat: dict[str, Any], form: dict[str, Any]) -> None:
    """The frame and the messages give the document back."""
    assert document_of(read(SOURCE, sample.document(chat, **form), "a/b.json")) == sample.document(chat, **form)


def test_odd_trees() -> None:
    """Repeated ids, cycles and missing parents lose no message."""
    odd = [
        sample.message(1, 2, True, "a"), sample.message(2, 1, False, "b"), sample.message(2, 9, False, "c"),
        sample.message(5, 5, True, "d"),
    ]  # fmt: skip
    found = messages(read(SOURCE, sample.document({**sample.FLAT, "messages": odd}), "a/b.json"))
    assert sorted(view(entry).text for entry in found.values()) == ["a", "b", "c", "d"]
    assert len([entry for entry in found.values() if entry.note]) >= 1


def test_very_deep_nesting() -> None:
    """A tree that is too deep to be JSON is named, and nothing is raised."""
    deep = "[]"
    for number in range(3000):
        deep = f'[{{"messageId":"{number}","children":{deep}}}]'
    data = json.dumps(sample.AROUND)[:-1] + f', "messages": {deep}}}'
    parts = read(SOURCE, data.encode(), "a/b.json")
    assert skips(parts) or messages(parts)
