"""The archives that ChatGPT and Claude.ai give their users."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.sources.chatgpt import ChatGPT
from clew.sources.claude_ai import ROOT, ClaudeAI
from clew.sources.contract import Source
from clew.sources.documents import elements
from clew.sources.items import Item
from tests.sources.made import about, an_id, document_of, messages, path, read, skips, titles, view

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


@pytest.mark.parametrize(("source", "conversation"), [(OPENAI, TREE), (CLAUDE, TALK)], ids=["chatgpt", "claude-ai"])
@pytest.mark.parametrize("form", [{}, {"separators": (",", ":")}, {"indent": 2}, {"ensure_ascii": False}], ids=repr)
def test_every_byte_of_a_conversation_is_kept(
    source: Source, conversation: dict[str, Any], form: dict[str, Any]
) -> None:
    """Its frame and its messages give back the bytes, however the JSON was written."""
    whole = json.dumps([conversation], **form).encode()
    ((start, end),) = elements(whole)
    assert document_of(read(source, whole)) == whole[start:end]


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


PICTURE = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://file-AbCdEf123", "width": 1}
SOUND = {
    "content_type": "real_time_user_audio_video_asset_pointer",
    "audio_asset_pointer": {"content_type": "audio_asset_pointer", "asset_pointer": "sediment://file_00aa11bb22"},
}
HEARD = {"content_type": "audio_transcription", "text": "What do you hear?", "direction": "in"}


def with_files() -> dict[str, Any]:
    content = {"content_type": "multimodal_text", "parts": [PICTURE, SOUND, HEARD]}
    attached = [
        {"id": "file-AbCdEf123", "name": "cat.png", "mime_type": "image/png"},
        {"id": "file-Notes999", "name": "notes.pdf", "mime_type": "application/pdf"},
    ]
    return chatgpt(node("m", None, "user", content=content, metadata={"attachments": attached}), current_node="m")


@pytest.mark.parametrize("form", ["zip", "folder"])
def test_the_files_of_an_export(tmp_path: Path, form: str) -> None:
    """Pictures, recordings and documents are attachments of the messages that name them, as far as they are there."""
    files = {
        "conversations-000.json": json.dumps([with_files()]).encode(),
        "file-AbCdEf123-cat.png": b"a picture",
        "6f8a4c1e-93b7-4d2a-8e10-c1e30f4b7a65/audio/file_00aa11bb22.wav": b"a sound",
    }
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    item = Item(str(tmp_path / "conversations-000.json"), 0, 0)
    if form == "zip":
        with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
            for name, data in files.items():
                archive.writestr(name, data)
        item = Item(str(tmp_path / "export.zip"), 0, 0, "conversations-000.json")
    (entry,) = messages(OPENAI.read(item)).values()
    found = {}
    for one in entry.attachments:
        with one.open() as file:
            found[one.reference] = (one.name, one.mime_type, file.read())
    assert found == {
        "file-service://file-AbCdEf123": ("cat.png", "image/png", b"a picture"),
        "sediment://file_00aa11bb22": (None, None, b"a sound"),
    }
    said = view(entry)
    assert said.text == "What do you hear?"
    assert [block.url for block in said.blocks if isinstance(block, clew.Media)] == list(found)


def test_hidden_messages_are_no_prompts() -> None:
    """Custom instructions in the user's name are the system's, and the title is the first thing that was typed."""
    profile = {"content_type": "user_editable_context", "user_profile": "I like tea", "user_instructions": "Be brief"}
    talk = chatgpt(
        node("h", None, "user", content=profile, weight=0.0),
        node("u", "h", "user", "Why is the\nsky blue?"),
        title=None,
    )
    data = json.dumps([talk]).encode()
    hidden, typed = (view(entry) for entry in messages(read(OPENAI, data)).values())
    assert (hidden.role, hidden.text, typed.role) == ("system", "I like tea\n\nBe brief", "user")
    assert titles(OPENAI, data) == ["Why is the sky blue?"]


def test_a_tree_without_parents_or_without_children() -> None:
    """Either is enough to know what follows what."""
    for missing in ("parent", "children"):
        nodes = [node("a", None, "user", "1"), node("b", "a", "assistant", "2"), node("c", "b", "user", "3")]
        nodes[0]["children"], nodes[1]["children"] = ["b"], ["c"]
        for one in nodes:
            del one[missing]
        found = {entry.key: entry for entry in messages(read(OPENAI, json.dumps([chatgpt(*nodes)]).encode())).values()}
        assert [found[key].parent for key in "abc"] == [None, found["a"].id, found["b"].id]


def test_a_single_conversation_without_an_array() -> None:
    """The form that other exporters write: one object."""
    assert len(messages(read(OPENAI, json.dumps(TREE, indent=1).encode()))) == 4
    assert len(messages(read(CLAUDE, b" " + json.dumps(TALK).encode()))) == 2


def test_a_project_of_claude() -> None:
    """Instructions and documents of a project can be found; it has its own name."""
    project = {
        "uuid": an_id(600), "name": "Garden", "description": "", "prompt_template": "Speak of plants.",
        "created_at": "2026-01-01T00:00:00Z", "docs": [{"uuid": an_id(601), "filename": "a.md", "content": "Roses"}],
    }  # fmt: skip
    data = json.dumps([project]).encode()
    assert CLAUDE.recognise("projects.json", data)
    parts = read(CLAUDE, data)
    (entry,) = messages(parts).values()
    assert (view(entry).role, view(entry).text) == ("system", "Speak of plants.\na.md\n\nRoses")
    assert about(parts, "title") == ["Garden"]


def test_a_voice_note_and_a_conversation_without_a_name() -> None:
    """What was said aloud is text, and the title is the first prompt."""
    note = {"type": "voice_note", "title": "Note", "text": "Water them"}
    data = json.dumps([claude(say(1, "human", "", content=[note]), name="")]).encode()
    (entry,) = messages(read(CLAUDE, data)).values()
    assert view(entry).text == "Note\n\nWater them"
    assert titles(CLAUDE, data) == ["Note Water them"]


def test_parents_that_come_after_their_children() -> None:
    """Each message of Claude.ai is given after the one it follows, whatever their order."""
    talk = claude(
        say(2, "assistant", "A", parent_message_uuid=an_id(1)), say(1, "human", "One", parent_message_uuid=ROOT)
    )
    assert list(messages(read(CLAUDE, json.dumps([talk]).encode()))) == [an_id(1), an_id(2)]


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
