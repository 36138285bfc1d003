"""The async client: the same names; calls that wait for a model are awaited.

    async with clew.chat.aio.connect(provider="claude", model="…", token=…) as client:
        print(await client.chat("Hello"))

If a task is cancelled, the conversation keeps what arrived.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any, Self, TypeVar

from clew.errors import install_hint

try:
    from anyio import create_task_group, to_thread
except ImportError as error:  # the sync client does without it
    raise ImportError(f"clew.chat.aio needs anyio. {install_hint('anyio')}") from error

from clew.base.messages import ToolCall
from clew.chat.client import answer_schema, decode_answer
from clew.chat.conversation import Conversation, Turn
from clew.chat.factory import LOCAL, announce, check_settings, open_transport, wire_format
from clew.chat.protocols import Event, Prompt
from clew.errors import Invalid
from clew.providers.tools import error_result, to_result
from clew.providers.transport import AsyncTransport
from clew.providers.wire import WireFormat

__all__ = ["AsyncClient", "Stream", "connect"]

T = TypeVar("T")


class Stream(AsyncIterator[Event]):
    """The events of an answer. The request is sent when the first event is requested.

    A cancelled task may leave the stream unfinished. The conversation then gets what arrived as soon as the last
    reference to the stream is gone, but the event loop closes the connection later. Use ``async with`` to close it at
    once.
    """

    def __init__(self, client: AsyncClient, prompt: Prompt) -> None:
        self._client = client
        self._prompt = prompt
        self._turn: Turn | None = None
        self._events: AsyncGenerator[Event, None] | None = None

    async def __anext__(self) -> Event:
        if self._events is None:
            self._turn = self._client._begin(self._prompt)
            self._events = self._client._pieces(self._turn)
        return await anext(self._events)

    async def aclose(self) -> None:
        """Stops the answer."""
        if self._events is not None:
            await self._events.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        if self._turn is not None:
            self._turn.close()


class AsyncClient(Conversation):
    """A conversation with a model: it streams, and it can be saved and restored."""

    def __init__(self, wire: WireFormat, transport: AsyncTransport, **settings: Any) -> None:
        super().__init__(wire, **settings)
        self._transport = transport

    async def chat(self, prompt: Prompt) -> str:
        """Sends `prompt` and returns the answer, running tools until there is one. ProviderError."""
        return await self._answer(self._begin(prompt))

    async def ask(self, question: Prompt, into: type[T]) -> T:
        """Requests an answer with the schema of `into`, returned as that type. ProviderError if it does not fit."""
        return decode_answer(self.provider, await self._answer(self._begin(question, answer_schema(into))), into)

    def stream(self, prompt: Prompt) -> Stream:
        """The answer in pieces, tool calls and their results among them; at the end a `Reply`.

        If the caller stops early or is cancelled, the conversation keeps what arrived.
        """
        return Stream(self, prompt)

    async def _pieces(self, turn: Turn) -> AsyncGenerator[Event, None]:
        with turn:
            while turn.unfinished:
                async with aclosing(self._transport.stream(turn.request(stream=True))) as events:
                    async for event in events:
                        for piece in turn.piece(event):
                            yield piece
                for piece in turn.end():
                    yield piece
                if turn.calls:
                    await self._run(turn, turn.calls)
                    for piece in turn.results():
                        yield piece
        assert turn.reply is not None
        yield turn.reply

    async def close(self) -> None:
        """Ends the connections to the provider."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _answer(self, turn: Turn) -> str:
        with turn:
            while turn.unfinished:
                turn.whole(await self._transport.send(turn.request(stream=False)))
                if turn.calls:
                    await self._run(turn, turn.calls)
                    list(turn.results())
            assert turn.reply is not None
            return turn.reply.text

    async def _run(self, turn: Turn, calls: Sequence[ToolCall]) -> None:
        async with create_task_group() as group:
            for at, call in enumerate(calls):
                group.start_soon(self._outcome, turn, at, call)

    async def _outcome(self, turn: Turn, at: int, call: ToolCall) -> None:
        try:
            run = self._tools.prepare(call, can_await=True)
            awaited = self._tools.tools[call.name].awaited
            value = run() if awaited else await to_thread.run_sync(run, abandon_on_cancel=True)
            turn.add_result(at, to_result(call, await value if inspect.isawaitable(value) else value))
        except Exception as error:  # noqa: BLE001 - whatever a tool raises is for the model to see
            turn.add_result(at, error_result(call, error))


def connect(provider: str, model: str = "", **settings: Any) -> AsyncClient:
    """Creates an async client. Takes the arguments of `clew.chat.connect`; ``claude-local`` has no async client."""
    if provider == LOCAL:
        raise Invalid(f"{LOCAL} has no async client", hint="Run the sync one in a thread.")
    endpoint, given = check_settings(provider, model, **settings)
    client = AsyncClient(wire_format(endpoint), open_transport("connect_async", endpoint), **given)
    announce(endpoint)
    return client
