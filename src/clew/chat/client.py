"""The sync client: a conversation, and the transport it is carried by."""

from __future__ import annotations

import contextvars
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, Self, TypeVar

import msgspec

from clew.chat.conversation import Conversation
from clew.chat.dialects import Dialect
from clew.chat.events import Event
from clew.chat.protocols import Prompt
from clew.chat.tools import answered, failed, schema
from clew.chat.transports import Transport
from clew.chat.turn import Turn
from clew.errors import ProviderError
from clew.model import ToolCall, ToolResult

T = TypeVar("T")
AT_ONCE = 8
"""How many tools of one answer run at the same time."""


class Client(Conversation):
    """A conversation with a model: it streams, and it can be saved and restored."""

    def __init__(self, dialect: Dialect, transport: Transport, **settings: Any) -> None:
        super().__init__(dialect, **settings)
        self._transport = transport

    def chat(self, prompt: Prompt) -> str:
        """Says `prompt` and gives back the answer; tools are run until there is one. ProviderError."""
        return self._answer(self._begin(prompt))

    def ask(self, question: Prompt, into: type[T]) -> T:
        """The answer as a value of type `into`, which the model is held to. ProviderError if it does not fit."""
        return fitting(self.provider, self._answer(self._begin(question, wanted(into))), into)

    def stream(self, prompt: Prompt) -> Generator[Event, None, None]:
        """The answer in pieces, tool calls and their results among them; at the end a `Reply`.

        Whoever stops early, by closing the iterator or by an exception, keeps in the conversation what arrived.
        """
        turn = self._begin(prompt)
        with turn:
            while turn.goes_on:
                with closing(self._transport.stream(turn.request(stream=True))) as events:
                    for event in events:
                        yield from turn.piece(event)
                yield from turn.end()
                if turn.calls:
                    self._run(turn, turn.calls)
                    yield from turn.results()
        assert turn.reply is not None
        yield turn.reply

    def close(self) -> None:
        """Ends the connections to the provider."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _answer(self, turn: Turn) -> str:
        with turn:
            while turn.goes_on:
                turn.whole(self._transport.send(turn.request(stream=False)))
                if turn.calls:
                    self._run(turn, turn.calls)
                    list(turn.results())
            assert turn.reply is not None
            return turn.reply.text

    def _run(self, turn: Turn, calls: Sequence[ToolCall]) -> None:
        if len(calls) == 1:
            turn.ran(0, self._outcome(calls[0]))
            return
        pool = ThreadPoolExecutor(min(AT_ONCE, len(calls)), "clew-tool")
        running = [
            pool.submit(contextvars.copy_context().run, self._record, turn, at, call) for at, call in enumerate(calls)
        ]
        try:
            for future in running:
                future.result()
        finally:
            # Not waiting for them: whoever interrupts a turn wants to be back.
            pool.shutdown(wait=False, cancel_futures=True)

    def _record(self, turn: Turn, at: int, call: ToolCall) -> None:
        turn.ran(at, self._outcome(call))

    def _outcome(self, call: ToolCall) -> ToolResult:
        try:
            return answered(call, self._tools.prepare(call, can_await=False)())
        except Exception as error:  # noqa: BLE001 - whatever a tool raises is for the model to see
            return failed(call, error)


def wanted(into: type) -> dict[str, Any] | None:
    """The JSON Schema an answer is held to; none for plain text."""
    return None if into is str else schema(into)


def fitting(provider: str, text: str, into: type[T]) -> T:
    """An answer as the value that was asked for."""
    if into is str:
        return text  # type: ignore[return-value]
    try:
        return msgspec.json.decode(text, type=into)
    except msgspec.MsgspecError as error:
        raise ProviderError(provider, "the answer does not fit the type that was asked for") from error
