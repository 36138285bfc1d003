"""The capabilities of chat clients, and the events of an answer. Use isinstance to check for streaming and for saving.

>>> from clew import chat
>>> client = chat.connect(provider="offline")
>>> isinstance(client, chat.PersistentChatClient)
True

isinstance compares the names of methods, so a sync client also matches the async protocol.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import msgspec

from clew.base.messages import AnyMessage, Native, Text, Thinking, ToolCall, ToolResult, Usage
from clew.providers.tools import Tool
from clew.snapshots import Snapshot

if TYPE_CHECKING:
    from clew.convert import Report


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
    cache_write: int = 0

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
            self.cache_write + (used.cache_write or 0),
        )

    @property
    def usage(self) -> Usage | None:
        """The same as the `Usage` of a message; None if not all of it is known."""
        if not self.known:
            return None
        written = self.cache_write or None
        return Usage(
            input=self.input, output=self.output, cached=self.cached, reasoning=self.reasoning, cache_write=written
        )


T = TypeVar("T")
Prompt = str | Native
"""Input for a model: text, or a message in the provider's own JSON."""
Tools = Iterable[Tool | Callable[..., Any]]


class _Chats(Protocol):
    def add(self, prompt: Prompt) -> None:
        """Adds a user message to the conversation. Nothing is sent until the next question."""

    def set_tools(self, tools: Tools) -> None:
        """Replaces the tools that the model may call."""

    @property
    def usage(self) -> UsageTotal:
        """The tokens of this client's answers so far."""

    @property
    def history(self) -> Sequence[AnyMessage]:
        """The conversation so far, oldest first, each message in its provider's own JSON."""


@runtime_checkable
class ChatClient(_Chats, Protocol):
    """A conversation with a model. One call at a time: a second one during the first raises Conflict.

    If no answer arrives, or an empty one because the provider blocks the question, the conversation does not change. A
    partial answer stays in the conversation. A tool call always has a result.
    """

    def chat(self, prompt: Prompt) -> str:
        """Sends `prompt` and returns the answer, running tools until there is one. ProviderError."""

    def ask(self, question: Prompt, into: type[T]) -> T:
        """Requests an answer with the schema of `into`, returned as that type. ProviderError if it does not fit."""


@runtime_checkable
class StreamingChatClient(ChatClient, Protocol):
    """A client that can stream its answer."""

    def stream(self, prompt: Prompt) -> Iterator[Event]:
        """The answer in pieces, tool calls and their results among them; at the end a `Reply`.

        If the caller stops early, by closing the iterator or by an exception, the conversation keeps what arrived.
        """


@runtime_checkable
class PersistentChatClient(ChatClient, Protocol):
    """A client that can save its conversation and restore it in another process."""

    def save(self) -> Snapshot:
        """A snapshot of the conversation, with the same id at every call and without an API key."""

    def restore(self, snapshot: Snapshot, *, convert: bool = False) -> Report | None:
        """Replaces the conversation by that of a snapshot; keeps the client's model.

        Invalid, without a change, if the snapshot is of another provider or its messages are malformed. The functions
        of tools are not in a snapshot: call `set_tools` afterwards. With `convert`, a snapshot of another provider is
        converted first, and the report lists the changes; None if there was no conversion.
        """


@runtime_checkable
class AsyncChatClient(_Chats, Protocol):
    """`ChatClient`, with the calls that wait for a model awaited."""

    async def chat(self, prompt: Prompt) -> str:
        """Sends `prompt` and returns the answer, running tools until there is one. ProviderError."""

    async def ask(self, question: Prompt, into: type[T]) -> T:
        """Requests an answer with the schema of `into`, returned as that type. ProviderError if it does not fit."""


@runtime_checkable
class AsyncStreamingChatClient(AsyncChatClient, Protocol):
    """`StreamingChatClient`, with ``async for``."""

    def stream(self, prompt: Prompt) -> AsyncIterator[Event]:
        """The answer in pieces. If the task is cancelled, the conversation keeps what arrived."""


@runtime_checkable
class AsyncPersistentChatClient(AsyncChatClient, Protocol):
    """`PersistentChatClient`: `save` and `restore` do no I/O and are not awaited."""

    def save(self) -> Snapshot:
        """A snapshot of the conversation, with the same id at every call and without an API key."""

    def restore(self, snapshot: Snapshot, *, convert: bool = False) -> Report | None:
        """Replaces the conversation by that of a snapshot."""
