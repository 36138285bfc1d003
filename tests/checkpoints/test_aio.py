"""The async face of checkpoints does what the sync face does, and leaves the event loop to others."""

from __future__ import annotations

import inspect

import anyio
import pytest

import clew
import clew.aio
import clew.aio.checkpoints
from clew import checkpoints as sync
from clew.aio.checkpoints import Checkpoints
from clew.errors import Invalid

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param


@pytest.fixture
async def awaited(tmp_path, work):
    """Checkpoints of a session in a store with the async face, and the session."""
    async with clew.aio.open(tmp_path / "awaited.db") as store:
        session = await store.sessions.create(cwd=work)
        yield Checkpoints(session, work), session


def test_both_faces_have_the_same_names():
    """Every public name of the sync class is there, with the same arguments."""
    names = [name for name in vars(sync.Checkpoints) if not name.startswith("_") or name == "__init__"]
    assert {name for name in vars(Checkpoints) if not name.startswith("_")} | {"__init__"} == {*names}
    for name in names:
        member, twin = inspect.getattr_static(sync.Checkpoints, name), inspect.getattr_static(Checkpoints, name)
        if inspect.isfunction(member):
            assert list(inspect.signature(twin).parameters) == list(inspect.signature(member).parameters), name


async def test_captured_rewound_and_undone(awaited, work):
    """Every call, awaited."""
    checkpoints, session = awaited
    (work / "a").write_text("one")
    message = await session.append(clew.user("change it"))
    kept = await checkpoints.capture(message, ["a"])
    assert kept == await checkpoints.show(message) == (await checkpoints.list())[0]
    (work / "a").write_text("two")
    await checkpoints.settle(message)
    assert await checkpoints.content(kept.states["a"]) == b"one"
    assert [one.path for one in await checkpoints.diff(message)] == ["a"]
    assert (await checkpoints.rewind(message, dry_run=True)).insertions == 1
    assert (await checkpoints.rewind(message, mode="both")).can_rewind
    assert (work / "a").read_text() == "one"
    assert (await checkpoints.undo()).can_rewind
    assert (work / "a").read_text() == "two"
    assert await checkpoints.finish() is None
    await checkpoints.capture_tree(message)
    await checkpoints.alias(message, "0198f000-0000-7000-8000-00000000000a")
    assert (await checkpoints.show("0198f000-0000-7000-8000-00000000000a")).message == message.id
    assert checkpoints.root == str(work)
    with pytest.raises(Invalid, match="async Session"):
        Checkpoints(session._sync, work)


async def test_blocks_and_functions_are_guarded(awaited, work):
    """Before a block and each call files are kept, after it how they were left; also if the task is cancelled."""
    checkpoints, session = awaited
    message = await session.append(clew.user("go"))

    @checkpoints.guard(lambda: message, lambda path, **_: [path])
    async def write(path, *, wait=0.0):
        (work / path).write_text(path)
        await anyio.sleep(wait)
        return path

    async with checkpoints.guard(message, ["block"]):
        (work / "block").write_text("block")
    assert await write("a") == "a"
    with anyio.move_on_after(0.3) as scope:
        await write("b", wait=60)
    assert scope.cancelled_caught
    async with anyio.create_task_group() as group:
        for number in range(5):
            group.start_soon(write, f"c{number}")
    files = (await checkpoints.show(message)).files
    assert {entry.path: entry.after.size for entry in files} == {
        "block": 5, "a": 1, "b": 1, **{f"c{number}": 2 for number in range(5)}
    }  # fmt: skip
    assert (await checkpoints.rewind(message)).can_rewind
    assert list(work.iterdir()) == []
    with pytest.raises(Invalid, match="async functions"):
        checkpoints.guard(message, ["a"])(lambda: None)
    with pytest.raises(Invalid):
        async with checkpoints.guard(message, ["../out"]):
            raise AssertionError


async def test_tasks_share_the_checkpoints(awaited, work):
    """Trees and files captured and settled by many tasks at once: nothing fails and nothing is lost."""
    checkpoints, session = awaited
    (work / "a").write_text("one")
    message = await session.append(clew.user("go"))

    async def one(number):
        await (checkpoints.capture_tree(message) if number % 2 else checkpoints.capture(message, [f"new-{number}"]))
        (work / f"new-{number}").write_text("new")
        await checkpoints.settle(message)

    async with anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(one, number)
    await checkpoints.rewind(message, force=True)
    assert [path.name for path in work.iterdir()] == ["a"]
