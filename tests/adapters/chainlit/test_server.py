"""Chainlit's own server with `ClewDataLayer`: a user chats, the server is killed, and the next one has the thread."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import uuid
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("chainlit.data", reason="chainlit is not installed")

import aiohttp
import socketio

import clew

ROOT = Path(__file__).parents[3]
APP = """
import chainlit as cl
from clew.adapters.chainlit import ClewDataLayer

@cl.data_layer
def data_layer():
    return ClewDataLayer("chats.db")

@cl.password_auth_callback
def authenticate(name, password):
    return cl.User(name)

@cl.step(type="tool")
async def weather(city):
    return "sunny"

@cl.on_message
async def answer(message):
    said = await weather(city="Turin")
    picture = cl.Text(name="forecast", content="dry")
    await cl.Message(f"It is {said}.", elements=[picture]).send()

@cl.on_chat_resume
async def resume(thread):
    pass
"""


@contextmanager
def server(folder):
    """The server as a process, which is killed at the end. Yields its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = {"CHAINLIT_APP_ROOT": str(folder), "CHAINLIT_AUTH_SECRET": "x" * 64, "HOME": str(folder)}
    env |= {"PYTHONPATH": str(ROOT / "src"), "PATH": os.environ["PATH"]}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "chainlit", "run", "app.py", "--headless", "--port", str(port)],
            cwd=folder, env=env, stdout=log, stderr=log,
        )  # fmt: skip
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait(60)


async def log_in(http, address):
    for _ in range(600):
        try:
            async with http.post(f"{address}/login", data={"username": "ada", "password": "x"}) as done:
                assert done.status == 200
                return
        except aiohttp.ClientConnectionError:
            await asyncio.sleep(0.1)
    raise AssertionError("the server did not start")


async def chat(address, thread, question, count):
    """Asks a question as the page does, and waits for the answer. Returns the thread as the page would load it."""
    # Cookies of an address without a name are left out by default.
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
        await log_in(http, address)
        client, answered, found = socketio.AsyncClient(http_session=http), asyncio.Event(), {"thread": thread}
        client.on("first_interaction", lambda told: found.update(thread=told["thread_id"]))
        client.on("task_end", lambda *_: answered.set())
        resumed = asyncio.Event()
        client.on("resume_thread", lambda *_: resumed.set())
        auth = {"sessionId": str(uuid.uuid4()), "clientType": "webapp", "threadId": thread or ""}
        await client.connect(address, socketio_path="/ws/socket.io", auth=auth, transports=["websocket"])
        await client.emit("connection_successful")
        if thread is not None:  # as the page does; a message before that names the thread again
            await asyncio.wait_for(resumed.wait(), 60)
        message = {"id": str(uuid.uuid4()), "type": "user_message", "output": question, "name": "ada", "createdAt": ""}
        await client.emit("client_message", {"message": message, "fileReferences": []})
        await asyncio.wait_for(answered.wait(), 60)
        for _ in range(100):  # Chainlit stores in tasks
            async with http.get(f"{address}/project/thread/{found['thread']}") as loaded:
                seen = await loaded.json() if loaded.status == 200 else {"steps": []}
            if len(seen["steps"]) == count and all(step["end"] for step in seen["steps"]):
                break
            await asyncio.sleep(0.1)
        async with http.post(f"{address}/project/threads", json={"pagination": {"first": 9}, "filter": {}}) as listed:
            threads = (await listed.json())["data"]
        await client.disconnect()
        return seen, threads


def test_a_server_that_is_killed(tmp_path):
    """A thread of a killed server is listed, loaded and continued by the next one; `clew` has the conversation."""
    (tmp_path / "app.py").write_text(APP)
    with server(tmp_path) as address:
        first, _ = asyncio.run(chat(address, None, "Weather?", 4))
    with server(tmp_path) as address:
        second, threads = asyncio.run(chat(address, first["id"], "And now?", 8))
    assert [one["id"] for one in threads] == [first["id"]]
    assert (threads[0]["name"], threads[0]["userIdentifier"]) == ("Weather?", "ada")
    assert second["steps"][:4] == first["steps"]
    said = [step["output"] for step in second["steps"] if step["type"] != "run"]
    assert said == ["Weather?", "sunny", "It is sunny.", "And now?", "sunny", "It is sunny."]
    assert {one["url"] for one in second["elements"]} == {"data:text/plain;base64,ZHJ5"}
    with clew.open(tmp_path / "chats.db") as store:
        (session,) = store.sessions.list().items
        assert [node.text for node in session.path() if node.text] == said
        assert store.verify().ok
