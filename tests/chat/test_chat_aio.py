"""The async client does what the sync one does, and a cancelled task keeps what arrived."""

from __future__ import annotations

import asyncio
import inspect
import json
from typing import Any

import anyio
import pytest

from clew import Text, ToolCall, ToolResult, chat
from clew.chat import aio
from clew.errors import Conflict, Invalid
from clew.providers.neutral import neutral
from clew.testing.providers import ProviderServer, ToolUse
from tests.chat.conftest import TOKEN


def connected(server: ProviderServer, provider: str, **settings: Any) -> aio.AsyncClient:
    given = {"token": TOKEN, "max_retries": 0, "base_url": server.base_url(provider), "allow_insecure": True}
    return aio.connect(provider, "a-model", **{**given, **settings})


def texts(client: aio.AsyncClient) -> list[tuple[str, str]]:
    return [(view.role, view.text) for view in map(neutral, client.history)]


async def add(a: int, b: int) -> int:
    """Adds, in its own time."""
    await anyio.sleep(0)
    return a + b


def blocking(word: str) -> str:
    """Runs in a thread."""
    return word.upper()


def explode() -> str:
    """Never works."""
    raise RuntimeError("out of order")


def test_it_talks_streams_and_runs_tools(provider: str, server: ProviderServer) -> None:
    """Whole and streamed, with tools of both kinds, and a value."""

    async def main() -> None:
        async with connected(server, provider, system="Be kind.", tools=[add, blocking, explode]) as client:
            calls = [
                ToolUse("add", {"a": 1, "b": 2}, "1"), ToolUse("blocking", {"word": "hi"}, "2"),
                ToolUse("explode", id="3"), ToolUse("nothing", id="4"),
            ]  # fmt: skip
            server.say("Hm.", calls=calls)
            server.say("Done.")
            assert await client.chat("Do it all") == "Done."
            told = server.requests[-1].body.decode()
            assert all(word in told for word in ("3", "HI", "out of order", "no tool 'nothing'"))
            server.say("Hm.", thinking="Well.", calls=calls[:1])
            server.say("Streamed.")
            events = [event async for event in client.stream("Stream it")]
            assert [type(event) for event in events if isinstance(event, ToolCall | ToolResult)] == [
                ToolCall,
                ToolResult,
            ]
            assert events[-1] == client.reply
            assert events[-1].text == "Streamed."
            server.say('{"a": 1}')
            assert await client.ask("Which?", dict[str, int]) == {"a": 1}
            assert client.usage.answers == 5

            other = connected(server, provider)
            other.restore(client.save())
            other.set_tools([add])
            assert other.history == client.history
            assert await other.chat("Where were we?") == "You said: Where were we?"
            await other.close()

    anyio.run(main)


def test_it_is_a_client() -> None:
    """isinstance finds what it can do."""
    client = aio.connect("offline")
    for kind in (chat.AsyncChatClient, chat.AsyncStreamingChatClient, chat.AsyncPersistentChatClient):
        assert isinstance(client, kind)


def test_both_faces_have_the_same_names() -> None:
    """Both clients have the same methods with the same arguments."""

    def names(kind: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(member).parameters)
            for name, member in inspect.getmembers(kind, inspect.isfunction)
            if not name.startswith("_")
        }

    assert names(chat.Client) == names(aio.AsyncClient)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_offline_on_both_loops(backend: str) -> None:
    """The clients themselves favour no event loop."""

    async def main() -> None:
        async with aio.connect("offline", tools=[add, blocking]) as client:
            assert await client.chat('/add {"a": 1, "b": 2}') == "The tool says: 3"
            words = [event.text async for event in client.stream('/blocking {"word": "hi"}') if isinstance(event, Text)]
            assert "".join(words) == "The tool says: HI"

    anyio.run(main, backend=backend)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_claude_and_openai_on_trio_too(backend: str, server: ProviderServer) -> None:
    """Two of the SDKs run on both loops, so do their clients; Google's is for asyncio."""

    async def main() -> None:
        for provider in ("claude", "openai"):
            async with connected(server, provider) as client:
                assert await client.chat("Hello") == "You said: Hello"

    anyio.run(main, backend=backend)


