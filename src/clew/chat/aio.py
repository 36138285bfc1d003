"""The async client: the same names, with what waits for a model awaited.

    async with clew.chat.aio.connect(provider="claude", model="…", token=…) as client:
        print(await client.chat("Hello"))

A task that is cancelled keeps in the conversation what arrived.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any, Self, TypeVar

try:
    from anyio import create_task_group, to_thread
except ImportError as error:  # the sync client does without it
    raise ImportError("clew.chat.aio needs anyio: pip install 'clew[aio]'") from error

from clew.chat.client import fitting, wanted
from clew.chat.connecting import LOCAL, announce, made, settled
from clew.chat.conversation import Conversation
from clew.chat.dialects import Dialect
from clew.chat.events import Event
from clew.chat.protocols import Prompt
from clew.chat.tools import answered, failed
from clew.chat.transports import AsyncTransport
from clew.chat.turn import Turn
from clew.errors import Invalid
from clew.model import ToolCall

__all__ = ["AsyncClient", "Stream", "connect"]

T = TypeVar("T")


class Stream(AsyncIterator[Event]):
    """An answer as it comes. Nothing is sent before the first event is asked for.

    An async generator that is left in the middle, as a cancelled task leaves it, ends when its event loop gets to it.
    What arrived is in the conversation before that: as soon as nobody has this stream any more. With ``async with`` the
    connection ends at once, too.
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
        """Ends the answer here."""
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

    def __init__(self, dialect: Dialect, transport: AsyncTransport, **settings: Any) -> None:
        super().__init__(dialect, **settings)
        self._transport = transport

    async def chat(self, prompt: Prompt) -> str:
        """Says `prompt` and gives back the answer; tools are run until there is one. ProviderError."""
        return await self._answer(self._begin(prompt))

    async def ask(self, question: Prompt, into: type[T]) -> T:
        """The answer as a value of type `into`, which the model is held to. ProviderError if it does not fit."""
        return fitting(self.provider, await self._answer(self._begin(question, wanted(into))), into)

    def stream(self, prompt: Prompt) -> Stream:
        """The answer in pieces, tool calls and their results among them; at the end a `Reply`.

        Whoever stops early, or is cancelled, keeps in the conversation what arrived.
        """
        return Stream(self, prompt)

    async def _pieces(self, turn: Turn) -> AsyncGenerator[Event, None]:
        with turn:
            while turn.goes_on:
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
            while turn.goes_on:
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
            turn.ran(at, answered(call, await value if inspect.isawaitable(value) else value))
        except Exception as error:  # noqa: BLE001 - whatever a tool raises is for the model to see
            turn.ran(at, failed(call, error))


def connect(provider: str, model: str = "", **settings: Any) -> AsyncClient:
    """An async client. Takes what `clew.chat.connect` takes; ``claude-local`` has no async face."""
    if provider == LOCAL:
        raise Invalid(f"{LOCAL} has no async client", hint="Run the sync one in a thread.")
    known, endpoint, given = settled(provider, model, **settings)
    client = AsyncClient(known.dialect(), made(known.async_transport, endpoint), **given)
    announce(endpoint)
    return client
