"""The wire format of a provider: its messages, requests and answers as JSON, without its SDK.

A whole answer keeps the bytes of the response. A streamed answer is assembled from its pieces with every field.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from clew.base.messages import Native, Text, Thinking, ToolCall, ToolResult, Usage
from clew.errors import Invalid
from clew.providers.errors import ProviderError
from clew.providers.json_values import Json
from clew.providers.tools import Schema, Tool
from clew.providers.view import integer, view


class ChatRequest(NamedTuple):
    """The content of a request."""

    model: str
    system: str
    messages: Sequence[bytes]
    tools: Sequence[Tool]
    max_tokens: int | None
    schema: Schema | None
    """The JSON Schema of the answer; None for any text."""


class Answer(NamedTuple):
    """A model's answer to one request."""

    messages: list[bytes]
    """In the provider's own JSON, as sent back with the next request; empty if the answer is empty."""
    text: str
    calls: list[ToolCall]
    usage: Usage | None
    stop: str | None
    model: str | None
    again: bool = False
    """True if the provider paused and expects the same request with the answer so far."""


class Collector(Protocol):
    """Assembles an answer from the events of a stream."""

    def feed(self, event: Json) -> Iterator[Text | Thinking]:
        """Takes one event; returns what it adds to the answer, for display."""

    def answer(self) -> Answer | None:
        """The answer; None if the stream broke off before its end."""

    def partial_messages(self) -> list[bytes]:
        """The messages of a partial answer: its text, without tool calls."""


