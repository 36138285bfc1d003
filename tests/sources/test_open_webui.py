"""Chats of Open WebUI: exports and the database."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clew.base.messages import Media, Opaque, Text, Thinking, ToolCall, ToolResult, Usage
from clew.sources.contract import Part, derived_id
from clew.sources.documents import elements
from clew.sources.items import items
from clew.sources.open_webui import NAME, OpenWebUI
from clew.sources.sqlite import record_row
from tests.sources.made import about, document_of, messages, path, read, skips, view
from tests.sources.samples import open_webui as sample

SOURCE = OpenWebUI()


def id_of(key: str) -> str:
    return derived_id(NAME, sample.CHAT_ID, key)


def database(file: Path, chat: str | None = None) -> list[Part]:
    sample.database(file, chat)
    (item,) = items(str(file))
    return list(SOURCE.read(item))


@pytest.fixture(params=["export", "database"])
def found(request: pytest.FixtureRequest, tmp_path: Path) -> list[Part]:
    if request.param == "export":
        return read(SOURCE, sample.export(), "a/chats.json")
    return database(tmp_path / "webui.db")


def test_the_whole_tree(found: list[Part]) -> None:
    """Answers of two models are siblings; the head is the message that was open; an unknown parent is noted."""
    told = messages(found)
    assert path(told, id_of("u2")) == [id_of("u1"), id_of("a2"), id_of("u2")]
    assert told[id_of("a1")].parent == id_of("u1")
    assert about(found, "head") == [id_of("u2")]
    assert (told[id_of("odd")].parent, told[id_of("odd")].note) == (None, "its parent is missing")
    assert len(told) == len(sample.MESSAGES)
    (unfinished,) = [entry for entry in told.values() if view(entry).text == "Col"]
    assert unfinished.id != id_of("a3"), "an answer that is still written has an id of its own"


def test_what_a_message_says(found: list[Part]) -> None:
    """Reasoning and calls in the text, files, failures, models and tokens."""
    told = messages(found)
    prompt = view(told[id_of("u1")])
    assert prompt.blocks[1:] == (
        Media(mime_type="image/png", modality="image", url="data:image/png;base64,AAAA"),
        Opaque(kind="file", data={"type": "file", "id": "f"}),
    )
    answer = view(told[id_of("a2")])
    assert answer.blocks == (
        Thinking(text="> I look.\nThen I tell."),
        ToolCall(id="c1", name="weather", arguments={"city": "Rome"}),
        ToolResult(call_id="c1", content=(Text(text="sunny"),)),
        Text(text="It is sunny."),
    )
    assert (answer.model, answer.usage) == ("m2", Usage(input=20, output=9))
    assert view(told[id_of("a1")]).usage == Usage(input=12, output=4)
    assert view(told[id_of("odd")]).blocks == (Text(text="no connection", extra={"error": True}),)


def test_facts(found: list[Part]) -> None:
    """Title, model and times are known; a missing time is its neighbour's."""
    assert (about(found, "title"), about(found, "model")) == (["Weather in Rome"], ["m2"])
    told = messages(found)
    assert str(told[id_of("a1")].created_at) == "2026-10-26 07:33:22+00:00"
    assert all(entry.created_at is not None for entry in told.values())


@pytest.mark.parametrize("form", [{}, {"indent": 1}, {"separators": (",", ":"), "ensure_ascii": False}], ids=repr)
def test_every_byte_of_an_export(form: dict[str, Any]) -> None:
    """The frame and the messages give the chat back."""
    whole = sample.export(**form)
    ((start, end),) = elements(whole)
    assert document_of(read(SOURCE, whole, "a/chats.json")) == whole[start:end]


def test_a_row_can_be_written_back(tmp_path: Path) -> None:
    """The row of a chat has all its columns, and its chat again."""
    table, row = record_row(document_of(database(tmp_path / "webui.db")))
    assert (table, row["title"], json.loads(row["meta"])) == ("chat", "Weather in Rome", {"tags": ["x"]})
    assert row["chat"] == json.dumps(sample.CHAT)


def test_one_chat_and_chats_without_an_envelope() -> None:
    """A file with one chat is read, and the form of older exports; one without an id is named."""
    assert len(messages(read(SOURCE, json.dumps(sample.ENTRY).encode(), "a/chat.json"))) == 6
    assert len(messages(read(SOURCE, json.dumps([{**sample.CHAT, "id": "x"}]).encode(), "a/chat.json"))) == 6
    assert skips(read(SOURCE, json.dumps([sample.CHAT]).encode(), "a/chat.json"))


def test_a_row_that_is_not_json(tmp_path: Path) -> None:
    """It is named, and nothing is raised."""
    assert skips(database(tmp_path / "webui.db", "{"))


def test_cycles() -> None:
    """Messages that name each other as parents are all kept."""
    pair = [sample.message("a", "b", "user", "1"), sample.message("b", "a", "user", "2")]
    chat = {"history": {"messages": {one["id"]: one for one in pair}, "currentId": "a"}}
    found = messages(read(SOURCE, sample.export({"id": "x", "chat": chat}), "a/chats.json"))
    assert len(found) == 2
    assert [entry.parent for entry in found.values()].count(None) == 1
