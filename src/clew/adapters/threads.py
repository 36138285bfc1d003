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

    The call begins before the first suspension and always completes: a task that is cancelled while it waits has
    stored everything.
    """
    call = partial(function, *args, **kwargs)
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        from anyio import to_thread

        return await to_thread.run_sync(call)
    return await asyncio.shield(loop.run_in_executor(None, partial(contextvars.copy_context().run, call)))
