"""The async face of agent sessions does what the sync face does."""

from __future__ import annotations

import inspect
from pathlib import Path

import anyio
import pytest

import clew
import clew.aio
import clew.aio.agents
from clew.agents import memory, store, transcript
from tests.agents.conftest import lines, sdk, texts

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param


@pytest.mark.parametrize(
    ("sync", "awaited"),
    [(store.SessionStore, clew.aio.agents.SessionStore), (store.Session, clew.aio.agents.Session),
     (transcript.Transcript, clew.aio.agents.Transcript), (memory.Memory, clew.aio.agents.Memory)],
)  # fmt: skip
def test_both_faces_have_the_same_names(sync, awaited):
    """Every public name of the sync class is there, with the same arguments and the same words about it."""
    for name, member in vars(sync).items():
        if name.startswith("_"):
            continue
        twin = inspect.getattr_static(awaited, name)
        if inspect.isfunction(member):
            assert list(inspect.signature(twin).parameters) == list(inspect.signature(member).parameters), name
            assert inspect.getdoc(twin) == inspect.getdoc(member), name
        else:
            assert isinstance(twin, property), name


async def test_a_run_of_an_agent(tmp_path):
    """Create, append, resume, fork, transcript, memory, mirror and import work as in the sync API."""
    name = "00000000-0000-0000-0000-000000000005"
    async with clew.aio.agents.open(tmp_path / "s.db", mirror=tmp_path / "m") as sessions:
        talk = await sessions.create(cwd="/src", model="m")
        await talk.append_and_save(sdk("user", "one", name))
        await talk.append_event({"type": "x"})
        talk.metadata.exit_reason = "done"
        await talk.add(clew.assistant("two"))
        await talk.save()
        assert texts(await talk.messages) == ["one", "two"]
        assert texts(await (await sessions.resume(talk.id, at=name)).last(5)) == ["one"]
        assert [event.type async for event in talk.transcript.read()] == ["x"]
        child = await sessions.create(agent_name="helper", parent=talk)
        await child.append_event({"type": "y"})
        assert [event.type async for event in talk.transcript.replay()] == ["x", "y"]
        assert [one.session_id for one in await (await sessions.transcript(talk)).subagents()] == [child.id]
        fork = await sessions.start({"resume": talk.id, "forkSession": True})
        assert (await sessions.load_latest("/src")).id == fork.id
        assert {one.id for one in await sessions.list()} == {talk.id, fork.id}
        assert await talk.conversation.owner_id is None
        assert await child.conversation.owner_id == talk.id
        await (await sessions.memory("/src")).write("remember")
        path = await sessions.transcript_path(talk)
        assert path is not None
        assert [line["type"] for line in lines(Path(path))] == ["x"]
        gone = await sessions.start({"persistSession": False})
        await gone.append_and_save(clew.user("not kept"))
        with pytest.raises(clew.NotFound):
            await sessions.load(gone.id)
        await sessions.delete(fork.id)
        assert (await sessions.rebuild_mirror()).sessions == 2
    async with clew.aio.open(tmp_path / "t.db") as opened:
        over = await clew.aio.agents.over(opened)
        done = await clew.aio.agents.import_tree(over, tmp_path / "m")
        assert len(done.sessions) == 2
        await over.close()
        assert (await opened.sessions.get(talk.id)).id == talk.id


async def test_tasks_share_a_session(tmp_path):
    """Many tasks append to one session and its transcript; a closed store says so."""
    sessions = await clew.aio.agents.open(tmp_path / "s.db")
    talk = await sessions.create()

    async def work(name: str) -> None:
        for number in range(5):
            await sessions.append_message(talk.id, clew.user(f"{name}{number}"))
            await sessions.append_event(talk, {"type": "x"})

    async with anyio.create_task_group() as tasks:
        for name in "abcdefgh":
            tasks.start_soon(work, name)
    said = texts(await sessions.load_messages(talk))
    assert [text for text in said if text[0] == "c"] == [f"c{number}" for number in range(5)]
    assert await talk.transcript.count() == len(said) == 40
    await sessions.close()
    await sessions.close()
    with pytest.raises(clew.Closed):
        await talk.append_and_save(clew.user("late"))
