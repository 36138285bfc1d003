"""Calls that come in pieces, as servers like OpenAI's send them: no two of them count alike."""

from __future__ import annotations

from typing import Any

import pytest

from clew.providers.openai.requests import CompletionsWire

A, B = {"x": 1}, {"y": 2}


def piece(arguments: str, name: str | None = None, id: str | None = None, **more: Any) -> dict[str, Any]:
    named = {} if name is None else {"name": name}
    known = {} if id is None else {"id": id, "type": "function"}
    return {**known, **more, "function": {**named, "arguments": arguments}}


@pytest.mark.parametrize(
    ("pieces", "calls"),
    [
        ([piece('{"x"', "f", "a", index=0), piece(":1}", index=0)], [("a", "f", A)]),
        ([piece('{"x":1}', "f", "a", index=0), piece('{"y":2}', "g", "b", index=1)], [("a", "f", A), ("b", "g", B)]),
        ([piece('{"x":1}', "f", "a", index=0), piece('{"y":2}', "g", "b", index=0)], [("a", "f", A), ("b", "g", B)]),
        (
            [piece('{"x"', "f", "a", index=0), piece('{"y"', "f", "b", index=0), piece(":2}", index=0)],
            [("a", "f", {"": '{"x"'}), ("b", "f", B)],
        ),
        ([piece('{"x":1}', "f", "a"), piece('{"y":2}', "g", "b")], [("a", "f", A), ("b", "g", B)]),
        ([piece('{"x"', "f", "a"), piece(":1}")], [("a", "f", A)]),
        ([piece('{"x":1}', "f", "a", index=None), piece('{"y":2}', "g", "b", index=0)], [("a", "f", A), ("b", "g", B)]),
        ([piece('{"x"', "f", "a", index=0), piece(":1}", "f", "a", index=0)], [("a", "f", A)]),
        ([piece('{"x"', "f", "a", index=0), piece(":1}", "", "", index=0)], [("a", "f", A)]),
        (
            [piece('{"x"', "f", "a", index=0), piece("{", "g", "b", index=1), piece(":1}", index=0),
             piece('"y":2}', index=1)],
            [("a", "f", A), ("b", "g", B)],
        ),
    ],
)  # fmt: skip
def test_pieces_find_their_call(pieces: list[dict[str, Any]], calls: list[tuple[str, str, dict[str, int]]]) -> None:
    """By number, by id, or by being the next: each call has its own name and arguments."""
    stream = CompletionsWire("openai-compatible").collect()
    for one in pieces:
        assert list(stream.feed({"choices": [{"index": 0, "delta": {"tool_calls": [one]}}]})) == []
    list(stream.feed({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}))
    answer = stream.answer()
    assert answer is not None
    assert [(call.id, call.name, call.arguments) for call in answer.calls] == calls
