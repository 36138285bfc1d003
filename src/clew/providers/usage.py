"""The tokens of an answer, in the same lanes for every provider, read from the raw answer.

Providers count differently: Claude's input leaves out what a cache took part in, that of OpenAI and Gemini includes it;
Gemini's output leaves out the reasoning. `usage_of` returns lanes that do not overlap, and the id by which the lines
and copies of one answer are counted once. The counts that a message is stored with (`Message.usage`) stay those of its
provider.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import reduce
from typing import Any, NamedTuple

import msgspec

from clew.base.messages import AnyMessage, Message
from clew.errors import Invalid
from clew.providers.json_values import Json, as_dict, as_word
from clew.providers.view import parse

SYNTHETIC = "<synthetic>"
"""The model of lines that Claude Code writes without asking a model."""
_BESIDE_CACHE = frozenset({"anthropic", "claude", "opencode", "pi", "cline"})
"""Formats whose own count of the input leaves out cached tokens."""
_BESIDE_REASONING = frozenset({"gemini-cli", "opencode"})
"""Formats whose own count of the output leaves out the reasoning; so do Gemini's models, and not others in its form."""
_LOCAL = frozenset({"lm-studio", "offline"})
"""Formats of programs that run the model on the user's own machine."""
_MOST = 1 << 50