class WireFormat(Protocol):
    """One provider's wire format."""

    provider: str
    accepts: frozenset[str]
    """The providers whose snapshots it accepts without a conversion."""
    results_in: ResultsIn
    """Where the results of a tool call must be."""

    def user(self, text: str) -> bytes:
        """A user message."""

    def opening_messages(self, system: str) -> list[bytes]:
        """The first messages of a conversation with this system prompt; none if the prompt is a parameter."""

    def history_prefix(self, system: str) -> list[bytes]:
        """Messages that come first in the history but are not sent."""

    def place_system(self, messages: list[bytes], system: str) -> tuple[list[bytes], str]:
        """The messages of a restored conversation, including the system prompt if that is a message, and the prompt."""

    def results(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> list[bytes]:
        """Messages with the results of tools, in the order of the calls."""

    def request(self, asked: ChatRequest, *, stream: bool) -> Json:
        """The body of a request."""

    def answer(self, body: bytes) -> Answer:
        """The answer in a whole response. ProviderError if it is not one."""

    def collect(self) -> Collector:
        """A collector for one response."""

    def check(self, message: Json, *, first: bool = False) -> str | None:
        """The reason why the provider refuses a message, or refuses it as the `first`; None if it does not."""

    def calls(self, message: Json) -> CallIds:
        """The ids of the tool calls in a checked message, and of the calls that it has results of."""


ResultsIn = Literal["next message", "next messages", "next turn", "any message"]
"""``next message``: all results in one. ``next turn``: consecutive messages of the same side count as one."""


class CallIds(NamedTuple):
    """The tool calls in a message, and the calls that it answers, by id."""

    made: Sequence[str]
    answered: Sequence[str]
    by_model: bool
    """True for a message of the model."""


class CallOrder:
    """Checks that each tool call of a conversation has its result where the provider wants it."""

    def __init__(self, results_in: ResultsIn) -> None:
        self._in = results_in
        self._made = set[str]()
        self._open = Counter[str]()
        """The calls without a result."""
        self._by_model = False
        """True after a message of the model."""

    def broken_by(self, calls: CallIds) -> str | None:
        """Takes the next message. The reason why the provider refuses it here; None if it does not."""
        same_turn = calls.by_model and self._by_model and self._in == "next turn"
        if not self._made.issuperset(calls.answered):
            return "it has the result of a tool call that is not before it"
        if self._in != "any message":
            if Counter(calls.answered) - self._open:
                return "it has a second result of a tool call"
            left = self._open - Counter(calls.answered)
            if left and not same_turn and (not calls.answered or self._in == "next message"):
                return "results of the tool calls before it are missing"
        self._made.update(calls.made)
        self._open = self._open - Counter(calls.answered) + Counter(calls.made)
        self._by_model = calls.by_model
        return None


Rules = Sequence[tuple[Callable[[Json], object], str]]
"""The messages that a provider refuses: a test for each reason, in the order in which they are applied."""


def broken_rule(rules: Rules, message: Json) -> str | None:
    """The reason of the first rule that a message breaks; None if it keeps all of them."""
    return next((why for breaks, why in rules if breaks(message)), None)


def load(raw: bytes | str, number: Callable[[str], int | str] = integer) -> Any:
    """Decodes JSON. Integers are exact; one too long for Python becomes text, or with `number` int a ValueError.

    An escaped lone surrogate, which a request cannot contain, becomes a question mark. ValueError if it is not JSON, or
    has a number that a request cannot contain.
    """
    text = raw if isinstance(raw, str) else raw.decode()
    value = json.loads(text, parse_int=number, parse_float=_finite, parse_constant=_finite)
    if "\\ud" in text.lower():
        value = json.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace"), parse_int=integer)
    return value


class OutOfRange(ValueError):
    """A number that is too large for a request."""


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise OutOfRange(number)
    return value


def dump(value: object) -> bytes:
    """`value` as compact JSON. Invalid if JSON cannot hold it."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except UnicodeEncodeError:
        raise Invalid("the text has a lone surrogate", hint="Decode it with errors='replace'.") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(f"this cannot be written as JSON: {error}") from None


def answer(
    provider: str,
    messages: list[bytes],
    *,
    usage: Usage | None,
    stop: str | None,
    model: str | None,
    again: bool = False,
) -> Answer:
    """An answer, with text and tool calls from the neutral view. ProviderError if that cannot be made."""
    try:
        blocks = [block for raw in messages for block in view(Native(provider, raw)).blocks]
        for raw in messages:
            load(raw)  # the next request sends it back to the provider
    except (Invalid, msgspec.MsgspecError, ValueError, RecursionError):
        raise unreadable(provider) from None
    text = "".join(block.text for block in blocks if isinstance(block, Text))
    calls = [block for block in blocks if isinstance(block, ToolCall)]
    empty = all(isinstance(block, Text) and not block.text for block in blocks)
    return Answer([] if empty else messages, text, calls, usage, stop, model, again)


def unreadable(provider: str) -> ProviderError:
    """The error for a response that is not in the provider's format."""
    return ProviderError(provider, "the answer is not in the provider's form", hint="Check the base URL.")


def read_usage(used: Json | None, counts: Mapping[str, Sequence[str]]) -> Usage | None:
    """The token counts of an answer, each at its path in the provider's data; None if it has none."""
    return Usage(**{name: count(used, *path) for name, path in counts.items()}) if used else None


def count(used: object, *path: str) -> int | None:
    """The number of tokens at `path` in a provider's usage data; None if it is missing."""
    for name in path:
        used = used.get(name) if isinstance(used, dict) else None
    return used if isinstance(used, int) and not isinstance(used, bool) and used >= 0 else None


def content_rules(field: str, *, unless: Callable[[Json], object] = lambda message: False) -> Rules:
    """The rules for a field that is text or a list of typed blocks, `unless` the message needs none."""
    return (
        (
            lambda message: not isinstance(message.get(field), str | list) and not unless(message),
            "its content is neither text nor a list",
        ),
        (
            lambda message: (
                not all(
                    isinstance(block, dict) and isinstance(block.get("type"), str) for block in blocks(message, field)
                )
            ),
            "it has a block without a type",
        ),
    )


def blocks(message: Json, field: str = "content") -> list[Any]:
    """The list in a field of a message; empty if it is not a list."""
    found = message.get(field)
    return found if isinstance(found, list) else []


def text_of(result: ToolResult) -> str:
    """The text of a tool's result."""
    return "\n".join(block.text for block in result.content if isinstance(block, Text))
