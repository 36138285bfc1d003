"""Watching a session: what others write, who waits for it, and what is left when nobody does."""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

import clew
import clew.aio
from clew.backends import Tx
from clew.backends.sqlite.tx import SQLiteTx
from clew.engine.node import node_row
from clew.engine.watch import state_of
from clew.store.parts import Parts
from clew.store.session import row_of

COUNT = 60

WRITER = """
import sys
import clew
with clew.open(sys.argv[1]) as store:
    session = store.sessions.get(sys.argv[2])
    for number in range(int(sys.argv[3])):
        session.append(clew.user(f"{sys.argv[4]} {number}"))
"""


@contextmanager
def writers(place: str, session: str, *names: str, count: int = COUNT) -> Iterator[None]:
    """Other processes append to a session meanwhile."""
    crew = [
        subprocess.Popen([sys.executable, "-c", WRITER, place, session, str(count), name], stderr=subprocess.PIPE)
        for name in names
    ]
    try:
        yield
    finally:
        for process in crew:
            _, said = process.communicate(timeout=60)
            assert process.returncode == 0, said.decode()


def elsewhere(path: Path, session: str) -> None:
    """Another process appends three messages."""
    code = WRITER.replace('f"{sys.argv[4]} {number}"', "str(number)")
    subprocess.run([sys.executable, "-c", code, str(path), session, "3"], check=True)


def nobody_watches(seconds: float = 5.0) -> bool:
    """True once no thread is there for watchers."""
    until = time.monotonic() + seconds
    while any(thread.name == "clew-watch" for thread in threading.enumerate()):
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def test_other_processes(path: Path) -> None:
    """What two other processes append is given whole, in the order of the session, each message once."""
    with clew.open(path) as store:
        session = store.sessions.create()
        with session.watch(timeout=30) as watch, writers(str(path), session.id, "a", "b"):
            heard = [next(watch) for _ in range(2 * COUNT)]
        assert heard == session.path()
        assert sorted(node.text for node in heard) == sorted(f"{who} {n}" for who in "ab" for n in range(COUNT))


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.anyio
async def test_tasks_watch(path: Path, anyio_backend: str) -> None:
    """A hundred tasks watch ten sessions on one thread, while another process and a task append."""
    heard: dict[int, list[str]] = {}
    async with clew.aio.open(path) as store:
        sessions = [await store.sessions.create() for _ in range(10)]
        begun = anyio.Semaphore(0)

        async def listen(number: int) -> None:
            async with sessions[number % 10].watch(timeout=30) as watch:
                begun.release()
                heard[number] = [(await anext(watch)).text for _ in range(3)]

        async with anyio.create_task_group() as tasks:
            for number in range(100):
                tasks.start_soon(listen, number)
            for _ in range(100):
                await begun.acquire()
            await anyio.to_thread.run_sync(elsewhere, path, sessions[0].id)
            for session in sessions[1:]:
                for number in range(3):
                    await session.append(clew.user(str(number)))
            await anyio.sleep(0)
            assert sum(thread.name == "clew-watch" for thread in threading.enumerate()) <= 1
        assert heard == {number: ["0", "1", "2"] for number in range(100)}
    assert nobody_watches(0)


@pytest.mark.anyio
async def test_cancelled(path: Path, anyio_backend: str) -> None:
    """A cancelled wait leaves no thread, and loses nothing: asked again, the watch goes on where it was."""
    async with clew.aio.open(path) as store:
        session = await store.sessions.create()
        async with session.watch() as watch:
            for number in range(5):
                with anyio.move_on_after(0.05) as scope:
                    await anext(watch)
                assert scope.cancelled_caught
                assert nobody_watches()
                await session.append(clew.user(str(number)))
                assert (await anext(watch)).text == str(number)
        for number in range(40):  # at any moment
            watch = session.watch(after=None)
            with anyio.move_on_after(number * 0.0002):
                while True:
                    await anext(watch)
            rest = [node.text async for node in session.watch(after=None, timeout=0)]
            assert rest == ["0", "1", "2", "3", "4"]
        assert nobody_watches()


@pytest.mark.anyio
async def test_tasks_end(path: Path, anyio_backend: str) -> None:
    """Left by a break, ended by its timeout, or by another task: it is over, and nothing stays."""
    async with clew.aio.open(path) as store:
        session = await store.sessions.create()
        await session.append([clew.user("a"), clew.user("b")])
        async for node in session.watch(after=None):
            if node.text == "b":
                break
        gc.collect()
        assert nobody_watches()
        assert [node.text async for node in session.watch(after=None, timeout=0.05)] == ["a", "b"]
        watch = session.watch()

        async def end() -> None:
            await anyio.sleep(0.05)
            await watch.aclose()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(end)
            assert [node async for node in watch] == []
        with pytest.raises(clew.Invalid):
            async with store.transaction():
                await anext(session.watch())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(store.close)
            with pytest.raises(clew.Closed):
                await anext(session.watch())
    assert nobody_watches(0)


