"""Messages as values."""

from __future__ import annotations

import pytest

import clew


def test_strings_become_text_blocks() -> None:
    """The short forms make blocks of strings and keep the blocks they are given."""
    call = clew.ToolCall(id="c", name="f")
    assert clew.assistant("a", call).blocks == (clew.Text(text="a"), call)
    assert [make("x").role for make in (clew.system, clew.user, clew.assistant)] == ["system", "user", "assistant"]


@pytest.mark.checklist("D5")
def test_a_tool_answers_a_call() -> None:
    """A tool's message carries the call's id and whether it failed."""
    (result,) = clew.tool("no such file", call_id="c", is_error=True).blocks
    assert result == clew.ToolResult(call_id="c", content=(clew.Text(text="no such file"),), is_error=True)


def test_text_is_what_is_said() -> None:
    """The text of a message is its words and its tools' answers, not its thinking."""
    message = clew.assistant(
        "a", clew.Thinking(text="hm"), clew.ToolResult(call_id="c", content=(clew.Text(text="b"),))
    )
    assert message.text == "a\nb"
    assert clew.user().text == ""


def test_messages_compare_by_content_and_never_change() -> None:
    """Equal content is equal, and a message cannot be altered."""
    message = clew.user("a", extra={"k": [1]})
    assert message == clew.user("a", extra={"k": [1]})
    assert message != clew.user("a")
    with pytest.raises(AttributeError):
        message.role = "assistant"  # type: ignore[misc]


def test_native_text_is_utf8() -> None:
    """A native message given as text is the same as its UTF-8 bytes; what is neither is Invalid."""
    assert clew.native("openai", '{"é":1}') == clew.native("openai", '{"é":1}'.encode())
    for bad in ('{"a":"\ud800"}', 5, None, ["{}"]):
        with pytest.raises(clew.Invalid):
            clew.native("openai", bad)  # type: ignore[arg-type]
