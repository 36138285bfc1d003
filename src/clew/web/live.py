"""New messages as they arrive: server-sent events, without a thread or a poll of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from weakref import WeakKeyDictionary

import msgspec
from starlette.concurrency import run_in_threadpool

from clew.engine.node import Node
from clew.engine.watch import Watch, state_of
from clew.errors import ClewError
from clew.store.session import Session

HEARTBEAT = 15.0
"""Seconds after which an idle stream sends a comment, so that both ends notice a lost connection."""


class Streams:
    """The open streams of a server."""

    def __init__(self) -> None:
        # Weak: if a client disconnects before its stream has begun, nothing ends the stream.
        self._open: WeakKeyDictionary[Watch, asyncio.Event] = WeakKeyDictionary()

    def __len__(self) -> int:
        return len(self._open)

    def events(self, session: Session, after: str | None, gone: Callable[[], object]) -> AsyncIterator[bytes]:
        """An event for each message after `after`, or each new one: its id, number and role.

        It counts as open from now on. The page asks for the HTML of a message when the reader wants it. Calls `gone` if
        the session is deleted.
        """
        watch, changed = session.watch(after=after) if after else session.watch(), asyncio.Event()
        self._open[watch] = changed
        return self._events(watch, changed, gone)

    async def _events(self, watch: Watch, changed: asyncio.Event, gone: Callable[[], object]) -> AsyncIterator[bytes]:
        state, loop = state_of(watch), asyncio.get_running_loop()

        def notify() -> None:  # on any thread
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(changed.set)

        try:
            yield b"retry: 2000\n\n"
            await run_in_threadpool(state.fetch)
            state.subscribe(notify)
            while not state.closed:
                changed.clear()
                await run_in_threadpool(state.fetch)
                while state.ready:
                    yield _event(state.ready.popleft())
                    if not state.ready:
                        await run_in_threadpool(state.fetch)
                while not changed.is_set():
                    with suppress(TimeoutError):
                        await asyncio.wait_for(changed.wait(), HEARTBEAT)
                        break
                    yield b": still here\n\n"
        except ClewError:  # deleted, trashed, locked
            gone()
            yield b"event: gone\ndata: {}\n\n"
        finally:
            self._open.pop(watch, None)
            watch.close()

    def close(self) -> None:
        """Ends all streams."""
        for watch, changed in [*self._open.items()]:
            watch.close()
            changed.set()


def _event(node: Node) -> bytes:
    data = msgspec.json.encode({"id": node.id, "number": node.counters.messages, "role": node.role})
    return b"id: %s\nevent: message\ndata: %s\n\n" % (node.id.encode(), data)
