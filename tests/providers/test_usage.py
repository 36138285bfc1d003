"""The lanes of an answer are the same for every provider."""

from __future__ import annotations

import json
from typing import Any

import pytest

import clew
from clew.providers.usage import AnswerUsage, Lanes, usage_of

OPENAI = {"cached_tokens": 40}
EVERY: list[tuple[str, dict[str, Any], dict[str, Any], Lanes]] = [
    # Anthropic: the cache is beside the input
    ("anthropic", {"usage": {"input_tokens": 3, "cache_read_input_tokens": 50, "cache_creation_input_tokens": 20,
                             "cache_creation": {"ephemeral_1h_input_tokens": 15}, "output_tokens": 7,
                             "output_tokens_details": {"thinking_tokens": 2}}}, {}, Lanes(3, 50, 20, 15, 7, 2)),
    # OpenAI: the cache is a part of the input, reasoning one of the output
    ("openai", {"usage": {"prompt_tokens": 100, "completion_tokens": 30, "prompt_tokens_details": OPENAI,
                          "completion_tokens_details": {"reasoning_tokens": 10}}}, {}, Lanes(60, 40, 0, 0, 30, 10)),
    ("openai", {"usage": {"input_tokens": 100, "output_tokens": 30, "input_tokens_details": OPENAI,
                          "output_tokens_details": {"reasoning_tokens": 10}}}, {}, Lanes(60, 40, 0, 0, 30, 10)),
    ("openai", {"usage": {"prompt_tokens": 100, "completion_tokens": 1, "prompt_cache_hit_tokens": 64}}, {},
     Lanes(36, 64, 0, 0, 1)),
    # Gemini: thoughts are beside the output, unless the total says otherwise
    ("gemini", {"usageMetadata": {"promptTokenCount": 100, "cachedContentTokenCount": 40, "candidatesTokenCount": 5,
                                  "thoughtsTokenCount": 8, "totalTokenCount": 113}}, {}, Lanes(60, 40, 0, 0, 13, 8)),
    ("gemini", {"usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "thoughtsTokenCount": 3,
                                  "totalTokenCount": 15}}, {}, Lanes(10, 0, 0, 0, 5, 3)),
    ("gemini-cli", {"tokens": {"input": 100, "output": 5, "cached": 40, "thoughts": 8, "tool": 2, "total": 115}}, {},
     Lanes(62, 40, 0, 0, 13, 8)),
    # agents
    ("opencode", {"info": {"role": "assistant", "tokens": {"input": 10, "output": 5, "reasoning": 3,
                                                           "cache": {"read": 40, "write": 20}}}}, {},
     Lanes(10, 40, 20, 0, 8, 3)),
    ("opencode", {"info": {"data": {"tokens": {"total": 15, "input": 10, "output": 5, "reasoning": 3,
                                               "cache": {"read": 0, "write": 0}}}}}, {}, Lanes(10, 0, 0, 0, 5, 3)),
    ("pi", {"usage": {"input": 10, "output": 5, "cacheRead": 40, "cacheWrite": 20, "cacheWrite1h": 4}}, {},
     Lanes(10, 40, 20, 4, 5)),
    ("cline", {"metrics": {"inputTokens": 10, "outputTokens": 5, "cacheReadTokens": 40, "cacheWriteTokens": 20}}, {},
     Lanes(10, 40, 20, 0, 5)),
    # counts beside the message
    ("codex", {}, {"usage": {"input": 100, "cached": 40, "output": 30, "reasoning": 10}}, Lanes(60, 40, 0, 0, 30, 10)),
    ("claude", {}, {"usage": {"input": 3, "cached": 50, "cache_write": 20, "output": 7}}, Lanes(3, 50, 20, 0, 7)),
    ("gemini", {"model": "gemini-3-pro"}, {"usage": {"input": 10, "output": 5, "reasoning": 3}},
     Lanes(10, 0, 0, 0, 8, 3)),
    ("strands", {}, {"usage": {"input": 3, "cached": 50, "output": 7}}, Lanes(3, 50, 0, 0, 7)),
]  # fmt: skip


@pytest.mark.parametrize(("provider", "raw", "extra", "lanes"), EVERY)
def test_every_form(provider: str, raw: dict[str, Any], extra: dict[str, Any], lanes: Lanes) -> None:
    """Input, cached tokens, cache writes, output and reasoning never overlap; the total is the provider's."""
    found = usage_of(clew.native(provider, {"role": "assistant", **raw}, extra=extra))
    assert found is not None
    assert found.lanes == lanes
    assert lanes.total == lanes.all_input + lanes.output


def test_the_identity_of_an_answer() -> None:
    """Lines of Claude have the id of their answer, and a line that no model wrote is no answer."""
    raw = {"role": "assistant", "id": "msg_1", "model": "claude-x", "usage": {"input_tokens": 1, "output_tokens": 2}}
    found = usage_of(clew.native("anthropic", raw, extra={"counted": {"input": 0, "output": 0}}))
    assert found == AnswerUsage("msg_1", "claude-x", Lanes(1, 0, 0, 0, 2), None)
    assert usage_of(clew.native("anthropic", {**raw, "model": "<synthetic>"})) is None
    assert usage_of(clew.native("anthropic", {**raw, "id": ""})).id is None  # type: ignore[union-attr]


def test_what_is_unknown_stays_unknown() -> None:
    """An answer without counts has no lanes, whatever is in the place of the counts."""
    assert usage_of(clew.assistant("a")) == AnswerUsage(None, "", None, None)
    for odd in ({}, "many", 5, [1], {"input_tokens": "3"}, {"input_tokens": -1}, {"input_tokens": True}):
        found = usage_of(clew.native("openai", {"role": "assistant", "usage": odd}))
        assert found == AnswerUsage(None, "", None, None)
    strict = b'{"role":"assistant","usage":{"input_tokens":3,"output_tokens":4},"x":"\\ud800"}'
    assert usage_of(clew.native("anthropic", strict)) == AnswerUsage(None, "", Lanes(3, 0, 0, 0, 4), None)


def test_the_cost_that_a_program_noted() -> None:
    """Its own figure is read, but not a zero, which programs write for models without a price."""
    for cost, known in ((0.25, 250_000), (0, None)):
        info = {"role": "assistant", "cost": cost, "tokens": {"input": 1, "output": 1, "cache": {}}}
        assert usage_of(clew.native("opencode", json.dumps({"info": info, "parts": []}))).cost == known  # type: ignore[union-attr]
        used = {"input": 1, "output": 1, "cacheRead": 0, "cost": {"total": cost}}
        assert usage_of(clew.native("pi", {"role": "assistant", "usage": used})).cost == known  # type: ignore[union-attr]
    line = ['{"type":"assistant","message":', ',"costUSD":0.0123,"durationMs":5}']
    beside = clew.native("anthropic", {"role": "assistant", "id": "msg_1"}, extra={"line": line})
    assert usage_of(beside) == AnswerUsage("msg_1", "", None, 12_300)
    neutral = clew.assistant("a", model="claude-x", usage=clew.Usage(input=3, output=4, cached=50, cost=9))
    assert usage_of(neutral) == AnswerUsage(None, "claude-x", Lanes(3, 50, 0, 0, 4), 9)
    assert usage_of(clew.native("lm-studio", {}, extra={"usage": {"input": 1, "output": 1}})).cost == 0  # type: ignore[union-attr]
