"""Conversations of LM Studio."""

from __future__ import annotations

from typing import Any

import pytest

from clew.base.messages import Opaque, Text, Thinking, ToolCall, ToolResult, Usage
from clew.sources.contract import Part
from clew.sources.lm_studio import LMStudio
from tests.sources.made import about, document_of, messages, path, read, view
from tests.sources.samples import lm_studio as sample

SOURCE = LMStudio()


def parts(chat: dict[str, Any] = sample.CHAT) -> list[Part]:
    return read(SOURCE, sample.document(chat), sample.PATH)


def texts(found: list[Part]) -> list[str]:
    told = messages(found)
    return [view(told[id]).text for id in path(told, about(found, "head")[0])]


def test_versions_are_siblings() -> None:
    """The path goes through the selected version; the other one is a branch."""
    found = parts()
    assert texts(found) == ["List it", "a.py\nIt is a.py.", "Thanks"]
    (other,) = [entry for entry in messages(found).values() if view(entry).text == "No."]
    assert other.parent == path(messages(found), about(found, "head")[0])[0]


def test_what_a_version_says() -> None:
    """Steps become thoughts, calls, results and text; model and tokens are counted once."""
    answer = next(view(entry) for entry in messages(parts()).values() if "a.py." in view(entry).text)
    assert answer.blocks == (
        Thinking(text="I look."),
        ToolCall(id="c1", name="ls", arguments={"path": "."}),
        ToolResult(call_id="c1", content=(Text(text="a.py"),)),
        Opaque(kind="madeUp", data={"type": "madeUp"}),
        Text(text="It is a.py."),
    )
    assert (answer.model, answer.usage) == ("qwen/qwen4-8b", Usage(input=30, output=8))


def test_facts() -> None:
    """Title, model and time are known."""
    found = parts()
    assert (about(found, "title"), about(found, "model")) == (["List it"], ["qwen/qwen4-8b"])
    assert {str(entry.created_at) for entry in messages(found).values()} == {"2026-10-26 07:33:20+00:00"}


def test_another_version_is_selected_later() -> None:
    """The same versions have the same ids, and the path follows the selection."""
    other = {**sample.CHAT["messages"][1], "currentlySelected": 0}  # type: ignore[index]
    changed = {**sample.CHAT, "messages": [sample.CHAT["messages"][0], other]}  # type: ignore[index]
    found = parts(changed)
    assert texts(found) == ["List it", "No."]
    assert set(messages(found)) < set(messages(parts()))


@pytest.mark.parametrize("form", [{"indent": 2}, {"separators": (",", ":")}], ids=repr)
def test_every_byte_is_kept(form: dict[str, Any]) -> None:
    """The frame and the versions give the document back."""
    data = sample.document(**form)
    assert document_of(read(SOURCE, data, sample.PATH)) == data


def test_the_same_words_again() -> None:
    """A prompt that is repeated is another message."""
    again = {**sample.CHAT, "messages": [{"versions": [sample.single("user", "On")], "currentlySelected": 0}] * 3}
    assert texts(parts(again)) == ["On", "On", "On"]
