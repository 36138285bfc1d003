"""The sync client: a conversation and its transport."""

from __future__ import annotations

import contextvars
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, Self, TypeVar

import msgspec

from clew.base.messages import ToolCall, ToolResult
from clew.chat.conversation import Conversation, Turn
from clew.chat.protocols import Event, Prompt
from clew.providers.errors import ProviderError
from clew.providers.tools import error_result, schema, to_result
from clew.providers.transport import Transport
from clew.providers.wire import WireFormat

T = TypeVar("T")
AT_ONCE = 8
"""How many tools of one answer run at the same time."""


class Client(Conversation):
    """A conversation with a model: it streams, and it can be saved and restored."""

    def __init__(self, wire: WireFormat, transport: Transport, **settings: Any) -> None:
        super().__init__(wire, **settings)
        self._transport = transport

    def chat(self, prompt: Prompt) -> str:
        """Sends `prompt` and returns the answer, running tools until there is one. ProviderError."""
        return self._answer(self._begin(prompt))

    def ask(self, question: Prompt, into: type[T]) -> T:
        """Requests an answer with the schema of `into`, returned as that type. ProviderError if it does not fit."""
        return decode_answer(self.provider, self._answer(self._begin(question, answer_schema(into))), into)

    def stream(self, prompt: Prompt) -> Generator[Event, None, None]:
        """The answer in pieces, tool calls and their results among them; at the end a `Reply`.

        If the caller stops early, by closing the iterator or by an exception, the conversation keeps what arrived.
        """
        turn = self._begin(prompt)
        with turn:
            while turn.unfinished:
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
            while turn.unfinished:
                turn.whole(self._transport.send(turn.request(stream=False)))
                if turn.calls:
                    self._run(turn, turn.calls)
                    list(turn.results())
            assert turn.reply is not None
            return turn.reply.text

    def _run(self, turn: Turn, calls: Sequence[ToolCall]) -> None:
        if len(calls) == 1:
            turn.add_result(0, self._outcome(calls[0]))
            return
        pool = ThreadPoolExecutor(min(AT_ONCE, len(calls)), "clew-tool")
        running = [
            pool.submit(contextvars.copy_context().run, self._record, turn, at, call) for at, call in enumerate(calls)
        ]
        try:
            for future in running:
                future.result()
        finally:
            # Do not wait: an interrupted turn returns at once.
            pool.shutdown(wait=False, cancel_futures=True)

    def _record(self, turn: Turn, at: int, call: ToolCall) -> None:
        turn.add_result(at, self._outcome(call))

    def _outcome(self, call: ToolCall) -> ToolResult:
        try:
            return to_result(call, self._tools.prepare(call, can_await=False)())
        except Exception as error:  # noqa: BLE001 - whatever a tool raises is for the model to see
            return error_result(call, error)


def answer_schema(into: type) -> dict[str, Any] | None:
    """The JSON Schema of an answer; None for plain text."""
    return None if into is str else schema(into)


def decode_answer(provider: str, text: str, into: type[T]) -> T:
    """The value of an answer. ProviderError if it does not fit the type."""
    if into is str:
        return text  # type: ignore[return-value]
    try:
        return msgspec.json.decode(text, type=into)
    except msgspec.MsgspecError as error:
        raise ProviderError(provider, "the answer does not fit the requested type") from error
