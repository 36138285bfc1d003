"""Async clients are saved on a thread, also when their task is cancelled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

import clew
import clew.aio
from clew.chat import aio as chat
from clew.chat.recording import SavingMiddleware
from clew.testing.providers import ProviderServer, ToolUse

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def connect(server: ProviderServer, **settings: Any) -> chat.AsyncClient:
    return chat.connect(
        provider="claude", model="a-model", token="t", base_url=server.url, allow_insecure=True, max_retries=0,
        **settings,
    )  # fmt: skip


def said(session: clew.Session) -> list[tuple[str, str]]:
    return [(node.role, node.text) for node in session.path()]


async def test_every_step_is_stored(tmp_path: Path) -> None:
    """Question, tool call, result and answer, with a sync store or an awaited one."""

    async def look(city: str) -> str:
        """Looks."""
        return f"clear in {city}"

    with ProviderServer() as server:
        for _ in range(2):
            server.say(calls=[ToolUse("look", {"city": "Rome"})])
            server.say("Clear.")
        async with clew.aio.open(tmp_path / "chats.db") as store:
            for kept in (store, store._sync):
                saving = SavingMiddleware(kept)
                async with saving.wrap(connect(server, tools=[look])) as client:
                    assert await client.chat("How is it?") == "Clear."
                session = client.session
                assert [role for role, _ in said(session)] == ["user", "assistant", "tool", "assistant"]
            assert isinstance(saving.session, clew.Session)
            awaited = SavingMiddleware(store, session=await store.sessions.get(session.id))
            assert isinstance(awaited.session, clew.aio.Session)


async def test_a_reply_whose_save_fails_is_saved_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller gets the error of the first save; the reply is in the store, marked as interrupted."""
    append, calls = clew.Session.append, []

    def full_once(session: clew.Session, *args: Any, **options: Any) -> Any:
        calls.append(args)
        if len(calls) == 2:
            raise clew.StorageFull("no space")
        return append(session, *args, **options)

    monkeypatch.setattr(clew.Session, "append", full_once)
    with ProviderServer() as server, clew.open(tmp_path / "chats.db") as store:
        server.say("Rome.")
        saving = SavingMiddleware(store)
        async with saving.wrap(connect(server)) as client:
            with pytest.raises(clew.StorageFull):
                await client.chat("Where?")
        assert said(saving.session) == [("user", "Where?"), ("assistant", "Rome.")]
        assert saving.session.path()[-1].message.extra["interrupted"] is True


async def test_a_value_and_a_snapshot(tmp_path: Path) -> None:
    """`ask` is stored; what is restored begins a session with the next question."""
    with clew.open(tmp_path / "chats.db") as store:
        saving = SavingMiddleware(store)
        async with saving.wrap(chat.connect(provider="offline")) as client:
            assert await client.ask("[1]", list[int]) == [1]
            first = saving.session
            client.restore(client.save())
            await client.chat("Two")
        assert (len(first.path()), len(saving.session.path())) == (2, 4)


async def test_a_cancelled_task_keeps_what_arrived(tmp_path: Path) -> None:
    """The partial answer is stored and marked; the session can be continued."""
    with ProviderServer() as server, clew.open(tmp_path / "chats.db") as store:
        server.say("One two three four", stalls=4)
        saving = SavingMiddleware(store)
        async with saving.wrap(connect(server)) as client:
            with anyio.move_on_after(10) as scope:
                async with client.stream("Count") as events:
                    async for _ in events:
                        scope.cancel()
            (_, (role, text)) = said(saving.session)
            assert (role, text) == ("assistant", "One")
            assert saving.session.path()[-1].message.extra["interrupted"] is True
            server.say("Two.")
            assert await client.chat("Go on") == "Two."