def test_forgotten(path: Path) -> None:
    """A watch that is dropped without a word is told nothing more, and its thread ends."""
    with clew.open(path) as store:
        session = store.sessions.create()
        session.append(clew.user("a"))
        for _ in session.watch(after=None):
            break
        assert nobody_watches()


def test_a_failed_look(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the thread cannot read, who watches is sent to see for himself, and misses nothing."""
    real = SQLiteTx.versions

    def fails(self: SQLiteTx, refs: object) -> dict[int, int]:
        raise OverflowError

    with clew.open(path) as store:
        session = store.sessions.create()
        with session.watch(timeout=20) as watch:
            monkeypatch.setattr(SQLiteTx, "versions", fails)
            talk = threading.Timer(0.3, lambda: session.append(clew.user("a")))
            talk.start()
            assert next(watch).text == "a"
            monkeypatch.setattr(SQLiteTx, "versions", real)
            session.append(clew.user("b"))
            assert next(watch).text == "b"
            talk.join()


def test_a_watch_holds_nothing_up(path: Path) -> None:
    """While a session is watched the log can be emptied, so that a purge is done at once; and close leaves no log."""
    with clew.open(path) as store:
        session, other = store.sessions.create(), store.sessions.create()
        other.append(clew.user("to be purged"))
        with session.watch(timeout=20) as watch:
            talk = threading.Timer(0.2, lambda: session.append(clew.user("a")))
            talk.start()
            assert next(watch).text == "a"
            talk.join()
            assert store.sessions.purge(other.id).pending == ()
            state_of(watch).subscribe(lambda: None)
    assert not Path(f"{path}-wal").exists()


def test_in_a_child(path: Path) -> None:
    """A process made by fork cannot watch with its parent's store, and the parent goes on."""
    with clew.open(path) as store:
        session = store.sessions.create()
        with session.watch(timeout=20) as watch:
            state_of(watch).subscribe(lambda: None)
            child = os.fork()
            if not child:
                try:
                    next(session.watch())
                except clew.Closed:
                    os._exit(0)
                os._exit(1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            session.append(clew.user("a"))
            assert next(watch).text == "a"


def test_commits_are_not_slowed_down(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much is written, the thread looks a few hundred times a second at most."""
    looks: list[float] = []
    real = SQLiteTx.versions

    def counted(self: SQLiteTx, refs: object) -> dict[int, int]:
        looks.append(time.monotonic())
        return real(self, refs)  # type: ignore[arg-type]

    monkeypatch.setattr(SQLiteTx, "versions", counted)
    with clew.open(path, durability="relaxed") as store:
        session, watched = store.sessions.create(), store.sessions.create()
        with watched.watch() as watch:
            state_of(watch).subscribe(lambda: None)
            began = time.monotonic()
            while time.monotonic() - began < 0.5:
                session.append(clew.user("x"))
    assert 2 < len(looks) <= 0.5 / 0.005 + 20


@pytest.mark.parametrize("seed", range(12))
def test_whatever_is_done(path: Path, seed: int) -> None:
    """Whatever is appended, rewound and compacted between two looks: nothing is given twice, and nothing that stays
    is missed.
    """
    dice = random.Random(seed)
    with clew.open(path, durability="relaxed") as store:
        session = store.sessions.create()
        session.append([clew.user(f"{number}") for number in range(dice.randrange(3))])
        before = [node.id for node in session.path()]
        given: list[str] = []
        with session.watch(timeout=0) as watch:
            for step in range(60):
                said = session.path()
                match dice.randrange(6):
                    case 0 if said:
                        session.rewind(dice.choice([None, *(node.id for node in said)]))
                    case 1 if said:
                        session.compact([clew.user(f"so far {step}")])
                    case 2:
                        given += [node.id for node in state_of(watch).trail.poll()]
                    case _:
                        session.append([clew.user(f"{step}") for _ in range(dice.randrange(1, 4))])
            given += [node.id for node in watch]
        assert len(given) == len(set(given))
        assert not set(given) & set(before)
        assert {node.id for node in session.history()} <= {*before, *given}


def test_undo_gives_nothing_again(path: Path) -> None:
    """When the head comes back to where it was, what was given there is not given again."""
    with clew.open(path) as store:
        session = store.sessions.create()
        first, second = session.append([clew.user("a"), clew.user("b")])
        with session.watch(after=None, timeout=20) as watch:
            assert [next(watch).text, next(watch).text] == ["a", "b"]
            session.rewind(first.id)
            assert state_of(watch).trail.poll() == []
            session.append(clew.user("other"))
            assert next(watch).text == "other"
            place = store.nodes.path(second.id)[-1]
            engine, refs = Parts.of(session).engine, Parts.of(session).refs

            def back(tx: Tx) -> None:
                tip = refs.head_state(tx, session._row)
                refs.move(tx, row_of(session), tip, node_row(place)[0], node_row(place)[2])

            engine.write(back)
            assert state_of(watch).trail.poll() == []
            session.append(clew.user("c"))
            assert next(watch).text == "c"
