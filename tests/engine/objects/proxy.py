"""A link to a server that can be cut in the middle of what is sent."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress


class Proxy:
    """Listens on a port of this machine, and passes on what is said, up to some bytes of each connection."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.up: int | None = None
        """Bytes that may be sent to the server before the link breaks; None for any number."""
        self.down: int | None = None
        """Bytes that may come back."""
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._to))
                for one, other, limit in ((client, server, "up"), (server, client, "down")):
                    threading.Thread(target=self._pass, args=(one, other, limit), daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket, limit: str) -> None:
        passed = 0
        with suppress(OSError):
            while data := one.recv(1 << 16):
                passed += len(data)
                most = getattr(self, limit)
                if most is not None and passed > most:
                    self.cuts += 1
                    break
                other.sendall(data)
        for end in (one, other):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
