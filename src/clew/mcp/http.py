"""The server over HTTP, for this machine alone.

It listens on the loopback address, and nothing else can be named. That does not keep out other users of the machine, or
a page in a browser: so every request has to bring the token of this start, the names it may ask for are an exact list,
and a request that says it comes from a page is refused.
"""

from __future__ import annotations

import hmac
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import uvicorn
from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings

from clew.errors import Unavailable

HOST, PATH = "127.0.0.1", "/mcp"
Scope = MutableMapping[str, Any]
App = Callable[[Scope, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]


def listen(port: int) -> socket.socket:
    """A socket on the loopback address; port 0 for any that is free. Unavailable if it is taken."""
    opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((HOST, port))
        opened.listen(128)  # who connects before the first request is served waits
    except OSError as error:
        opened.close()
        raise Unavailable(f"port {port} of {HOST} cannot be used: {error.strerror}", hint="Name another.") from None
    return opened


def address(opened: socket.socket) -> str:
    """The URL under which clients find the server."""
    return f"http://{HOST}:{opened.getsockname()[1]}{PATH}"


def serve(server: MCPServer[Any], opened: socket.socket, token: str) -> None:
    """Answers requests that bring the token, until a signal ends it."""
    port = opened.getsockname()[1]
    security = TransportSecuritySettings(allowed_hosts=[f"{HOST}:{port}", f"localhost:{port}"], allowed_origins=[])
    app = server.streamable_http_app(streamable_http_path=PATH, transport_security=security, host=HOST)
    config = uvicorn.Config(_guarded(app, token), log_level="warning", server_header=False, timeout_graceful_shutdown=2)
    uvicorn.Server(config).run(sockets=[opened])


def _guarded(app: Any, token: str) -> App:
    """The app, for those who have the token."""
    wanted = f"Bearer {token}".encode()

    async def guarded(scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            given = dict(scope.get("headers") or ()).get(b"authorization", b"")
            if scope["type"] != "http" or not hmac.compare_digest(given, wanted):
                await send(
                    {"type": "http.response.start", "status": 401, "headers": [(b"www-authenticate", b"Bearer")]}
                )
                await send({"type": "http.response.body", "body": b"the token of this start is needed\n"})
                return
        await app(scope, receive, send)

    return guarded
