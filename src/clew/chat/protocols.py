"""The capabilities of chat clients. Check for more than chatting with isinstance.

>>> from clew import chat
>>> client = chat.connect(provider="offline")
>>> isinstance(client, chat.PersistentChatClient)
True

isinstance compares the names of methods, so a sync client also matches the async protocol.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from clew.base.messages import AnyMessage, Native
from clew.chat.events import Event, UsageTotal
from clew.providers.tools import Tool
from clew.snapshots import Snapshot

if TYPE_CHECKING:
    from clew.convert import Report

T = TypeVar("T")
Prompt = str | Native
"""Input for a model: text, or a message in the provider's own JSON."""
Tools = Iterable[Tool | Callable[..., Any]]


class _Chats(Protocol):
    def add(self, prompt: Prompt) -> None:
        """Puts a message from the person into the conversation. Nothing is sent until the next question."""

    def set_tools(self, tools: Tools) -> None:
        """Gives the model these tools, and no others: those it had before are gone."""

    @property
    def usage(self) -> UsageTotal:
        """The tokens of this client's answers so far."""

    @property
    def history(self) -> Sequence[AnyMessage]:
        """The conversation so far, oldest first, each message in its provider's own JSON."""


@runtime_checkable
class ChatClient(_Chats, Protocol):
    """A conversation with a model. One call at a time: a second one during the first is a Conflict.

    If nothing of an answer arrives, or it is empty, as when a provider blocks the question, the conversation is as it
    was before. What does arrive stays in it, also if it breaks off. No tool call is ever left without its result.
    """

    def chat(self, prompt: Prompt) -> str:
        """Sends `prompt` and returns the answer, running tools until there is one. ProviderError."""

    def ask(self, question: Prompt, into: type[T]) -> T:
        """The answer as a value of type `into`, whose schema the request has. ProviderError if it does not fit."""


@runtime_checkable
class StreamingChatClient(ChatClient, Protocol):
    """A client that gives its answer as it comes."""

    def stream(self, prompt: Prompt) -> Iterator[Event]:
        """The answer in pieces, tool calls and their results among them; at the end a `Reply`.

        If the caller stops early, by closing the iterator or by an exception, the conversation keeps what arrived.
        """


@runtime_checkable
class PersistentChatClient(ChatClient, Protocol):
    """A client whose conversation can be saved, and restored in another process."""

    def save(self) -> Snapshot:
        """The conversation as it is now. Saved again it has the same id. It has no API key."""

    def restore(self, snapshot: Snapshot, *, convert: bool = False) -> Report | None:
        """Puts the conversation of a snapshot in place of this one; the model stays this client's.

        Invalid, and nothing changed, if it is of another provider or its messages are malformed. The functions of
        tools are not in a snapshot: call `set_tools` afterwards. With `convert` one of another provider is converted
        first, and the report says what is not as it was; None if nothing had to be.
        """


@runtime_checkable
class AsyncChatClient(_Chats, Protocol):
    """`ChatClient`, with the calls that wait for a model awaited."""

    async def chat(self, prompt: Prompt) -> str:
        """Sends `prompt` and returns the answer, running tools until there is one. ProviderError."""

    async def ask(self, question: Prompt, into: type[T]) -> T:
        """The answer as a value of type `into`, whose schema the request has. ProviderError if it does not fit."""


@runtime_checkable
class AsyncStreamingChatClient(AsyncChatClient, Protocol):
    """`StreamingChatClient`, with ``async for``."""

    def stream(self, prompt: Prompt) -> AsyncIterator[Event]:
        """The answer in pieces. If the task is cancelled, the conversation keeps what arrived."""


@runtime_checkable
class AsyncPersistentChatClient(AsyncChatClient, Protocol):
    """`PersistentChatClient`: `save` and `restore` do no I/O and are not awaited."""

    def save(self) -> Snapshot:
        """The conversation as it is now. Saved again it has the same id. It has no API key."""

    def restore(self, snapshot: Snapshot, *, convert: bool = False) -> Report | None:
        """Puts the conversation of a snapshot in place of this one."""
