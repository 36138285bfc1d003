"""`ClewLogger`, with LiteLLM's own mock answers."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("litellm", reason="litellm is not installed")

import litellm

import clew
from clew.adapters.litellm import ClewLogger
from tests.adapters.commands import QUESTION, expect_weather

pytestmark = pytest.mark.filterwarnings("default")  # LiteLLM's own models warn
TOOL_CALL = {"id": "call-1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Turin"}'}}


@contextmanager
def attached(logger):
    """LiteLLM with one logger, which is closed afterwards."""
    litellm.logging_callback_manager._reset_all_callbacks()
    litellm.callbacks = [logger]
    try:
        yield logger
    finally:
        litellm.logging_callback_manager._reset_all_callbacks()
        logger.close()


@pytest.fixture
def logger(opened):
    with attached(opened(ClewLogger)) as logger:
        yield logger


def user(text):
    return {"role": "user", "content": text}


def complete(asked, answer, **more):
    return litellm.completion(model="gpt-4o", messages=asked, mock_response=answer, **more)


def wait_for(logger, count):
    """Waits until so many messages are stored: LiteLLM calls its loggers on threads."""
    for _ in range(400):
        logger.flush(30)
        if len(logger.store.nodes.list().items) >= count:
            return
        time.sleep(0.05)
    raise AssertionError(f"{len(logger.store.nodes.list().items)} messages instead of {count}")


def test_a_conversation(logger):
    """Calls that repeat the conversation are one session with roles, model, tokens and times."""
    asked = [{"role": "system", "content": "Be short."}, user("Hi")]
    first = complete(asked, "Hello.")
    asked += [first.choices[0].message, user("And now?")]
    wait_for(logger, 3)
    complete(asked, "Bye.")
    wait_for(logger, 5)
    (session,) = logger.store.sessions.list().items
    assert [node.role for node in session.path()] == ["system", "user", "assistant", "user", "assistant"]
    assert session.title == "Hi"
    assert session.extra["source"]["tool"] == "litellm"
    last = session.path()[-1].message
    assert last.text == "Bye."
    assert last.model == "gpt-4o"
    assert last.usage.output
    assert len(logger.store.search("Bye")) == 1
    assert logger.store.verify().ok


def test_calls_and_results(logger):
    """Tool calls and their results are in the neutral view."""
    asked = [user("Weather?")]
    complete(asked, "", mock_tool_calls=[TOOL_CALL])
    wait_for(logger, 2)
    asked += [
        {"role": "assistant", "content": "", "tool_calls": [TOOL_CALL]},
        {"role": "tool", "tool_call_id": "call-1", "content": "sunny"},
    ]
    complete(asked, "Sunny.")
    wait_for(logger, 4)
    (session,) = logger.store.sessions.list().items
    nodes = session.path()
    assert [node.role for node in nodes] == ["user", "assistant", "tool", "assistant"]
    assert nodes[1].message.blocks[-1].name == "weather"
    assert nodes[2].message.blocks[0].call_id == "call-1"


def test_streams_and_async(logger):
    """Streams are stored whole, and async calls as sync ones."""
    assert list(complete([user("one")], "Hello there", stream=True))
    received = []

    async def run():
        await litellm.acompletion(model="gpt-4o", messages=[user("two")], mock_response="Hello again")
        stream = await litellm.acompletion(
            model="gpt-4o", messages=[user("three")], mock_response="Yes it", stream=True
        )
        received.append("".join([part.choices[0].delta.content or "" async for part in stream]))
        for _ in range(100):
            await asyncio.sleep(0.05)
            logger.flush(30)
            if len(logger.store.nodes.list().items) >= 6:
                return

    asyncio.run(run())
    wait_for(logger, 6)
    found = sorted([node.text for node in one.path()] for one in logger.store.sessions.list().items)
    assert found == [["one", "Hello there"], ["three", *received], ["two", "Hello again"]]


def test_responses(logger):
    """Calls of the Responses API are stored."""
    litellm.responses(model="gpt-4o", input="Tell me.", mock_response="A story.")
    wait_for(logger, 2)
    (session,) = logger.store.sessions.list().items
    assert [node.role for node in session.path()] == ["user", "assistant"]


def test_named_sessions(logger):
    """The session that a caller names keeps calls apart that say the same."""
    for name in ("a", "b"):
        complete([user("Hi")], "Hello.", metadata={"session_id": name})
    wait_for(logger, 4)
    assert {one.extra["source"]["id"] for one in logger.store.sessions.list().items} == {
        "conversation/a",
        "conversation/b",
    }


def test_a_failed_call(logger):
    """The question of a call that failed is stored; the error is the caller's."""
    with pytest.raises(litellm.InternalServerError):
        complete([user("Hi")], Exception("bad"))
    wait_for(logger, 1)
    (session,) = logger.store.sessions.list().items
    assert [node.text for node in session.path()] == ["Hi"]


