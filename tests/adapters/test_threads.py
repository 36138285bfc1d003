"""Calls of async frameworks on threads."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading

import pytest

from clew.adapters.threads import in_thread


def test_calls_run_at_once():
    """Calls do not wait for each other: eight of them meet."""
    meeting = threading.Barrier(8, timeout=30)

    async def work():
        return await asyncio.gather(*(in_thread(meeting.wait) for _ in range(8)))

    assert sorted(asyncio.run(work())) == list(range(8))


def test_more_calls_than_threads():
    """Calls that find all threads busy run later, and each gets its own result."""

    async def work():
        return await asyncio.gather(*(in_thread(lambda number=number: number) for number in range(200)))

    assert asyncio.run(work()) == list(range(200))


def test_a_cancelled_task_waits_for_its_call():
    """A task that is cancelled twice raises after its call has ended, not before."""
    begun, go, done = threading.Event(), threading.Event(), []

    def call():
        begun.set()
        go.wait(30)
        done.append(1)

    async def work():
        task = asyncio.ensure_future(in_thread(call))
        await asyncio.to_thread(begun.wait, 30)
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0)
        assert not task.done()
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        return done

    assert asyncio.run(work()) == [1]


def test_errors_and_context():
    """A call sees the context variables of its task, and its error is raised there."""
    name = contextvars.ContextVar("name")

    async def work():
        name.set("mine")
        assert await in_thread(name.get) == "mine"
        with pytest.raises(ZeroDivisionError):
            await in_thread(lambda: 1 // 0)

    asyncio.run(work())


FORKED = """
import asyncio, os
from clew.adapters.threads import in_thread
assert asyncio.run(in_thread(int, "1")) == 1
if os.fork() == 0:
    os._exit(asyncio.run(in_thread(int, "7")))
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
def test_a_forked_child_has_threads_of_its_own():
    """A child that is forked after a call can make calls."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORKED], capture_output=True, timeout=60, check=True)
    assert done.stdout.split() == [b"7"]
