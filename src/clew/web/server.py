"""Runs the page on the loopback address until it is stopped."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from types import FrameType
from urllib.parse import quote

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from clew.base.files import write_private
from clew.base.outside import open_outside
from clew.errors import ClewError, Unavailable
from clew.providers.prices import Prices
from clew.web import HOST
from clew.web.app import Pages, make_app, warm
from clew.web.guard import ENTER, FRESH, WebGuard
from clew.web.live import Streams
from clew.web.site import IDLE, Locked, Opener, Site

TRIED = 20
"""Ports after the wanted one that are tried if it is taken."""
PATIENCE = 20.0
"""Seconds that a connection has to send its request."""
GRACE = 0.5
"""Seconds that requests have to finish at shutdown."""
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}").fullmatch


def listen(port: int, *, strict: bool = False) -> socket.socket:
    """A socket on the loopback address: on this port, or unless `strict` on one of the next; 0 picks a free one.

    Unavailable if none is free.
    """
    wanted = [port] if strict or port == 0 else range(port, min(port + TRIED, 65536))
    for one in wanted:
        opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            opened.bind((HOST, one))
            opened.listen(128)
        except OSError as error:
            opened.close()
            why = error.strerror
            continue
        return opened
    raise Unavailable(f"port {port} of {HOST} cannot be used: {why}", hint="Choose another one with --port.")


class Server:
    """The page of one store, ready to run."""

    def __init__(
        self,
        opener: Opener,
        opened: socket.socket,
        *,
        allow_write: bool = False,
        prices: Prices | None = None,
        idle: float = IDLE,
    ) -> None:
        self.port: int = opened.getsockname()[1]
        self._socket = opened
        self.site = Site(
            opener, page_token=lambda: self.guard.page_token, allow_write=allow_write, prices=prices, idle=idle
        )
        app, self._pages = make_app(self.site)
        self.guard = WebGuard(app, self.port)

    @property
    def streams(self) -> Streams:
        """The streams that are open."""
        return self._pages.streams

    def url(self, to: str = "/") -> str:
        """The URL to open, which works once."""
        return f"http://{HOST}:{self.port}{ENTER}?token={self.guard.entrance}&to={quote(to, safe='/')}"

    @contextmanager
    def findable(self, path: str) -> Iterator[None]:
        """Meanwhile a file that only its owner can read says how to reach the server: see `fresh_url`."""
        text = f"{self.port} {self.guard.secret}"
        with suppress(OSError):  # no place for it: then there is only the first URL
            write_private(path, [text.encode()])
        try:
            yield
        finally:
            with suppress(OSError, ClewError):
                if _read(path) == text:  # else another server took its place
                    os.unlink(path)

    def open(self) -> None:
        """Opens the store now, so that errors are told before the page is. A missing key is no error. WrongKey."""
        try:
            with suppress(Locked):
                _ = self.site.store
        except BaseException:
            self.close()
            raise

    def run(self, ready: Callable[[], object] = lambda: None) -> None:
        """Serves until a signal or `stop`; calls `ready` once it accepts requests."""
        config = uvicorn.Config(
            self.guard, http=_Protocol, loop="asyncio", proxy_headers=False, log_level="error",
            server_header=False, date_header=False, lifespan="off",
            timeout_graceful_shutdown=GRACE,  # type: ignore[arg-type]  # a wait in seconds, whole or not
            timeout_keep_alive=75, h11_max_incomplete_event_size=32 * 1024, ws="none",
        )  # fmt: skip
        self._server = _Uvicorn(config, self._pages, ready)
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self.close()

    def close(self) -> None:
        """Closes the store and the socket. Idempotent."""
        self.site.close()
        self._socket.close()

    def stop(self) -> None:
        """Ends `run`, from any thread."""
        self._server.end()

    @contextmanager
    def in_background(self) -> Iterator[str]:
        """Runs on a thread; gives the URL. For tests and benchmarks."""
        started = threading.Event()
        thread = threading.Thread(target=self.run, args=(started.set,), daemon=True)
        thread.start()
        started.wait(10)
        try:
            yield self.url()
        finally:
            self.stop()
            thread.join(10)


def fresh_url(path: str) -> str | None:
    """A new one-time URL of the running server that the file describes; None if none is running."""
    try:
        port, secret = _read(path).split()
        connection = HTTPConnection(HOST, int(port), timeout=10)
        with closing(connection):
            connection.request("GET", FRESH, headers={"Authorization": f"Bearer {secret}"})
            answer = connection.getresponse()
            token = answer.read(100).decode().strip()
    except (OSError, ClewError, ValueError, HTTPException):
        return None
    if answer.status != 200 or not _TOKEN(token):  # another program has the port of a server that was killed
        return None
    return f"http://{HOST}:{port}{ENTER}?token={token}"


def _read(path: str) -> str:
    with open_outside(path) as file:
        return file.read(200).decode()


class _Protocol(H11Protocol):
    """Closes a connection that does not finish its request in time. uvicorn would keep it open."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._rest()

    def _watch(self) -> None:
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._rest()
        elif self._timer is None:
            self._timer = self.loop.call_later(PATIENCE, self.transport.close)

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Uvicorn(uvicorn.Server):
    """Waits without polling: uvicorn's own loop wakes up ten times a second.

    On shutdown, ends the streams of events at once: the server would wait for them.
    """

    def __init__(self, config: uvicorn.Config, pages: Pages, ready: Callable[[], object]) -> None:
        super().__init__(config)
        self._pages = pages
        self._ready = ready
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        threading.Thread(target=warm, name="clew-warm", daemon=True).start()
        self._ready()

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self._ended.wait()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self.end()

    def end(self) -> None:
        """Ends the server. Any thread and any signal handler may call it."""
        self.should_exit = True
        if self._loop is not None:
            with suppress(RuntimeError):  # it has ended
                self._loop.call_soon_threadsafe(self._ended.set)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # aborted requests are not errors
        self._pages.end()
        self._pages.streams.close()
        await super().shutdown(sockets)
