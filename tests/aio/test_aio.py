"""The async face does what the sync face does, and commits for many tasks at once."""

from __future__ import annotations

import asyncio
import inspect
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
import trio

import clew
import clew.aio
from clew.aio import store as faces
from clew.backends.sqlite import SQLiteBackend
from clew.backends.sqlite.group_commit import Batches
from clew.backends.sqlite.writer import Writer
from clew.engine import audit, blobs, log
from clew.store import attachments, nodes, session, sessions, store
from clew.store.parts import Parts
from clew.upkeep import quarantine
from tests.reliability.tools import DEAR

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param


@pytest.mark.parametrize(
    ("sync", "awaited"),
    [(store.Store, faces.Store), (sessions.Sessions, faces.Sessions), (session.Session, faces.Session),
     (nodes.Nodes, faces.Nodes), (quarantine.Quarantine, faces.Quarantine), (attachments.StoreBlobs, faces.StoreBlobs),
     (attachments.StoreLog, faces.StoreLog), (blobs.Blobs, faces.Blobs), (log.Log, faces.Log),
     (audit.Audit, faces.Audit)],
)  # fmt: skip
def test_both_faces_have_the_same_names(sync, awaited):
    """Every public name of the sync class is there, with the same arguments and the same words about it."""
    for name, member in vars(sync).items():
        if name.startswith("_"):
            continue
        twin = inspect.getattr_static(awaited, name)
        if inspect.isfunction(member):
            assert list(inspect.signature(twin).parameters) == list(inspect.signature(member).parameters), name
            if name not in ("close", "transaction"):
                assert inspect.getdoc(twin) == inspect.getdoc(member), name
        else:
            assert isinstance(twin, property), name