@pytest.mark.parametrize("where", ["waiting", "elsewhere"])
def test_a_cancelled_task_keeps_what_arrived(provider: str, where: str, server: ProviderServer) -> None:
    """The words so far are in the conversation at once, wherever the task was, and the client is free."""

    async def main() -> None:
        async with connected(server, provider) as client:
            server.say("One two three four five six.", stalls=7 if where == "waiting" else None)
            with anyio.move_on_after(0.3) as scope:
                async for event in client.stream("Count"):
                    if isinstance(event, Text) and where == "elsewhere":
                        scope.cancel()
                        await anyio.sleep(0)
            assert scope.cancelled_caught
            (_, question), (_, answer) = texts(client)
            assert question == "Count"
            assert "One two three four five six.".startswith(answer)
            assert await client.chat("Go on") == "You said: Go on"

    anyio.run(main)


def test_a_cancelled_tool_leaves_no_call_open(provider: str, server: ProviderServer) -> None:
    """A result says that the tool was interrupted; one that had ended keeps its own."""

    async def main() -> None:
        quick = anyio.Event()

        async def slow() -> str:
            """Takes for ever."""
            await quick.wait()
            scope.cancel()
            await anyio.sleep(60)
            return "never"

        async def fast() -> str:
            """Is done at once."""
            quick.set()
            return "finished"

        async with connected(server, provider, tools=[slow, fast]) as client:
            server.say(calls=[ToolUse("slow", id="1"), ToolUse("fast", id="2")])
            with anyio.CancelScope() as scope:
                await client.chat("Work")
            told = " ".join(str(block) for view in map(neutral, client.history) for block in view.blocks)
            assert "interrupted" in told
            assert "finished" in told
            await client.chat("Go on")

    anyio.run(main)


def test_a_tool_that_is_cancelled_by_its_own_doing(provider: str, server: ProviderServer) -> None:
    """The turn continues: the model is told that the tool was interrupted."""

    async def gone() -> str:
        """Waits for a task that was cancelled elsewhere."""
        task = asyncio.ensure_future(asyncio.sleep(60))
        task.cancel()
        await task
        return "never"

    async def main() -> None:
        async with connected(server, provider, tools=[gone]) as client:
            server.say(calls=[ToolUse("gone", id="1"), ToolUse("gone", id="2")])
            server.say("I see.")
            assert await client.chat("Try") == "I see."
            assert server.requests[-1].body.count(b"The tool was interrupted") == 2

    asyncio.run(main())


def test_broken_streams_and_errors(provider: str, server: ProviderServer) -> None:
    """As in the sync client: errors are typed, what arrived stays, and nothing else is added."""

    async def main() -> None:
        async with connected(server, provider) as client:
            server.fail(429)
            with pytest.raises(chat.ProviderError) as caught:
                await client.chat("Hello")
            assert caught.value.status == 429
            server.fail(500)
            with pytest.raises(chat.ProviderError):
                [event async for event in client.stream("Hello")]
            server.send(b"<html>")
            with pytest.raises(chat.ProviderError):
                await client.chat("Hello")
            assert client.history == ()
            for how in ({"cut": 4}, {"ends": 4}):
                server.say("One two three four five six.", **how)  # type: ignore[arg-type]
                with pytest.raises(chat.ProviderError, match="broke off"):
                    [event async for event in client.stream("Count")]
            assert [role for role, _ in texts(client)] == ["user", "assistant"] * 2
            with pytest.raises(Invalid):
                await client.chat("")

    anyio.run(main)


def test_one_call_at_a_time(server: ProviderServer) -> None:
    """Two tasks at one client: the second one is refused, not mixed in."""

    async def main() -> None:
        async with connected(server, "claude") as client:
            stream = client.stream("Hello")
            await anext(stream)
            with pytest.raises(Conflict):
                await client.chat("Hello")
            await stream.aclose()
            await client.chat("Hello")
            roles = [json.loads(part)["role"] for part in client.save().parts]
            assert roles == ["user", "assistant"] * 2

    anyio.run(main)
