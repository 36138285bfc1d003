"""Serves MCP over HTTP, on this machine only.

It listens only on the loopback address. Other users of the machine and web pages in a browser can still reach that, so
every request needs the token created at startup, the Host header must be in a fixed list, and requests with an Origin
header, or with a Sec-Fetch-Site header that names another site, are refused.
"""

from __future__ import annotations

import hmac
import socket
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

import uvicorn
from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings

from clew.base.fetch_site import is_other_site
from clew.errors import Unavailable

HOST, PATH = "127.0.0.1", "/mcp"
Scope = MutableMapping[str, Any]
App = Callable[[Scope, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]


def listen(port: int) -> socket.socket:
    """A socket on the loopback address; port 0 picks a free port. Raises Unavailable if the port is in use."""
    opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((HOST, port))
        opened.listen(128)  # clients that connect before the server is ready wait
    except OSError as error:
        opened.close()
        raise Unavailable(f"port {port} of {HOST} cannot be used: {error.strerror}", hint="Use another port.") from None
    return opened


def address(opened: socket.socket) -> str:
    """The URL of the server."""
    return f"http://{HOST}:{opened.getsockname()[1]}{PATH}"


def serve(server: MCPServer[Any], opened: socket.socket, token: str) -> None:
    """Serves requests that have the token, until a signal stops it."""
    port = opened.getsockname()[1]
    security = TransportSecuritySettings(allowed_hosts=[f"{HOST}:{port}", f"localhost:{port}"], allowed_origins=[])
    app = server.streamable_http_app(streamable_http_path=PATH, transport_security=security, host=HOST)
    config = uvicorn.Config(
        _require_token(app, token), log_level="warning", server_header=False, timeout_graceful_shutdown=2
    )
    uvicorn.Server(config).run(sockets=[opened])


def _require_token(app: Any, token: str) -> App:
    """The app behind a check of the token and of the site that asks."""
    wanted = f"Bearer {token}".encode()

    async def guarded(scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            headers = scope.get("headers") or ()
            given = dict(headers).get(b"authorization", b"")
            if scope["type"] != "http" or not hmac.compare_digest(given, wanted):
                await _answer(send, 401, b"a valid token is required\n", [(b"www-authenticate", b"Bearer")])
                return
            if is_other_site(headers):
                await _answer(send, 403, b"another site cannot use this server\n")
                return
        await app(scope, receive, send)

    return guarded


async def _answer(send: Any, status: int, text: bytes, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})
    await send({"type": "http.response.body", "body": text})
