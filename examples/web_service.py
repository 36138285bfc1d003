"""A chat service with several worker processes on one store, and its load test.

    python examples/web_service.py                          2 workers, 4 users, a store in a temporary folder
    python examples/web_service.py --workers 4 --users 200 --seconds 20 --kill --db postgresql:///app

The program is an ASGI application of Starlette, which FastAPI builds on: with your own model, serve it with

    CLEW_DB=chats.db uvicorn --app-dir examples --workers 4 web_service:app

Each worker opens the store once, and any worker answers any request. A client gives each message an ID, and sends the
request again if it gets no answer, so a message is stored once, even if a worker is killed. The load test does that: it
behaves like users behind a load balancer, then compares what was acknowledged with what is stored. `--kill` kills a
worker meanwhile. It ends with exit code 1 if a message is missing, twice, or out of order.
"""

import argparse
import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import clew
import clew.aio

CONTEXT = 20
"""Messages that the model gets."""


# -- the service


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    """Opens the store of this worker."""
    async with clew.aio.open(os.environ["CLEW_DB"]) as store:
        app.state.store = store
        yield


async def model(messages: list[clew.Message]) -> clew.Message:
    """Replace this with a call of a real model."""
    return clew.assistant(f"You said: {messages[-1].text}", model="echo")


async def say(request: Request) -> Response:
    """Stores a message and the answer. The same request again changes nothing."""
    given = await request.json()
    session = await request.app.state.store.sessions.open("web", request.path_params["user"])
    # Before the model is called: if it fails, or this worker is killed, the question is not lost.
    question = await session.append(clew.user(given["text"]), id=given["id"])
    answer = await model([node.message for node in await session.path(until=question, last=CONTEXT)])
    id = str(uuid.uuid5(uuid.UUID(given["id"]), "answer"))
    return JSONResponse({"answer": (await session.append(answer, id=id)).text})


async def read(request: Request) -> Response:
    """The conversation of a user."""
    session = await request.app.state.store.sessions.open("web", request.path_params["user"])
    return JSONResponse([node.text for node in await session.path()])


async def health(request: Request) -> Response:
    """For readiness probes: 200 if the store can be read."""
    await request.app.state.store.ping()
    return JSONResponse({"pid": os.getpid()})


app = Starlette(
    routes=[
        Route("/chats/{user}", read),
        Route("/chats/{user}", say, methods=["POST"]),
        Route("/health", health),
    ],
    lifespan=lifespan,
)


# -- the load test


async def ask(port: int, path: str, body: Any = None) -> Any:
    """Sends a request on a new connection, which any worker may accept. OSError or ValueError if it is not answered."""
    data = b"" if body is None else json.dumps(body).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        head = f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        answer = await reader.read()
    finally:
        writer.close()
    head, _, text = answer.decode().partition("\r\n\r\n")
    if " 200 " not in head.partition("\r\n")[0]:
        raise ValueError(head.partition("\r\n")[0] or "no answer")
    return json.loads(text)


class User:
    """Sends one message after the other, and notes what was acknowledged."""

    def __init__(self, port: int, name: str) -> None:
        self.name = name
        self.acknowledged: list[str] = []
        self.times: list[float] = []
        self.repeated = 0
        self._port = port

    async def chat(self, seconds: float) -> None:
        """Sends messages for some seconds, and each until it is answered."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            text, id, began = f"message {len(self.times)} of {self.name}", str(uuid.uuid4()), time.monotonic()
            while True:
                try:
                    answer = (await ask(self._port, f"/chats/{self.name}", {"text": text, "id": id}))["answer"]
                    break
                except (OSError, ValueError):  # the worker was killed, or is starting
                    self.repeated += 1
                    await asyncio.sleep(0.05)
            self.times.append(time.monotonic() - began)
            self.acknowledged += [text, answer]

    async def check(self) -> bool:
        """True if the store has all that was acknowledged, once and in order."""
        return bool(await ask(self._port, f"/chats/{self.name}") == self.acknowledged)


@contextmanager
def served(db: str, workers: int) -> Iterator[int]:
    """Runs the service; yields its port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    here = Path(__file__)
    command = [sys.executable, "-m", "uvicorn", "--app-dir", str(here.parent), "--workers", str(workers)]
    command += ["--port", str(port), "--log-level", "error", f"{here.stem}:app"]
    with subprocess.Popen(command, env={**os.environ, "CLEW_DB": db}, stderr=subprocess.DEVNULL) as server:
        try:
            yield port
        finally:
            server.terminate()


async def ready(port: int, workers: int) -> int:
    """Waits until all workers answer; returns the process ID of one."""
    found: set[int] = set()
    until = time.monotonic() + 60
    while len(found) < workers and time.monotonic() < until:
        try:
            found.add((await ask(port, "/health"))["pid"])
        except (OSError, ValueError):
            await asyncio.sleep(0.05)
    return found.pop()


async def load(port: int, workers: int, users: int, seconds: float, *, kill: bool) -> bool:
    """Runs the users and prints figures. True if everything acknowledged is stored once and in order."""
    pid = await ready(port, workers)
    run = uuid.uuid4().hex[:8]  # the store may have users of an earlier run
    crowd = [User(port, f"{run}-{number}") for number in range(users)]
    if kill:
        asyncio.get_running_loop().call_later(seconds / 2, os.kill, pid, signal.SIGKILL)
    await asyncio.gather(*(user.chat(seconds) for user in crowd))
    right = [await user.check() for user in crowd]
    times = sorted(took for user in crowd for took in user.times)
    p50, p95, p99 = (1000 * times[int(len(times) * part)] for part in (0.5, 0.95, 0.99))
    print(f"{workers} workers, {users} users: {len(times) / seconds:.0f} requests/s, two messages each")
    print(f"p50 {p50:.0f} ms, p95 {p95:.0f} ms, p99 {p99:.0f} ms, {sum(user.repeated for user in crowd)} sent again")
    print(f"{sum(right)} of {users} conversations have each acknowledged message once and in order")
    return all(right)


def main() -> int:
    """Runs the service and its load test."""
    parser = argparse.ArgumentParser(description="Runs a chat service with several workers, and its load test.")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--users", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--kill", action="store_true", help="kill a worker in the middle")
    parser.add_argument("--db", help="path or URL of the store; a temporary file without it")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, served(given.db or f"{folder}/chats.db", given.workers) as port:
        return 0 if asyncio.run(load(port, given.workers, given.users, given.seconds, kill=given.kill)) else 1


if __name__ == "__main__":
    sys.exit(main())
