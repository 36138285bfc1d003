"""The async face of the record service does what the sync one does."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

import clew.aio
from clew.errors import Closed, install_hint
from clew.records import Policy, deferred, events
from clew.records import service as sync
from clew.records.aio import Pending, RecordService
from tests.crash import disk
from tests.records.talk import frame, given, snapshot, texts

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param


@pytest.mark.parametrize(("one", "other"), [(sync.RecordService, RecordService), (deferred.Pending, Pending)])
def test_both_faces_have_the_same_names(one, other) -> None:
    """Every public name is there, with the same arguments and defaults; what is called is awaited, or iterated so."""
    for name, member in vars(one).items():
        if name.startswith("_"):
            continue
        twin = inspect.getattr_static(other, name)
        if isinstance(member, property):
            assert isinstance(twin, property), name
            continue
        ours, theirs = inspect.signature(twin).parameters, inspect.signature(member).parameters
        assert [(p.name, p.kind, p.default) for p in ours.values()] == [
            (p.name, p.kind, p.default) for p in theirs.values()
        ], name
        if name not in ("sweeper", "open_attachment"):  # one is entered, the other iterated over
            assert inspect.iscoroutinefunction(twin), name
    extra = {name for name in vars(other) if not name.startswith("_")} - set(vars(one))
    assert extra <= {"operation", "conversation_id", "size"}


async def test_a_conversation(path: Path) -> None:
    """Everything there is, awaited."""
    heard: list[events.RecordEvent] = []
    async with clew.aio.open(path) as store:
        service = RecordService(store, policy=Policy(14))
        service.events.subscribe(heard.append, events.ConversationStored, events.ConversationDeleted)
        with pytest.raises(Closed):
            await service.get("talk")
        async with service:
            assert service.is_initialized
            assert (service.policy, service.pending) == (Policy(14), 0)
            record = await service.create(given("talk"))
            assert not isinstance(record, Pending)
            kept = await service.attach("talk", b"x" * 3_000_000, type="code")
            change = {"appendMessages": [frame(2, attachments=[kept])]}
            await service.update("talk", change, expected_version=record.storage.blob_version)
            assert b"".join([piece async for piece in service.open_attachment("talk", kept.uri)]) == b"x" * 3_000_000
            assert await service.commit_snapshot(snapshot("talk", frame(3, content="three"))) is None
            assert await service.recoverable() == ("talk",)
            found = await service.get_snapshot("talk")
            assert found is not None
            assert [one.content for one in found.pending_messages] == ["three"]
            await service.commit_conversation("talk")
            assert len(texts(await service.get("talk"))) == 3
            await service.set_privacy("talk", exportable=True)
            assert (await service.export("talk")).startswith(b'{"conversationId":"talk"')
            assert (await service.list()).total_count == 1
            assert (await service.sweep()).purged_count == 0
            assert (await service.set_policy(Policy(7))).purged_count == 0
            await service.create(given("other"))
            await service.delete("talk", "user-requested")
            assert (await service.purge_all("workspace-reset")).purged_count == 1
        assert not service.is_initialized
        await service.dispose()
    assert len(heard) == 7


async def test_many_tasks_update_one_record(path: Path) -> None:
    """Each message is there, in its task's order; the service takes a sync store as well."""
    with clew.open(path) as store:
        async with RecordService(store) as service:
            await service.create(given("talk", frame(1, content="first")))

            async def talk(name: int) -> None:
                for n in range(5):
                    await service.update("talk", {"appendMessages": [frame(n, content=f"{name}:{n}")]})

            async with anyio.create_task_group() as tasks:
                for name in range(10):
                    tasks.start_soon(talk, name)
            said = texts(await service.get("talk"))
            assert len(said) == 51
            for name in range(10):
                assert [one for one in said if one.startswith(f"{name}:")] == [f"{name}:{n}" for n in range(5)]


async def test_a_write_that_waits_for_space(tmp_path: Path) -> None:
    """A pending write can be awaited or cancelled, and is stored once there is space."""
    with disk.mounted(tmp_path / "disk", "8m") as small:
        async with clew.aio.open(small.folder / "s.db") as store:
            async with RecordService(store, retry_every=0.05) as service:
                await service.create(given("talk"))
                small.fill(leave=200_000)
                waiting = await service.update("talk", {"appendMessages": [frame(2, content="x" * 1_000_000)]})
                assert isinstance(waiting, Pending)
                assert (waiting.operation, waiting.conversation_id, waiting.done) == ("update", "talk", False)
                assert waiting.size > 1_000_000
                with anyio.move_on_after(0.05) as scope:
                    await waiting.result()
                assert scope.cancelled_caught
                small.free()
                record = await waiting.result(10)
                assert waiting.stored
                assert len(record.messages) == 2


async def test_those_who_wait_for_space_keep_nobody_from_making_it(tmp_path: Path) -> None:
    """A hundred tasks that wait leave threads for the call that frees what they wait for."""
    with disk.mounted(tmp_path / "disk", "8m") as small:
        async with clew.aio.open(small.folder / "s.db") as store:
            service = RecordService(store, retry_every=60)
            await service.initialize()
            await service.create(given("talk"))
            await service.create(given("old", frame(content="y" * 100_000)))
            small.fill(leave=200_000)
            waiting = [await service.update("talk", {"appendMessages": [frame(2, content="x" * 1_000_000)]})]
            waiting += [await service.update("talk", {"title": f"{n}"}) for n in range(100)]
            with anyio.fail_after(60):
                async with anyio.create_task_group() as tasks:
                    for one in waiting:
                        assert isinstance(one, Pending)
                        tasks.start_soon(one.result)
                    await anyio.sleep(0.1)
                    small.free()
                    await service.delete("old", "user-requested")
            assert all(one.stored for one in waiting if isinstance(one, Pending))
            await service.dispose()


def test_without_anyio_it_says_what_to_install() -> None:
    """Records work without it, and importing the async face names the extra."""
    code = (
        "import sys; sys.modules['anyio'] = None\n"
        "import clew.records\n"
        "try: import clew.records.aio\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"clew.records.aio needs anyio. {install_hint('anyio')}\n"
