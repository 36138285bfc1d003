"""What a chat client can do. More than talking is a capability that some have: ask with isinstance.

>>> from clew import chat
>>> client = chat.connect(provider="offline")
>>> isinstance(client, chat.PersistentChatClient)
True

The protocols are told apart by their methods' names, so a client of one face also fits the protocol of the other.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from clew.chat.events import Event, UsageTotal
from clew.chat.tools import Tool
from clew.model import Native, Said
from clew.snapshots import Snapshot

if TYPE_CHECKING:
    from clew.convert import Report

T = TypeVar("T")
Prompt = str | Native
"""What is said to a model: words, or a message in the provider's own JSON."""
Tools = Iterable[Tool | Callable[..., Any]]


class _Talk(Protocol):
    def add(self, prompt: Prompt) -> None:
        """Puts a message from the person into the conversation. Nothing is sent until the next question."""

    def set_tools(self, tools: Tools) -> None:
        """Gives the model these tools, and no others: those it had before are gone."""

    @property
    def usage(self) -> UsageTotal:
        """What this client's answers have cost so far."""

    @property
    def history(self) -> Sequence[Said]:
        """The conversation so far, oldest first, each message in its provider's own JSON."""


@runtime_checkable
class ChatClient(_Talk, Protocol):
    """A conversation with a model. One call at a time: a second one while the first goes on is a Conflict.

    If nothing of an answer arrives, or it is empty, as when a provider blocks the question, the conversation is as it
    was before. What does arrive stays in it, also if it breaks off. No tool call is ever left without its result.
    """

    def chat(self, prompt: Prompt) -> str:
        """Says `prompt` and gives back the answer; tools are run until there is one. ProviderError."""

    def ask(self, question: Prompt, into: type[T]) -> T:
        """The answer as a value of type `into`, which the model is held to. ProviderError if it does not fit."""


@runtime_checkable
class StreamingChatClient(ChatClient, Protocol):
    """A client that gives its answer as it comes."""

    def stream(self, prompt: Prompt) -> Iterator[Event]:
        """The answer in pieces, tool calls and their results among them; at the end a `Reply`.

        Whoever stops early, by closing the iterator or by an exception, keeps in the conversation what arrived.
        """


@runtime_checkable
class PersistentChatClient(ChatClient, Protocol):
    """A client whose conversation can be saved, and restored in another process."""

    def save(self) -> Snapshot:
        """The conversation as it is now. Saved again it has the same id. No token is in it."""

    def restore(self, snapshot: Snapshot, *, convert: bool = False) -> Report | None:
        """Puts the conversation of a snapshot in place of this one; the model stays this client's.

        Invalid, and nothing changed, if it is of another provider or its messages are malformed. The functions of
        tools are not in a snapshot: call `set_tools` afterwards. With `convert` one of another provider is converted
        first, and the report says what is not as it was; None if nothing had to be.
        """


@runtime_checkable
class AsyncChatClient(_Talk, Protocol):
    """`ChatClient`, with the calls that wait for a model awaited."""

    async def chat(self, prompt: Prompt) -> str:
        """Says `prompt` and gives back the answer; tools are run until there is one. ProviderError."""

    async def ask(self, question: Prompt, into: type[T]) -> T:
        """The answer as a value of type `into`, which the model is held to. ProviderError if it does not fit."""


@runtime_checkable
class AsyncStreamingChatClient(AsyncChatClient, Protocol):
    """`StreamingChatClient`, with ``async for``."""

    def stream(self, prompt: Prompt) -> AsyncIterator[Event]:
        """The answer in pieces. A task that is cancelled keeps in the conversation what arrived."""


@runtime_checkable
class AsyncPersistentChatClient(AsyncChatClient, Protocol):
    """`PersistentChatClient`: saving and restoring wait for nobody, and are not awaited."""

    def save(self) -> Snapshot:
        """The conversation as it is now. Saved again it has the same id. No token is in it."""

    def restore(self, snapshot: Snapshot, *, convert: bool = False) -> Report | None:
        """Puts the conversation of a snapshot in place of this one."""