def test_the_async_face_is_current():
    """The stubs are what the generator makes of the sync classes."""
    done = subprocess.run([sys.executable, "tools/aio.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


async def test_a_conversation(tmp_path):
    """Create, append, fork, rewind, find and list work as in the sync API."""
    async with clew.aio.open(tmp_path / "s.db") as opened:
        talk = await opened.sessions.create(title="Build", cwd="/src")
        first = await talk.append(clew.user("Why?"))
        await talk.append([clew.assistant("Lint."), clew.user("Fix it")])
        assert [node.text for node in await talk.path()] == ["Why?", "Lint.", "Fix it"]
        assert [node.text async for node in talk.iter()] == ["Why?", "Lint.", "Fix it"]
        fork = await talk.fork(at=first.id, title="Other")
        assert fork.title == "Other"
        left = await talk.rewind(to=first.id)
        assert left is not None
        assert [node.text async for node in talk.history()] == ["Why?"]
        assert (await talk.counters).messages == 1
        assert (await opened.sessions.get(await talk.handle)).id == talk.id
        assert [found.title for found in (await opened.sessions.list()).items] == ["Build", "Other"]
        assert (await opened.sessions.latest(cwd="/src")) == talk
        (hit,) = await opened.search("Lint")
        assert hit.node.text == "Lint."
        (hit,) = await opened.search("why")
        assert await hit.session == talk
        assert isinstance(await hit.session, clew.aio.Session)
        assert await opened.nodes.resolve(first.handle) == first.id
        media = await talk.attach(b"x" * 600_000, mime_type="image/png")
        assert media.blob is not None
        assert b"".join([piece async for piece in talk.blobs.open(media.blob)]) == b"x" * 600_000
        await opened.log.append(talk, [b"one", b"two"])
        assert await opened.log.count(talk.id) == 2
        assert await opened.blobs.get(first, media.blob or "") == b"x" * 600_000
        assert [entry.data async for entry in talk.log.read()] == [b"one", b"two"]
        assert (await opened.verify()).ok
        child = await opened.sessions.create(agent="helper", owner=talk)
        assert [sub.id for sub in await talk.subagents()] == [child.id]
        with pytest.raises(clew.NotFound):
            await opened.sessions.get("zzzzzz")


async def test_open_can_be_awaited(tmp_path):
    """A store can be opened without a block, and closed by hand, twice."""
    opened = await clew.aio.open(tmp_path / "s.db")
    talk = await opened.sessions.create()
    await opened.close()
    await opened.close()
    with pytest.raises(clew.Closed):
        await talk.append(clew.user("late"))
    with pytest.raises(clew.Closed):
        await talk.path()


async def test_many_tasks_share_commits(tmp_path, monkeypatch):
    """64 tasks need far fewer transactions than messages; each message is stored once, in its task's order."""
    batches: list[int] = []
    real = Batches.run

    def counted(self, calls):
        batches.append(len(calls))
        real(self, calls)

    monkeypatch.setattr(Batches, "run", counted)
    async with clew.aio.open(tmp_path / "s.db") as opened:
        talks = [await opened.sessions.create() for _ in range(64)]
        shared = await opened.sessions.create()

        async def talk_into(number: int) -> None:
            for n in range(5):
                await talks[number].append(clew.user(f"{n}"))
                await shared.append(clew.user(f"{number}:{n}"))

        async with anyio.create_task_group() as tasks:
            for number in range(64):
                tasks.start_soon(talk_into, number)
        for talk in talks:
            assert [node.text for node in await talk.path()] == ["0", "1", "2", "3", "4"]
        said = [node.text for node in await shared.path()]
        assert len(said) == 320
        for number in range(64):
            assert [text for text in said if text.startswith(f"{number}:")] == [f"{number}:{n}" for n in range(5)]
        assert sum(batches) == 640
        assert len(batches) < 320
        assert (await opened.verify()).ok


async def test_one_bad_append_leaves_its_neighbours_alone(tmp_path):
    """An append that fails inside a shared transaction fails alone."""
    async with clew.aio.open(tmp_path / "s.db") as opened:
        talk, gone = await opened.sessions.create(), await opened.sessions.create()
        await gone.purge()
        outcomes: list[str] = []

        async def append(target: clew.aio.Session, expect: object) -> None:
            try:
                await (
                    target.append(clew.user("x")) if expect is None else target.append(clew.user("x"), expect_head=None)
                )
                outcomes.append("stored")
            except clew.ClewError as error:
                outcomes.append(type(error).__name__)

        async with anyio.create_task_group() as tasks:
            for number in range(30):
                tasks.start_soon(append, (talk, gone, talk)[number % 3], (None, None, "empty")[number % 3])
        assert outcomes.count("NotFound") == 10
        assert outcomes.count("stored") == len(await talk.path())
        assert outcomes.count("stored") + outcomes.count("Conflict") == 20
        assert (await opened.verify()).ok


async def test_nobody_is_told_that_an_append_is_stored_that_was_never_made(tmp_path, monkeypatch):
    """After a failed commit, calls that were to share the next transaction get an error if it cannot begin."""

    def fails(self):
        raise sqlite3.OperationalError("disk I/O error")

    async with clew.aio.open(tmp_path / "s.db") as opened:
        talk = await opened.sessions.create()
        await talk.append(clew.user("first"))
        backend = Parts.of(opened._sync).engine.backend
        assert isinstance(backend, SQLiteBackend)
        backend.writer.suspect = True
        with monkeypatch.context() as patched:
            patched.setattr(Writer, "_reconnect", fails)
            with pytest.raises(clew.Unavailable):
                await talk.append(clew.user("second"))
        await talk.append(clew.user("third"))
        assert [node.text for node in await talk.path()] == ["first", "third"]


async def test_a_session_shows_no_message_that_was_not_stored(tmp_path, monkeypatch):
    """After a failed commit, the object has the last stored head, and the conversation continues from there."""

    def fails(self, tx):
        self.undo(tx)
        raise sqlite3.OperationalError("database or disk is full")

    async with clew.aio.open(tmp_path / "s.db") as opened:
        talk = await opened.sessions.create()
        first = await talk.append(clew.user("first"))
        with monkeypatch.context() as patched:
            patched.setattr(Writer, "commit", fails)
            with pytest.raises(clew.ClewError):
                await talk.append(clew.user("second"))
        assert talk.head_id == first.id
        third = await talk.append(clew.user("third"), expect_head=talk.head_id)
        assert talk.head_id == third.id


async def test_a_transaction_is_all_or_nothing(tmp_path):
    """Several steps of a task are one; an error undoes them, and others never see half."""
    async with clew.aio.open(tmp_path / "s.db") as opened:
        talk = await opened.sessions.create(title="before")
        async with opened.transaction():
            await talk.append(clew.user("one"))
            await talk.rename("after")
            assert len(await talk.path()) == 1
        shown = (talk.title, talk.head_id, talk.version)
        with pytest.raises(ZeroDivisionError):
            async with opened.transaction():
                await talk.append(clew.user("two"))
                await talk.rename("undone")
                raise ZeroDivisionError
        assert (talk.title, talk.head_id, talk.version) == shown
        assert [node.text for node in await talk.path()] == ["one"]
        assert (await opened.sessions.get(talk.id)).title == "after"


async def test_a_transaction_inside_another_is_undone_alone(tmp_path):
    """Tasks share a transaction; one begins another inside it, which fails: what the others did meanwhile is kept."""
    async with clew.aio.open(tmp_path / "s.db") as opened:
        failing, nesting, plain = [await opened.sessions.create() for _ in range(3)]
        inside = anyio.Event()

        async def fails() -> None:
            with pytest.raises(ZeroDivisionError):
                async with opened.transaction():
                    await failing.append(clew.user("undone"))
                    inside.set()
                    await anyio.sleep(0.05)
                    raise ZeroDivisionError

        async def nests() -> None:
            await inside.wait()
            async with opened.transaction():
                await nesting.append(clew.user("kept"))

        async def appends() -> None:
            await inside.wait()
            await plain.append(clew.user("kept"))

        async with opened.transaction(), anyio.create_task_group() as tasks:
            for one in (fails, nests, appends):
                tasks.start_soon(one)
        said = [[node.text for node in await talk.path()] for talk in (failing, nesting, plain)]
        assert said == [[], ["kept"], ["kept"]]


async def test_a_transaction_that_outlives_the_one_around_it_keeps_nothing(tmp_path):
    """A task that outlives its outer transaction gets an error, its work is rolled back, and others continue."""
    async with clew.aio.open(tmp_path / "s.db", timeout=5) as opened:
        talk = await opened.sessions.create()
        inside, left = anyio.Event(), anyio.Event()

        async def outlives() -> None:
            with pytest.raises(clew.Unavailable):
                async with opened.transaction():
                    await talk.append(clew.user("one"))
                    inside.set()
                    await left.wait()
                    await talk.append(clew.user("two"))

        async with anyio.create_task_group() as tasks:
            async with opened.transaction():
                tasks.start_soon(outlives)
                await inside.wait()
            left.set()
        with anyio.fail_after(10):
            await talk.append(clew.user("after"))
        assert [node.text for node in await talk.path()] == ["after"]


async def test_tasks_outside_a_transaction_wait_for_it(tmp_path):
    """Other tasks' appends come after an open transaction, and are not part of it."""
    async with clew.aio.open(tmp_path / "s.db") as opened:
        talk = await opened.sessions.create()
        inside = anyio.Event()

        async def other() -> None:
            await inside.wait()
            await talk.append(clew.user("other"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(other)
            with pytest.raises(ZeroDivisionError):
                async with opened.transaction():
                    await talk.append(clew.user("undone"))
                    inside.set()
                    await anyio.sleep(0.05)
                    raise ZeroDivisionError
        assert [node.text for node in await talk.path()] == ["other"]


async def test_cancelling_never_leaves_half(tmp_path):
    """Cancelled at any moment, an append of three messages is whole or not there, and asking again settles it."""
    async with clew.aio.open(tmp_path / "s.db") as opened:
        talk = await opened.sessions.create()
        for number in range(60):
            ids = [f"00000000-0000-4000-8000-{number:06d}{n:06d}" for n in range(3)]
            said = [clew.user(f"{number}.{n}") for n in range(3)]
            with anyio.move_on_after(number * 0.00005):
                await talk.append(said, id=ids)
            stored = [node.text for node in await talk.path() if node.text.startswith(f"{number}.")]
            assert stored in ([], [f"{number}.{n}" for n in range(3)])
            await talk.append(said, id=ids)
            stored = [node.text for node in await talk.path() if node.text.startswith(f"{number}.")]
            assert stored == [f"{number}.{n}" for n in range(3)]
        assert len(await talk.path()) == 180


async def test_a_cancelled_transaction_lets_go(tmp_path):
    """A task cancelled inside a transaction undoes it, and the store can be written again."""
    async with clew.aio.open(tmp_path / "s.db") as opened:
        talk = await opened.sessions.create()
        with anyio.move_on_after(0.02):
            async with opened.transaction():
                await talk.append(clew.user("undone"))
                await anyio.sleep(10)
        await talk.append(clew.user("kept"))
        assert [node.text for node in await talk.path()] == ["kept"]


@pytest.mark.parametrize("path", ["file", ":memory:"])
def test_a_transaction_that_asyncio_itself_cancels_lets_go(tmp_path: Path, path: str) -> None:
    """`task.cancel` interrupts every shield: at any time, nothing is partly stored and no task waits for ever."""

    async def talk() -> None:
        async with clew.aio.open(path if path == ":memory:" else tmp_path / "s.db", timeout=5) as store:
            session = await store.sessions.create()

            async def two() -> None:
                async with store.transaction():
                    await session.append(clew.user("a"))
                    await session.append(clew.user("b"))

            for moment in range(40):
                task = asyncio.create_task(two())
                for _ in range(moment):
                    await asyncio.sleep(0)
                if moment % 3 == 0:
                    await asyncio.sleep(moment * 5e-5)
                task.cancel()
                try:
                    await task
                except asyncio.CancelledError as error:
                    kept = error  # with all that its traceback holds
                async with asyncio.timeout(10):
                    await session.append(clew.user("c"))
            said = "".join([node.text for node in await session.path()])
            assert set(said.split("c")) <= {"", "ab"}
            assert kept

    asyncio.run(talk())


async def test_close_finishes_what_is_waiting(tmp_path):
    """Appends that were made before close are stored; those after are refused."""
    opened = await clew.aio.open(tmp_path / "s.db")
    talk = await opened.sessions.create()
    outcomes: list[str] = []

    async def append(number: int) -> None:
        try:
            await talk.append(clew.user(str(number)))
            outcomes.append("stored")
        except clew.Closed:
            outcomes.append("closed")

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(append, number)
        await anyio.sleep(0.002)
        await opened.close()
    with clew.open(tmp_path / "s.db") as again:
        assert len(again.sessions.get(talk.id).path()) == outcomes.count("stored")
    assert len(outcomes) == 20


HOLDER = """
import clew, sys
with clew.open(sys.argv[1]) as s, s.transaction():
    print("held", flush=True)
    sys.stdin.readline()
"""


async def test_the_loop_is_not_stalled(tmp_path):
    """The event loop keeps turning while a writer of another process has the store."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "s.db")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    hold = holder.stdin
    assert hold is not None
    assert holder.stdout is not None
    async with clew.aio.open(tmp_path / "s.db") as opened:
        await anyio.to_thread.run_sync(holder.stdout.readline)
        turns = 0

        async def turn() -> None:
            nonlocal turns
            while True:
                await anyio.sleep(0.01)
                turns += 1
                if turns == 10:  # only now does the holder let go
                    hold.close()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(turn)
            talk = await opened.sessions.create()
            await talk.append(clew.user("after"))
            assert turns >= 10
            tasks.cancel_scope.cancel()
    holder.wait()
    holder.stdout.close()


async def test_quarantine(tmp_path):
    """Damaged messages are quarantined, listed and purged through the async API, and callbacks are called."""
    path, heard = tmp_path / "s.db", list[Any]()
    async with clew.aio.open(path) as opened:
        node = await (await opened.sessions.create()).append(clew.user("a"))
    conn = sqlite3.connect(path)
    conn.execute(f"UPDATE nodes SET {DEAR}")
    conn.commit()
    conn.close()
    async with clew.aio.open(path) as opened:
        await opened.quarantine.on_event(heard.append)
        assert (await opened.quarantine.sweep(force=True)).moved == (node.id,)
        assert [one.node for one in await opened.quarantine.list()] == [node.id]
        with pytest.raises(clew.Corrupted):
            await opened.quarantine.restore(node.id)
        assert (await opened.quarantine.purge(everything=True)).messages == 1
    assert [event.kind for event in heard] == ["quarantined", "purged"]


def test_trio_as_a_guest_of_asyncio(tmp_path: Path) -> None:
    """If trio runs as a guest of asyncio, a trio task waits with trio."""

    async def talk() -> list[str]:
        async with clew.aio.open(tmp_path / "s.db") as store:
            session = await store.sessions.create()
            async with anyio.create_task_group() as tasks:
                for number in range(3):
                    tasks.start_soon(session.append, clew.user(str(number)))
            return sorted([node.text for node in await session.path()])

    async def host() -> list[str]:
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        trio.lowlevel.start_guest_run(
            talk, run_sync_soon_threadsafe=loop.call_soon_threadsafe, done_callback=done.set_result
        )
        return (await done).unwrap()  # type: ignore[no-any-return]

    assert asyncio.run(host()) == ["0", "1", "2"]