class Lanes(NamedTuple):
    """Tokens by how they are billed."""

    input: int = 0
    """Sent to the model; neither read from a cache nor written to one."""
    cached: int = 0
    """Read from a cache."""
    cache_write: int = 0
    """Written to a cache."""
    cache_write_1h: int = 0
    """The part of `cache_write` that is kept for an hour, which costs more."""
    output: int = 0
    """Written by the model, including its reasoning."""
    reasoning: int = 0
    """The part of `output` that is reasoning."""

    @property
    def all_input(self) -> int:
        """All tokens that the model read: fresh, from a cache, and written to a cache."""
        return self.input + self.cached + self.cache_write

    @property
    def total(self) -> int:
        """All tokens."""
        return self.input + self.cached + self.cache_write + self.output

    def plus(self, other: Lanes) -> Lanes:
        """The sums of both."""
        return Lanes(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def most(self, other: Lanes) -> Lanes:
        """The larger count of each lane: a line of an answer repeats what earlier lines counted."""
        return Lanes(*map(max, self, other))


class AnswerUsage(NamedTuple):
    """What an answer took."""

    id: str | None
    """The provider's id of the answer, the same in all its lines and copies; None if it has none."""
    model: str
    """The model as the provider names it; empty if unknown."""
    lanes: Lanes | None
    """None if its tokens are unknown."""
    cost: int | None
    """The cost that the program noted which asked, in millionths of a dollar; None if it noted none."""

    def joined(self, line: AnswerUsage) -> AnswerUsage:
        """With another line or copy of the same answer, which repeats what earlier ones counted."""
        lanes = line.lanes if self.lanes is None else self.lanes if line.lanes is None else self.lanes.most(line.lanes)
        cost = line.cost if self.cost is None else self.cost if line.cost is None else max(self.cost, line.cost)
        return self._replace(lanes=lanes, cost=cost)


class _Fields(msgspec.Struct):
    """The fields of a raw answer that say something of its tokens."""

    id: Any = None
    model: Any = None
    usage: Any = None
    usage_metadata: Any = msgspec.field(default=None, name="usageMetadata")
    tokens: Any = None
    metrics: Any = None
    info: Any = None


_COST = re.compile(r'"costUSD":\s*(\d{1,9}(?:\.\d{1,18})?(?:[eE]-?\d{1,2})?)')
_decode = msgspec.json.Decoder(_Fields).decode


def usage_of(said: AnyMessage) -> AnswerUsage | None:
    """The usage of an answer; None if no model wrote it. Only for messages with the role of an assistant."""
    if isinstance(said, Message):
        counts = {} if said.usage is None else msgspec.structs.asdict(said.usage)
        beside_cache = "claude" in (said.model or "")  # made from a message of Claude, or by its rules
        return AnswerUsage(None, said.model or "", _named(counts, beside_cache=beside_cache), _count(counts, "cost"))
    try:
        found = _decode(said.raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        try:
            found = msgspec.convert(parse(said.raw), _Fields)
        except (msgspec.MsgspecError, Invalid, UnicodeDecodeError, RecursionError):
            found = _Fields()
    extra = said.extra or {}
    info = as_dict(found.info) if said.provider == "opencode" else {}
    info = as_dict(info.get("data")) or info  # a row of its database, or a file
    model = found.model or info.get("modelID") or extra.get("model")
    if model == SYNTHETIC:
        return None
    noted = as_dict(extra.get("counted")) if found.usage is None else {}
    noted = noted or as_dict(extra.get("usage"))
    used = as_dict(found.usage or found.usage_metadata or found.tokens or info.get("tokens") or found.metrics)
    lanes = _of_shape(used) if used else None
    if lanes is None and noted:
        thoughts_beside = said.provider in _BESIDE_REASONING or (
            said.provider == "gemini" and "gemini" in as_word(model)
        )
        lanes = _named(noted, beside_cache=said.provider in _BESIDE_CACHE, beside_reasoning=thoughts_beside)
    cost = 0 if said.provider in _LOCAL else _count(noted, "cost")
    if cost is None:
        cost = _money(as_dict(used.get("cost")).get("total") if said.provider == "pi" else info.get("cost"))
    if cost is None and isinstance(line := extra.get("line"), list):
        cost = _noted_beside(line)
    id = found.id if said.provider in ("anthropic", "claude") and isinstance(found.id, str) else None
    return AnswerUsage(id or None, as_word(model), lanes, cost)


def usage_of_all(messages: Iterable[AnyMessage]) -> AnswerUsage | None:
    """The sums of messages with the role of an assistant, each answer once; None if nothing is known."""
    answers: dict[object, AnswerUsage] = {}
    for number, said in enumerate(messages):
        used = usage_of(said)
        if used is not None:
            key = number if used.id is None else (used.id, used.model)
            answers[key] = answers[key].joined(used) if key in answers else used
    lanes = [one.lanes for one in answers.values() if one.lanes is not None]
    costs = [one.cost for one in answers.values() if one.cost is not None]
    if not lanes and not costs:
        return None
    first = next(iter(answers.values()))
    total = reduce(Lanes.plus, lanes) if lanes else None
    return AnswerUsage(first.id, first.model, total, sum(costs) if costs else None)


def _noted_beside(line: list[Any]) -> int | None:
    """The cost that early versions of Claude Code noted in the line of an answer, beside the message."""
    for text in line:
        if isinstance(text, str) and '"costUSD":' in text:
            found = _COST.search(text)
            return _money(float(found[1])) if found is not None else None
    return None


def _of_shape(used: Json) -> Lanes | None:
    """The lanes in a provider's own usage data, told by its names; None if it has no count that is known."""
    if "promptTokenCount" in used:
        return _gemini(used)
    if "cacheRead" in used or isinstance(used.get("cache"), dict) or "cacheReadTokens" in used:
        return _agent(used)
    if "thoughts" in used:  # Gemini CLI
        thoughts, prompt = _number(used, "thoughts"), _number(used, "input")
        cached = min(_number(used, "cached"), prompt)
        written = _number(used, "output") + thoughts
        return Lanes(prompt - cached + _number(used, "tool"), cached, output=written, reasoning=thoughts)
    output = _count(used, "output_tokens", "completion_tokens", "outputTokens")
    if "prompt_tokens" in used or "input_tokens_details" in used or "input_token_details" in used:
        return _openai(used)
    fresh = _count(used, "input_tokens", "inputTokens")
    if fresh is None and output is None:
        return None
    read = _number(used, "cache_read_input_tokens", "cacheReadInputTokens")
    written = _number(used, "cache_creation_input_tokens", "cacheWriteInputTokens")
    hour = _number(as_dict(used.get("cache_creation")), "ephemeral_1h_input_tokens")
    thinking = _number(as_dict(used.get("output_tokens_details")), "thinking_tokens", "reasoning_tokens")
    return Lanes(fresh or 0, read, written, min(hour, written), output or 0, min(thinking, output or 0))


def _openai(used: Json) -> Lanes:
    """Counts in which the input includes cached tokens, and the output the reasoning."""
    inputs = used.get("prompt_tokens_details") or used.get("input_tokens_details") or used.get("input_token_details")
    outputs = (
        used.get("completion_tokens_details") or used.get("output_tokens_details") or used.get("output_token_details")
    )
    return _inside(
        _number(used, "prompt_tokens", "input_tokens"),
        _number(as_dict(inputs), "cached_tokens", "cache_read") or _number(used, "prompt_cache_hit_tokens"),
        _number(as_dict(inputs), "cache_write_tokens", "cache_creation"),
        _number(used, "completion_tokens", "output_tokens"),
        _number(as_dict(outputs), "reasoning_tokens", "reasoning"),
    )


def _gemini(used: Json) -> Lanes:
    """Gemini's counts: cached tokens are a part of the prompt, thoughts come beside the output."""
    prompt, tools = _number(used, "promptTokenCount"), _number(used, "toolUsePromptTokenCount")
    output, thoughts = _number(used, "candidatesTokenCount"), _number(used, "thoughtsTokenCount")
    if thoughts and prompt + tools + output == _number(used, "totalTokenCount"):
        thoughts_beside = 0  # servers that only look like Gemini count them in the output
    else:
        thoughts_beside = thoughts
    cached = min(_number(used, "cachedContentTokenCount"), prompt)
    return Lanes(prompt - cached + tools, cached, output=output + thoughts_beside, reasoning=thoughts)


def _agent(used: Json) -> Lanes:
    """Counts of opencode, pi and Cline: cached tokens come beside the input, with opencode also the reasoning."""
    cache = as_dict(used.get("cache"))
    read = _number(used, "cacheRead", "cacheReadTokens") or _number(cache, "read")
    written = _number(used, "cacheWrite", "cacheWriteTokens") or _number(cache, "write")
    fresh, output = _number(used, "input", "inputTokens"), _number(used, "output", "outputTokens")
    reasoning = _number(used, "reasoning")
    if reasoning and fresh + read + written + output != _number(used, "total"):
        output += reasoning
    hour = min(_number(used, "cacheWrite1h"), written)
    return Lanes(fresh, read, written, hour, output, min(reasoning, output))


def _named(used: Json, *, beside_cache: bool, beside_reasoning: bool = False) -> Lanes | None:
    """The lanes of counts by the names of `Usage`."""
    if _count(used, "input") is None and _count(used, "output") is None:
        return None
    fresh, cached, written = (_number(used, name) for name in ("input", "cached", "cache_write"))
    output, reasoning = _number(used, "output"), _number(used, "reasoning")
    if beside_reasoning:
        output += reasoning
    if beside_cache or cached + written > fresh:
        return Lanes(fresh, cached, written, 0, output, min(reasoning, output))
    return _inside(fresh, cached, written, output, reasoning)


def _inside(read: int, cached: int, written: int, output: int, reasoning: int) -> Lanes:
    cached = min(cached, read)
    written = min(written, read - cached)
    return Lanes(read - cached - written, cached, written, 0, output, min(reasoning, output))


def _count(used: Json, *names: str) -> int | None:
    for name in names:
        value = used.get(name)
        if type(value) is int and 0 <= value < _MOST:
            return value
    return None


def _number(used: Json, *names: str) -> int:
    return _count(used, *names) or 0


def _money(dollars: object) -> int | None:
    """Millionths of a dollar; None for no cost, which programs write where they know no price."""
    return round(dollars * 1_000_000) if isinstance(dollars, int | float) and 0 < dollars < 1 << 30 else None
