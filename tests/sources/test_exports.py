"""The archives that ChatGPT and Claude.ai give their users."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clew.sources.chatgpt import ChatGPT
from clew.sources.claude_ai import ROOT, ClaudeAI
from clew.sources.contract import Entry, Part, Source, unframe
from clew.sources.json_array import elements
from tests.sources.made import about, an_id, messages, path, read, skips

OPENAI, CLAUDE = ChatGPT(), ClaudeAI()


def node(key: str, parent: str | None, role: str | None, text: str = "", **more: Any) -> dict[str, Any]:
    message = None
    if role is not None:
        content = {"content_type": "text", "parts": [text]}
        message = {"id": key, "author": {"role": role}, "create_time": None, "content": content, "weight": 1.0, **more}
    return {"id": key, "message": message, "parent": parent, "children": []}


def chatgpt(*nodes: dict[str, Any], **more: Any) -> dict[str, Any]:
    mapping = {one["id"]: one for one in nodes}
    return {"title": "A title", "create_time": 1.7e9, "mapping": mapping, "conversation_id": "c1", **more}


TREE = chatgpt(
    node("root", None, None),
    node("s", "root", "system", weight=0.0),
    node("u", "s", "user", "Hello"),
    node("a1", "u", "assistant", "Hi", create_time=1.7e9 + 5),
    node("a2", "u", "assistant", "Höhe \u2028"),
    current_node="a2",
)


def claude(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "uuid": an_id(500),
        "name": "A title",
        "created_at": "2026-01-01T00:00:00Z",
        "chat_messages": list(messages),
        **more,
    }


def say(number: int, sender: str, text: str, **more: Any) -> dict[str, Any]:
    return {"uuid": an_id(number), "sender": sender, "text": text, "content": [{"type": "text", "text": text}], **more}


TALK = claude(say(1, "human", "Hello", created_at="2026-01-02T03:04:05.000000Z"), say(2, "assistant", "Hi"))


def rebuilt(parts: list[Part]) -> bytes:
    found = [part for part in parts if isinstance(part, Entry)]
    bodies = {entry.key: entry.raw for entry in found if entry.message is not None}
    return unframe(next(entry.raw for entry in found if entry.message is None), bodies)


@pytest.mark.parametrize(("source", "conversation"), [(OPENAI, TREE), (CLAUDE, TALK)], ids=["chatgpt", "claude-ai"])
@pytest.mark.parametrize("form", [{}, {"separators": (",", ":")}, {"indent": 2}, {"ensure_ascii": False}], ids=repr)
def test_every_byte_of_a_conversation_is_kept(
    source: Source, conversation: dict[str, Any], form: dict[str, Any]
) -> None:
    """Its frame and its messages give back the bytes, however the JSON was written."""
    whole = json.dumps([conversation], **form).encode()
    ((start, end),) = elements(whole)
    assert rebuilt(read(source, whole)) == whole[start:end]


def test_the_whole_tree_of_chatgpt() -> None:
    """Both answers are there; the head is the one that was shown last; a node without a message is passed over."""
    parts = read(OPENAI, json.dumps([TREE]).encode())
    found = {entry.key: entry for entry in messages(parts).values()}
    assert set(found) == {"s", "u", "a1", "a2"}
    assert found["s"].parent is None
    assert found["a1"].parent == found["a2"].parent == found["u"].id
    assert about(parts, "head") == [found["a2"].id]
    assert about(parts, "title") == ["A title"]
    assert str(found["a1"].created_at) == "2023-11-14 22:13:25+00:00"
    assert found["u"].created_at is not None, "a missing time is its neighbour's"


def test_a_tree_whose_nodes_come_in_any_order() -> None:
    """Each message is given after the one it follows."""
    turned = {**TREE, "mapping": dict(reversed(TREE["mapping"].items()))}
    found = messages(read(OPENAI, json.dumps([turned]).encode()))
    seen: set[str | None] = {None}
    for entry in found.values():
        assert entry.parent in seen
        seen.add(entry.id)


def test_a_cycle_and_a_missing_parent() -> None:
    """Neither ends the import: the messages are kept, and a missing parent is noted."""
    odd = chatgpt(node("a", "b", "user", "1"), node("b", "a", "user", "2"), node("c", "gone", "user", "3"))
    found = {entry.key: entry for entry in messages(read(OPENAI, json.dumps([odd]).encode())).values()}
    assert set(found) == {"a", "b", "c"}
    assert found["c"].note == "its parent is missing"


def test_entries_that_are_no_conversations() -> None:
    """Folders, projects and things without an id are named, and the rest is read."""
    whole = json.dumps([{"id": "f", "title": "A folder"}, {"mapping": {}}, TREE]).encode()
    parts = read(OPENAI, whole)
    assert [skip.line for skip in skips(parts)] == [1, 2]
    assert len(messages(parts)) == 4


def test_claude_without_parents_is_one_path() -> None:
    """In an export that names no parents, the messages follow each other."""
    found = messages(read(CLAUDE, json.dumps([TALK]).encode()))
    assert path(found, an_id(2)) == [an_id(1), an_id(2)]
    assert str(found[an_id(2)].created_at) == "2026-01-02 03:04:05+00:00"


def test_claude_with_parents_is_a_tree() -> None:
    """Parents are followed where they are named, and the head is the leaf that was open."""
    talk = claude(
        say(1, "human", "One", parent_message_uuid=ROOT),
        say(2, "assistant", "A", parent_message_uuid=an_id(1)),
        say(3, "assistant", "B", parent_message_uuid=an_id(1)),
        current_leaf_message_uuid=an_id(2),
    )
    parts = read(CLAUDE, json.dumps([talk]).encode())
    found = messages(parts)
    assert [found[an_id(n)].parent for n in (1, 2, 3)] == [None, an_id(1), an_id(1)]
    assert about(parts, "head") == [an_id(2)]


def test_elements_of_an_array() -> None:
    """Brackets and quotes in texts are no structure."""
    items: list[Any] = [{"a": ']}\\"['}, [1, [2]], 7, "x", {}]
    whole = json.dumps(items).encode()
    assert [json.loads(whole[a:b]) for a, b in elements(whole)] == [items[0], items[1], items[4]]


@pytest.mark.parametrize("source", [OPENAI, CLAUDE], ids=["chatgpt", "claude-ai"])
@pytest.mark.parametrize("data", [b"", b"[", b"[]", b"[{", b'[{"a":1}', b"null", b"[[[]]]", b"\xff\xfe"])
def test_what_is_not_an_export(source: Source, data: bytes) -> None:
    """It gives no message, and raises nothing."""
    parts = read(source, data)
    assert not messages(parts)


def test_which_is_which() -> None:
    """Each export is recognised, and not taken for the other."""
    one, other = json.dumps([TREE]).encode(), json.dumps([TALK]).encode()
    assert (OPENAI.recognise("x", one), OPENAI.recognise("x", other)) == (True, False)
    assert (CLAUDE.recognise("x", one), CLAUDE.recognise("x", other)) == (False, True)
