"""A proxy to a server, whose connections can be cut at a chosen moment, or made to hang."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Literal

from tests.backends.postgres.server import Server

Cut = Literal["before", "after"]


class Proxy:
    """Listens on a local port, and forwards data in both directions."""

    def __init__(self, server: Server, port: int = 0) -> None:
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port = self._listener.getsockname()[1]
        self._word = b""
        self._cut: Cut | None = None
        self._left = 0
        self.cuts = 0
        self._links: list[_Link] = []
        self.refuses = False
        self.flows = threading.Event()
        """While it is cleared, nothing is forwarded from the server."""
        self.flows.set()
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, **query: str) -> str:
        """The URL of the server through this proxy."""
        return self._server.url(**query).replace(
            f"host={self._server.folder}&port={self._server.port}", f"host=127.0.0.1&port={self.port}"
        )

    def cut_at(self, word: bytes, when: Cut, *, times: int = 1) -> None:
        """Cuts the connection that sends `word`: before it reaches the server, or after the server has answered."""
        self._word, self._cut, self._left = word, when, times

    def drop(self) -> None:
        """Cuts all connections."""
        while self._links:
            self._links.pop()._end()

    def close(self) -> None:
        self.flows.set()
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self.refuses:
                    client.close()
                    continue
                server = socket.socket(socket.AF_UNIX)
                server.connect(str(self._server.folder / ".s.PGSQL.5432"))
                link = _Link(self, client, server)
                self._links.append(link)
                threading.Thread(target=link.up, daemon=True).start()
                threading.Thread(target=link.down, daemon=True).start()


class _Link:
    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy, self._client, self._server = proxy, client, server
        self._doomed = False

    def up(self) -> None:
        with suppress(OSError):
            while data := self._client.recv(1 << 16):
                cut = self._proxy._cut
                if cut is not None and self._proxy._word in data:
                    self._proxy._left -= 1
                    if not self._proxy._left:
                        self._proxy._cut = None
                    self._proxy.cuts += 1
                    if cut == "before":
                        break
                    self._doomed = True
                self._server.sendall(data)
        self._end()

    def down(self) -> None:
        with suppress(OSError):
            while data := self._server.recv(1 << 16):
                self._proxy.flows.wait()
                if self._doomed:  # it was done, and nobody learns of it
                    break
                self._client.sendall(data)
        self._end()

    def _end(self) -> None:
        for end in (self._client, self._server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
