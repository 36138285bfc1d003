"""The events of a client: pieces of an answer, the answer, and token counts."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from clew.base.messages import Text, Thinking, ToolCall, ToolResult, Usage


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """A complete answer: the last event of a stream."""

    text: str
    stop: str | None = None
    """Why the model stopped, as its provider names it: ``end_turn``, ``length``, ``SAFETY`` …"""
    model: str | None = None
    """The model that answered, as the provider names it."""
    usage: Usage | None = None
    """The tokens of this answer, including its tool calls; None if the provider did not report them."""


Event = Text | Thinking | ToolCall | ToolResult | Reply
"""Text and thinking come in pieces; a tool call comes when it is complete, its result when the tool has run."""


class UsageTotal(NamedTuple):
    """The tokens of several answers, summed."""

    input: int = 0
    output: int = 0
    cached: int = 0
    reasoning: int = 0
    answers: int = 0
    """The number of answers, including those that called a tool."""
    known: bool = True
    """False if an answer did not report its tokens: then the sums are lower bounds."""

    def plus(self, usage: Usage | None) -> UsageTotal:
        """The total with one more answer."""
        used = usage or Usage()
        return UsageTotal(
            self.input + (used.input or 0),
            self.output + (used.output or 0),
            self.cached + (used.cached or 0),
            self.reasoning + (used.reasoning or 0),
            self.answers + 1,
            self.known and used.input is not None and used.output is not None,
        )

    @property
    def usage(self) -> Usage | None:
        """The same as the `Usage` of a message; None if not all of it is known."""
        if not self.known:
            return None
        return Usage(input=self.input, output=self.output, cached=self.cached, reasoning=self.reasoning)
