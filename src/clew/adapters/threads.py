"""Calls of async frameworks, run on threads."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")


async def in_thread(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Runs a call on a worker thread, on asyncio or trio.

    The call begins before the first suspension and always completes. A task that is cancelled meanwhile waits for it,
    and then raises: what it wrote is stored when the caller learns of the cancellation.
    """
    call = partial(function, *args, **kwargs)
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        from anyio import to_thread

        return await to_thread.run_sync(call)
    running = loop.run_in_executor(None, partial(contextvars.copy_context().run, call))
    cancelled: asyncio.CancelledError | None = None
    while not running.done():
        try:
            await asyncio.wait({running})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        running.exception()  # retrieved, or asyncio complains that nobody did
        raise cancelled
    return running.result()
