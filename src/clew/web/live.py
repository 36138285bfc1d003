"""New messages as they arrive: server-sent events, without a thread or a poll of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import msgspec

from clew.aio.dispatch import WorkerThreads
from clew.aio.watch import Watch
from clew.engine.node import Node
from clew.errors import ClewError
from clew.store.session import Session

HEARTBEAT = 15.0
"""Seconds after which an idle stream sends a comment, so that both ends notice a lost connection."""


class Streams:
    """The open streams of a server."""

    def __init__(self) -> None:
        self._open: set[Watch] = set()

    def __len__(self) -> int:
        return len(self._open)

    async def events(self, session: Session, after: str | None) -> AsyncIterator[bytes]:
        """An event for each message after `after`, or each new one: its id, number and role.

        The page asks for its HTML when the reader wants it.
        """
        watch = Watch(WorkerThreads(), session.watch(after=after) if after else session.watch())
        self._open.add(watch)
        try:
            yield b"retry: 2000\n\n"
            async with watch:
                while True:
                    node: Node | None = None
                    with anyio.move_on_after(HEARTBEAT):
                        node = await anext(watch)
                    yield b": still here\n\n" if node is None else _event(node)
        except StopAsyncIteration:  # the server ends
            return
        except ClewError:  # deleted, trashed, locked
            yield b"event: gone\ndata: {}\n\n"
        finally:
            self._open.discard(watch)

    async def close(self) -> None:
        """Ends all streams."""
        for watch in [*self._open]:
            await watch.aclose()


def _event(node: Node) -> bytes:
    data = msgspec.json.encode({"id": node.id, "number": node.counters.messages, "role": node.role})
    return b"id: %s\nevent: message\ndata: %s\n\n" % (node.id.encode(), data)
