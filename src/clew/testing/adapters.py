"""Checks for any store of agent sessions, of clew or not: does it lose, repeat, reorder or leave anything?

A store is tested through a `Driver`, a class that a process can make by its name, ``package.module:Class``::

    outcomes = check("my_tests.drivers:MyStore", folder)
    assert all(outcome.passed for outcome in outcomes)

Processes are killed with SIGKILL, and files are read as bytes: each check needs a folder on a disk.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol


class Driver(Protocol):
    """A store of sessions, made with the path of a file. Texts stand for messages."""

    deduplicates: bool
    """True if messages have ids, and one that is sent again with its id is the same message."""

    def __init__(self, path: str) -> None: ...

    async def append(self, session: str, texts: Sequence[str], ids: Sequence[str]) -> None:
        """Adds a batch of messages. It is acknowledged when this returns."""

    async def read(self, session: str) -> list[str]:
        """The texts of a session, in their order."""
        ...

    async def delete(self, session: str) -> None:
        """Deletes a session."""

    def close(self) -> None:
        """Closes the store."""


class Outcome(NamedTuple):
    """The result of one check."""

    name: str
    passed: bool
    why: str = ""
    """What was wrong, or why the check does not apply."""


def check(driver: str, folder: Path) -> list[Outcome]:
    """Runs every check with a new file each."""
    outcomes = []
    for name, run in CHECKS.items():
        place = folder / name.replace(" ", "-").replace("-9", "")
        place.mkdir()
        try:
            outcomes.append(Outcome(name, True, run(driver, place) or ""))
        except Exception as error:  # noqa: BLE001  any error of a foreign store is an outcome
            outcomes.append(Outcome(name, False, f"{type(error).__name__}: {error}"[:200]))
    return outcomes


def make(driver: str, folder: Path) -> Any:
    """A driver on the file of a check."""
    module, _, name = driver.partition(":")
    return getattr(import_module(module), name)(os.fspath(folder / "sessions.db"))


def _order(driver: str, folder: Path) -> None:
    with closing(make(driver, folder)) as store:
        for number in range(10):
            asyncio.run(store.append("s", *_batch("m", number, 3)))
    with closing(make(driver, folder)) as store:
        _expect(asyncio.run(store.read("s")), [f"m {n}.{k}" for n in range(10) for k in range(3)])


def _same_batch_twice(driver: str, folder: Path) -> str | None:
    with closing(make(driver, folder)) as store:
        if not store.deduplicates:
            return "its protocol has no ids"
        for number in (0, 0, 1, 0, 1):
            asyncio.run(store.append("s", *_batch("m", number, 2)))
        _expect(asyncio.run(store.read("s")), ["m 0.0", "m 0.1", "m 1.0", "m 1.1"])
    return None


def _killed(driver: str, folder: Path) -> None:
    for lines in (1, 4, 9):
        place = folder / str(lines)
        place.mkdir()
        with _worker(driver, place, "k", 100_000) as worker:
            assert worker.stdout is not None
            done = [worker.stdout.readline() for _ in range(lines)]
            worker.send_signal(signal.SIGKILL)
            done += worker.stdout.readlines()
        acknowledged = len([line for line in done if line.endswith(b"\n") and line.strip()])
        with closing(make(driver, place)) as store:
            found = asyncio.run(store.read("s"))
        _expect(found, [f"k {n}.{k}" for n in range(len(found) // 2) for k in range(2)])
        if len(found) < 2 * acknowledged:
            raise AssertionError(f"{acknowledged} batches were acknowledged, {len(found) // 2} are there")


def _two_processes(driver: str, folder: Path) -> None:
    workers = [_worker(driver, folder, name, 25) for name in ("a", "b")]
    for worker in workers:
        _, errors = worker.communicate(timeout=120)
        if worker.returncode:
            raise AssertionError(errors.decode(errors="replace").strip().splitlines()[-1])
    with closing(make(driver, folder)) as store:
        found = asyncio.run(store.read("s"))
    for name in ("a", "b"):
        mine = [one for one in found if one.startswith(name)]
        _expect(mine, [f"{name} {n}.{k}" for n in range(25) for k in range(2)])


def _cancelled_task(driver: str, folder: Path) -> str:
    async def cancel(store: Any) -> list[str]:
        await store.append("s", *_batch("m", 0, 1))
        task = asyncio.create_task(store.append("s", *_batch("m", 1, 2)))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        found: list[str] = await store.read("s")
        return found

    with closing(make(driver, folder)) as store:
        found = asyncio.run(cancel(store))
    _expect(found, ["m 0.0", "m 1.0", "m 1.1"] if len(found) > 1 else ["m 0.0"])
    return "stored" if len(found) > 1 else "not stored"


def _stopped_clock(driver: str, folder: Path) -> None:
    worker = _worker(driver, folder, "m", 12, stopped=True)
    worker.communicate(timeout=60)
    with closing(make(driver, folder)) as store:
        _expect(asyncio.run(store.read("s")), [f"m {n}.{k}" for n in range(12) for k in range(2)])


def _deletion(driver: str, folder: Path) -> None:
    with closing(make(driver, folder)) as store:
        for number in range(20):
            asyncio.run(store.append("s", *_batch("needle", number, 2)))
        asyncio.run(store.delete("s"))
        _expect(asyncio.run(store.read("s")), [])
        left = [one.name for one in folder.iterdir() if b"needle" in one.read_bytes()]
    if left:
        raise AssertionError(f"words of a deleted session are in {', '.join(left)}")


def _growth(driver: str, folder: Path) -> str:
    sizes, done = [], 0
    for count in (100, 200, 400):
        with closing(make(driver, folder)) as store:
            while done < count:
                texts, ids = _batch("x" * 400, done, 1)
                asyncio.run(store.append("s", texts, ids))
                done += 1
        sizes.append(sum(one.stat().st_size for one in folder.iterdir() if not one.name.endswith("-reserve")))
    first, then = (sizes[1] - sizes[0]) / 100, (sizes[2] - sizes[1]) / 200
    if then > 1.4 * first:
        raise AssertionError(f"a message of 400 bytes takes {first:,.0f} bytes at 200, {then:,.0f} at 400")
    return f"{then:,.0f} bytes for a message of 400"


CHECKS: dict[str, Callable[[str, Path], str | None]] = {
    "order": _order,
    "same batch twice": _same_batch_twice,
    "kill -9": _killed,
    "two processes": _two_processes,
    "cancelled task": _cancelled_task,
    "stopped clock": _stopped_clock,
    "deletion leaves nothing": _deletion,
    "bytes stay flat": _growth,
}


def _batch(name: str, number: int, size: int) -> tuple[list[str], list[str]]:
    """Texts, and ids that are the same whenever the batch is sent."""
    from uuid import NAMESPACE_URL, uuid5

    texts = [f"{name} {number}.{k}" for k in range(size)]
    return texts, [str(uuid5(NAMESPACE_URL, text)) for text in texts]


def _expect(found: list[str], wanted: list[str]) -> None:
    if found != wanted:
        raise AssertionError(f"{len(found)} messages instead of {len(wanted)}, or in another order")


def _worker(driver: str, folder: Path, name: str, count: int, *, stopped: bool = False) -> subprocess.Popen[bytes]:
    given = (driver, os.fspath(folder), name, count, stopped)
    source = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import work; work(*{given!r})"
    return subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, stderr=subprocess.PIPE)


async def _append_all(store: Any, name: str, count: int, acknowledge: Callable[[int], None]) -> None:
    for number in range(count):
        await store.append("s", *_batch(name, number, 2))
        acknowledge(number)


def work(driver: str, folder: str, name: str, count: int, stopped: bool) -> None:
    """Appends batches in a process of its own, and acknowledges each on stdout."""
    if stopped:
        time.time = lambda: 1_800_000_000.0
        time.time_ns = lambda: 1_800_000_000_000_000_000

    def acknowledge(number: int) -> None:
        os.write(1, f"{number}\n".encode())

    with closing(make(driver, Path(folder))) as store:
        asyncio.run(_append_all(store, name, count, acknowledge))
