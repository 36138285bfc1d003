"""Checks for any store of agent sessions, of clew or not: does it lose, repeat, reorder or leave anything?

A store is tested through a `Driver`, a class that a process can make by its name, ``package.module:Class``::

    outcomes = check("my_tests.drivers:MyStore", folder)
    assert all(outcome.passed for outcome in outcomes)

Processes are killed with SIGKILL, and files are read as bytes: each check needs a folder on a disk. A store on a server
is tested with a `Server`, which gives each check an empty database.
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
from uuid import NAMESPACE_URL, uuid5


class Driver(Protocol):
    """A store of sessions, made with the path of a file or the URL of a database. Texts stand for messages.

    A driver may also have ``appends = False``: a write replaces the whole state of a session, so that two processes
    that write to one session overwrite each other by design. They are then checked with a session each. With
    ``batches = False`` its protocol adds one message at a time, so that half of two may be there.
    """

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


class Server(NamedTuple):
    """A database server."""

    url: Callable[[], str]
    """Makes a new, empty database and returns its URL."""
    size: Callable[[str], int]
    """The bytes of the database at a URL on disk."""


class Outcome(NamedTuple):
    """The result of one check."""

    name: str
    passed: bool
    why: str = ""
    """What was wrong, or why the check does not apply."""


class Target(NamedTuple):
    """Where the store of a check is: a file in a folder of its own, or a database."""

    driver: str
    folder: Path
    path: str
    server: Server | None

    def make(self) -> Any:
        """A driver on this store."""
        module, _, name = self.driver.partition(":")
        return getattr(import_module(module), name)(self.path)

    def fresh(self, name: str) -> Target:
        """Another, empty store."""
        folder = self.folder / name
        folder.mkdir()
        return new_target(self.driver, folder, self.server)

    def size(self) -> int:
        """Bytes on disk."""
        if self.server is not None:
            return self.server.size(self.path)
        return sum(one.stat().st_size for one in self.files() if not one.name.endswith("-reserve"))

    def files(self) -> list[Path]:
        """The files of a store in a folder."""
        return sorted(one for one in self.folder.rglob("*") if one.is_file())


def new_target(driver: str, folder: Path, server: Server | None = None) -> Target:
    """A new store in a folder, or on a server."""
    return Target(driver, folder, os.fspath(folder / "sessions.db") if server is None else server.url(), server)


def check(
    driver: str, folder: Path, *, server: Server | None = None, only: Sequence[str] | None = None
) -> list[Outcome]:
    """Runs every check, or those named in `only`, each with a new store."""
    outcomes = []
    for name, run in CHECKS.items():
        if only is not None and name not in only:
            continue
        place = folder / name.replace(" ", "-").replace("-9", "")
        place.mkdir()
        try:
            outcomes.append(Outcome(name, True, run(new_target(driver, place, server)) or ""))
        except Exception as error:  # noqa: BLE001  any error of a foreign store is an outcome
            outcomes.append(Outcome(name, False, f"{type(error).__name__}: {error}"[:200]))
    return outcomes


def _order(target: Target) -> None:
    with closing(target.make()) as store:
        for number in range(10):
            asyncio.run(store.append("s", *_batch("m", number, 3)))
    with closing(target.make()) as store:
        _expect(asyncio.run(store.read("s")), [f"m {n}.{k}" for n in range(10) for k in range(3)])


def _same_batch_twice(target: Target) -> str | None:
    with closing(target.make()) as store:
        if not store.deduplicates:
            return "its protocol has no ids"
        for number in (0, 0, 1, 0, 1):
            asyncio.run(store.append("s", *_batch("m", number, 2)))
        _expect(asyncio.run(store.read("s")), ["m 0.0", "m 0.1", "m 1.0", "m 1.1"])
    return None


def _killed(target: Target) -> None:
    """Kills a process at any moment: acknowledged batches are stored, and none is stored in part."""
    for lines in (1, 4, 9):
        place = target.fresh(str(lines))
        with _worker(place, "k", 100_000) as worker:
            assert worker.stdout is not None
            done = [worker.stdout.readline() for _ in range(lines)]
            worker.send_signal(signal.SIGKILL)
            done += worker.stdout.readlines()
        acknowledged = len([line for line in done if line.endswith(b"\n") and line.strip()])
        with closing(place.make()) as store:
            found = asyncio.run(store.read("s"))
            half = len(found) % 2 if getattr(store, "batches", True) else 0
        _expect(found, [f"k {n // 2}.{n % 2}" for n in range(len(found) - half)])
        if acknowledged < lines or len(found) < 2 * acknowledged:
            raise AssertionError(f"{acknowledged} batches were acknowledged, {len(found) // 2} are there")


def _lost_answer(target: Target) -> str | None:
    """Kills a process after a write and before its answer: the batch is stored, and only once if sent again."""
    worker = _worker(target, "k", 3, dies=True)
    worker.communicate(timeout=120)
    wanted = [f"k {n}.{k}" for n in range(3) for k in range(2)]
    with closing(target.make()) as store:
        _expect(asyncio.run(store.read("s")), wanted)
        if not store.deduplicates:
            return "its protocol has no ids: sent again, the batch would be there twice"
        asyncio.run(store.append("s", *_batch("k", 2, 2)))
        _expect(asyncio.run(store.read("s")), wanted)
    return None


def _two_processes(target: Target) -> None:
    with closing(target.make()) as store:
        shared = getattr(store, "appends", True)
    sessions = {name: "s" if shared else f"s-{name}" for name in ("a", "b")}
    workers = [_worker(target, name, 25, session=session) for name, session in sessions.items()]
    for worker in workers:
        _, errors = worker.communicate(timeout=120)
        if worker.returncode:
            raise AssertionError(errors.decode(errors="replace").strip().splitlines()[-1])
    with closing(target.make()) as store:
        for name, session in sessions.items():
            mine = [one for one in asyncio.run(store.read(session)) if one.startswith(name)]
            _expect(mine, [f"{name} {n}.{k}" for n in range(25) for k in range(2)])


def _cancelled_task(target: Target) -> str:
    async def cancel(store: Any) -> list[str]:
        await store.append("s", *_batch("m", 0, 1))
        task = asyncio.create_task(store.append("s", *_batch("m", 1, 2 if batches else 1)))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        found: list[str] = await store.read("s")
        return found

    with closing(target.make()) as store:
        batches = getattr(store, "batches", True)
        found = asyncio.run(cancel(store))
    with closing(target.make()) as store:  # a write that continued after the cancellation has ended by now
        _expect(asyncio.run(store.read("s")), found)
    _expect(found, ["m 0.0", "m 1.0", "m 1.1"][: 3 if batches else 2] if len(found) > 1 else ["m 0.0"])
    return "stored" if len(found) > 1 else "not stored"


def _stopped_clock(target: Target) -> None:
    worker = _worker(target, "m", 12, stopped=True)
    _, errors = worker.communicate(timeout=60)
    if worker.returncode:
        raise AssertionError(errors.decode(errors="replace").strip().splitlines()[-1])
    with closing(target.make()) as store:
        _expect(asyncio.run(store.read("s")), [f"m {n}.{k}" for n in range(12) for k in range(2)])


def _deletion(target: Target) -> str | None:
    with closing(target.make()) as store:
        for number in range(20):
            asyncio.run(store.append("s", *_batch("needle", number, 2)))
        asyncio.run(store.append("other", *_batch("other", 0, 2)))
        asyncio.run(store.delete("s"))
        _expect(asyncio.run(store.read("s")), [])
        _expect(asyncio.run(store.read("other")), ["other 0.0", "other 0.1"])
        if target.server is not None:
            return "the files of a server are not read"
        left = [one.name for one in target.files() if b"needle" in one.read_bytes()]
    if left:
        raise AssertionError(f"words of a deleted session are in {', '.join(left)}")
    return None


def _growth(target: Target) -> str:
    sizes, done = [], 0
    for count in (100, 200, 400):
        with closing(target.make()) as store:
            while done < count:
                texts, ids = _batch("x" * 400, done, 1)
                asyncio.run(store.append("s", texts, ids))
                done += 1
        sizes.append(target.size())
    first, then = (sizes[1] - sizes[0]) / 100, (sizes[2] - sizes[1]) / 200
    if then > 1.4 * first:
        raise AssertionError(f"a message of 400 bytes takes {first:,.0f} bytes at 200, {then:,.0f} at 400")
    return f"{then:,.0f} bytes for a message of 400"


CHECKS: dict[str, Callable[[Target], str | None]] = {
    "order": _order,
    "same batch twice": _same_batch_twice,
    "kill -9": _killed,
    "lost answer": _lost_answer,
    "two processes": _two_processes,
    "cancelled task": _cancelled_task,
    "stopped clock": _stopped_clock,
    "deletion leaves nothing": _deletion,
    "bytes stay flat": _growth,
}


def _batch(name: str, number: int, size: int) -> tuple[list[str], list[str]]:
    """Texts, and ids that are the same whenever the batch is sent."""
    texts = [f"{name} {number}.{k}" for k in range(size)]
    return texts, [str(uuid5(NAMESPACE_URL, text)) for text in texts]


def _expect(found: list[str], wanted: list[str]) -> None:
    if found != wanted:
        raise AssertionError(f"{len(found)} messages instead of {len(wanted)}, or in another order")


def _worker(
    target: Target, name: str, count: int, *, session: str = "s", stopped: bool = False, dies: bool = False
) -> subprocess.Popen[bytes]:
    given = (target.driver, target.path, session, name, count, stopped, dies)
    source = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import work; work(*{given!r})"
    return subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def work(driver: str, path: str, session: str, name: str, count: int, stopped: bool, dies: bool) -> None:
    """Appends batches in a process of its own, and acknowledges each on stdout.

    With `stopped` the clock stands still. With `dies` the process is killed instead of the last acknowledgement.
    """
    if stopped:
        time.time = lambda: 1_800_000_000.0
        time.time_ns = lambda: 1_800_000_000_000_000_000

    async def append_all(store: Any) -> None:
        for number in range(count):
            await store.append(session, *_batch(name, number, 2))
            if dies and number == count - 1:
                os.kill(os.getpid(), signal.SIGKILL)
            os.write(1, f"{number}\n".encode())

    with closing(Target(driver, Path(), path, None).make()) as store:
        asyncio.run(append_all(store))
