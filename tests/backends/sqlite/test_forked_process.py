"""Stores in forked processes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

import clew
import clew.aio
from clew.store.store import Store

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning"),
]


def in_child(work: Callable[[], None]) -> None:
    """Runs `work` in a forked process, and fails if it fails."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_a_store_says_that_it_is_the_parents(store: Store, sound: Callable[[Store], None]) -> None:
    """In the child every use raises Closed, except closing; the parent can continue."""
    session = store.sessions.create()
    node = session.append(clew.user("before"))

    def work() -> None:
        uses: list[Callable[[], object]] = [
            lambda: session.append(clew.user("child")), session.path, store.sessions.list,
            lambda: store.nodes.get(node.id),
            lambda: store.nodes.save(clew.user("child")), session.purge, store.verify, lambda: store.search("before"),
            lambda: store.transaction().__enter__(), lambda: store.backup(f"{store.path}.copy"), lambda: node.handle,
        ]  # fmt: skip
        for use in uses:
            with pytest.raises(clew.Closed) as caught:
                use()
            assert caught.value.hint
        assert node.text == "before"
        store.close()
        store.close()

    in_child(work)
    session.append(clew.user("after"))
    assert [one.text for one in session.path()] == ["before", "after"]
    sound(store)


def test_a_child_may_open_its_own(store: Store, path: Path, sound: Callable[[Store], None]) -> None:
    """A child that opens the store again can write while its parent writes; neither loses anything."""
    session = store.sessions.create()
    session.append(clew.user("before"))

    def work() -> None:
        with clew.open(path) as mine:
            again = mine.sessions.get(session.id)
            for number in range(20):
                again.append(clew.user(f"child {number}"))

    in_child(work)
    session.append(clew.user("after"))
    assert [node.text for node in session.path()] == ["before", *[f"child {n}" for n in range(20)], "after"]
    sound(store)


def test_forking_inside_a_transaction(store: Store) -> None:
    """A child that is forked during a transaction of the parent neither joins nor ends it."""
    session = store.sessions.create()
    with store.transaction():
        session.append(clew.user("in"))

        def work() -> None:
            with pytest.raises(clew.Closed):
                session.append(clew.user("child"))

        in_child(work)
        session.append(clew.user("still in"))
    assert [node.text for node in session.path()] == ["in", "still in"]


def test_a_store_in_memory_is_the_parents_too() -> None:
    """A store in memory is not silently two stores after a fork."""
    with clew.open(":memory:") as store:
        session = store.sessions.create()

        def work() -> None:
            with pytest.raises(clew.Closed):
                session.append(clew.user("child"))

        in_child(work)
        session.append(clew.user("parent"))
        assert len(session.path()) == 1


def test_a_task_of_a_child_is_told_too(path: Path) -> None:
    """An async call in the child raises Closed; it does not wait forever for the parent's thread."""

    async def talk() -> tuple[clew.aio.Store, clew.aio.Session]:
        store = await clew.aio.open(path)
        session = await store.sessions.create()
        await session.append(clew.user("before"))
        return store, session

    with asyncio.Runner() as runner:
        store, session = runner.run(talk())

        async def uses() -> None:
            async with asyncio.timeout(10):
                with pytest.raises(clew.Closed):
                    await session.append(clew.user("child"))
                with pytest.raises(clew.Closed):
                    await session.path()
                with pytest.raises(clew.Closed):
                    async with store.transaction():
                        pass
                await store.close()

        in_child(lambda: asyncio.new_event_loop().run_until_complete(uses()))
        runner.run(session.append(clew.user("after")))
        runner.run(store.close())
    with clew.open(path) as again:
        assert [node.text for node in again.sessions.latest().path()] == ["before", "after"]


FORKED = """
import os, subprocess, sys
import clew

path, when = sys.argv[1:]
store = clew.open(path)
session = store.sessions.create(title="of the parent")
session.append(clew.user("before"))
wait, go = os.pipe()
child = os.fork()
if child == 0:
    if when == "late":
        os.read(wait, 1)
    if when != "never":
        own = clew.open(path)
        mine = own.sessions.get(session.id)
        mine.append(clew.user("of the child"))
    if when == "early":
        os.write(go, b"opened")
        while os.path.exists(path + "-closed") is False:
            pass
        mine.append(clew.user("and on"))
    if when == "never":
        os.read(wait, 1)
    sys.exit(0)
if when == "early":
    os.read(wait, 6)
store.close()
open(path + "-closed", "w").close()
if when == "never":
    killed = "import clew, os; clew.open({!r}).sessions.latest().append(clew.user('killed')); os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", killed.format(path)])
os.write(go, b"x")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize(
    ("when", "said"),
    [("never", ["killed"]), ("early", ["of the child", "and on"]), ("late", ["of the child"])],
    ids=["never opens it", "opens it before its parent closes it", "opens it after"],
)
def test_a_child_that_outlives_its_parents_store(path: Path, when: str, said: list[str]) -> None:
    """A child that exits, or writes with its own store, after its parent has closed loses no acknowledged message."""
    done = subprocess.run([sys.executable, "-c", FORKED, str(path), when], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    with clew.open(path) as store:
        assert [node.text for node in store.sessions.latest().path()] == ["before", *said]
        assert store.verify().ok


@pytest.mark.parametrize("ending", ["sys.exit(0)", "raise ValueError", "pass"])
@pytest.mark.parametrize("nested", ["nullcontext()", "store.transaction()"], ids=["", "nested"])
def test_a_child_that_leaves_its_parents_transaction(path: Path, ending: str, nested: str) -> None:
    """A child that is forked during a long transaction neither rolls it back nor commits it, however it exits."""
    program = f"""
import os, sys
from contextlib import nullcontext
import clew

with clew.open(sys.argv[1]) as store:
    session = store.sessions.create()
    with store.transaction(), {nested}:
        for number in range(200):  # more than SQLite keeps in memory
            session.append(clew.user(str(number) + 20_000 * "x"))
        child = os.fork()
        if child == 0:
            {ending}
        else:
            os.waitpid(child, 0)
            session.append(clew.user("last"))
"""
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    with clew.open(path) as store:
        assert len(store.sessions.latest().path()) == 201
        assert store.verify().ok