def test_nothing_of_headers_and_keys(tmp_path):
    """Neither headers nor keys nor parameters of a call reach the store."""
    with attached(ClewLogger(tmp_path / "c.db")) as logger:
        complete(
            [user("Hi")], "Hello.", api_key="sk-needle", extra_headers={"Authorization": "needle"}, user="needle",
            metadata={"secret": "needle"},
        )  # fmt: skip
        wait_for(logger, 2)
    assert not [one for one in tmp_path.iterdir() if b"needle" in one.read_bytes()]


def test_a_store_that_is_gone(tmp_path, caplog):
    """A call whose record cannot be stored is answered all the same."""
    with attached(ClewLogger(tmp_path / "missing" / "c.db")) as logger:
        assert complete([user("Hi")], "Hello.").choices[0].message.content == "Hello."
        for _ in range(400):
            logger.flush(30)
            if "not stored" in caplog.text:
                return
            time.sleep(0.05)
    raise AssertionError("nothing was logged")


ROOT = Path(__file__).parents[3]
ASYNC = """
import asyncio, sys
import litellm
from clew.adapters.litellm import ClewLogger
logger = ClewLogger(sys.argv[1])
litellm.callbacks = [logger]

async def main():
    calls = [
        litellm.acompletion(model="gpt-4o", messages=[{"role": "user", "content": f"Hi {n}"}], mock_response="Hello.")
        for n in range(8)
    ]
    await asyncio.gather(*calls)
    await logger.drain()

asyncio.run(main())
"""


def test_drain(tmp_path):
    """An async program that drains at its end has stored all its calls."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    for number in range(3):
        path = tmp_path / f"{number}.db"
        done = subprocess.run(
            [sys.executable, "-c", ASYNC, path], env=environ, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        with clew.open(path) as store:
            assert len(store.nodes.list(limit=100).items) == 16


KILLED = """
import os, signal, sys, time
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
import litellm
from clew.adapters.litellm import ClewLogger
from tests.adapters.commands import expect_weather
logger = ClewLogger(sys.argv[1])
litellm.callbacks = [logger]
litellm.completion(model="gpt-4o", messages=[{"role": "user", "content": "Hi"}], mock_response="Hello.")
while not logger.flush(30) or len(logger.store.nodes.list().items) < 2:
    time.sleep(0.02)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_killed(killed, tmp_path):
    """What was stored before the program was killed is there, and the next program continues it."""
    killed(KILLED)
    with attached(ClewLogger(tmp_path / "chats.db")) as logger:
        complete([user("Hi"), {"role": "assistant", "content": "Hello."}, user("More")], "Sure.")
        wait_for(logger, 4)
    with clew.open(tmp_path / "chats.db") as store:
        (session,) = store.sessions.list().items
        assert [node.text for node in session.path()] == ["Hi", "Hello.", "More", "Sure."]


def test_in_the_command_line(opened):
    """A conversation with a tool call is listed, found, shown, redacted and purged."""
    asked = [user(QUESTION), {"role": "assistant", "content": None, "tool_calls": [TOOL_CALL]}]
    asked.append({"role": "tool", "tool_call_id": "call-1", "content": "sunny"})
    with attached(opened(ClewLogger)) as logger:
        complete(asked, "It is sunny.")
        wait_for(logger, 4)
    expect_weather(opened)
