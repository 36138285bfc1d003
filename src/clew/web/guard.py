"""The checks before every route: who asks, from where, and how much.

The page listens on the loopback address, which other users of the machine and web pages in a browser can reach too.
Every request, streams and static files included, passes these checks in this order:

1. `Host` is one of the addresses of the server, with its port: else 421. A rebound name fails here.
2. `Sec-Fetch-Site` is ``same-origin`` or ``none``: else 403. A browser sends it for other sites' requests.
3. The one-time token of the URL is exchanged for a cookie, new at each start; or the cookie or the same value as a
   bearer token is given: else 401. `FRESH`, with the bearer token alone, answers another one-time token.
4. A write has the server's own `Origin`, the token of the page, and a small body: else 403, 415 or 413.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from secrets import token_urlsafe
from typing import Any
from urllib.parse import parse_qs, quote

from clew.base.fetch_site import is_other_site

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = dict[bytes, list[bytes]]

ENTER = "/enter"
FRESH = "/fresh"
PAGE_TOKEN = "x-clew-token"
MAX_BODY = 64 * 1024
"""Bytes of a request's body."""
MAX_HEADERS = 16 * 1024
"""Bytes of all headers of a request."""
MAX_URL = 8 * 1024
"""Bytes of a request's URL."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src 'self'; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
_ALWAYS = {
    b"content-security-policy": POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"permissions-policy": b"camera=(), microphone=(), geolocation=(), interest-cohort=()",
    b"x-frame-options": b"DENY",
    b"cache-control": b"no-store",
}
"""Headers of every answer; a route may set its own value instead."""
_READS = ("GET", "HEAD")
FORMS = ("/unlock", "/words")
"""Routes that take a form, so that they work without script. Their token is a field of the form."""


class WebGuard:
    """Wraps an app in the checks. `port` is the port of the server."""

    def __init__(self, app: App, port: int, *, token: str | None = None) -> None:
        self._app = app
        self._hosts = {f"{name}:{port}".encode() for name in ("127.0.0.1", "localhost", "[::1]")}
        self._origins = {b"http://" + host for host in self._hosts}
        self.cookie = f"clew_{port}"
        self.entrance: str | None = token or token_urlsafe(32)
        """The token of the last URL; None once it was used."""
        self.secret = token_urlsafe(32)
        """The value of the cookie."""
        self.page_token = token_urlsafe(32)
        """The token that a page sends with a write."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request that fails a check; passes on any other."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # no route speaks WebSocket
            await send({"type": "websocket.close", "code": 1008})
            return
        headers: Headers = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value)
        refused = self._refuse(scope, headers)
        answer = _with_headers(send)
        if refused is not None:
            await _answer(answer, *refused)
        elif scope["path"] == ENTER:
            await self._enter(scope, answer)
        elif scope["path"] == FRESH:
            await self._fresh(scope, headers, answer)
        elif not self._is_known(headers):
            await _answer(answer, 401, "Open the URL that 'clew serve' printed. Each URL works once.")
        elif scope["method"] in _READS:
            await self._app(scope, receive, answer)
        else:
            refused = self._refuse_write(scope, headers)
            if refused is not None:
                await _answer(answer, *refused)
            else:
                await self._app(scope, _limited(receive), answer)

    def _refuse(self, scope: Scope, headers: Headers) -> tuple[int, str] | None:
        if sum(len(name) + sum(map(len, values)) for name, values in headers.items()) > MAX_HEADERS:
            return 431, "The headers are too large."
        if len(scope["raw_path"]) + len(scope["query_string"]) > MAX_URL:
            return 414, "The URL is too long."
        hosts = headers.get(b"host", [])
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return 421, "This server is not known under that name."
        if is_other_site(scope["headers"]):
            return 403, "Another site cannot use this page."
        if scope["method"] not in (*_READS, "POST"):
            return 405, "Only GET and POST are allowed."
        if b"transfer-encoding" in headers:  # with both headers, two readers may disagree where a request ends
            return 400, "A request needs a Content-Length."
        return None

    def _refuse_write(self, scope: Scope, headers: Headers) -> tuple[int, str] | None:
        if headers.get(b"origin", [b""])[0] not in self._origins or len(headers[b"origin"]) != 1:
            return 403, "A write must come from the page itself."
        try:
            size = int(headers.get(b"content-length", [b"-1"])[0])
        except ValueError:
            size = -1
        if not 0 <= size <= MAX_BODY:
            return 413, f"A request has at most {MAX_BODY:,} bytes, and says how many."
        if scope["path"] in FORMS:
            return None
        if headers.get(b"content-type", [b""])[0].split(b";")[0].strip().lower() != b"application/json":
            return 415, "A write is sent as JSON."
        if not self.is_page_token(headers.get(PAGE_TOKEN.encode(), [b""])[0].decode("latin-1")):
            return 403, "The token of the page is missing. Reload the page."
        return None

    def is_page_token(self, given: str) -> bool:
        """True for the token that pages of this server carry."""
        return hmac.compare_digest(given.encode(), self.page_token.encode())

    def _is_known(self, headers: Headers) -> bool:
        wanted = self.secret.encode()
        given = [value.removeprefix(b"Bearer ") for value in headers.get(b"authorization", [])]
        for line in headers.get(b"cookie", []):
            for pair in line.split(b";"):
                name, _, value = pair.strip().partition(b"=")
                if name == self.cookie.encode():
                    given.append(value)
        return any(hmac.compare_digest(value, wanted) for value in given)

    async def _fresh(self, scope: Scope, headers: Headers, send: Send) -> None:
        """Answers a new one-time token, which replaces one that was not used. A cookie is not enough: pages have it."""
        given = headers.get(b"authorization", [b""])[0].removeprefix(b"Bearer ")
        if scope["method"] != "GET" or not hmac.compare_digest(given, self.secret.encode()):
            await _answer(send, 401, "Only the user who started the server can ask for a URL: clew serve --url")
            return
        self.entrance = token_urlsafe(32)
        await _answer(send, 200, self.entrance)

    async def _enter(self, scope: Scope, send: Send) -> None:
        query = parse_qs(scope["query_string"].decode("latin-1"))
        given = query.get("token", [""])[0]
        if (
            scope["method"] != "GET"
            or self.entrance is None
            or not hmac.compare_digest(given.encode(), self.entrance.encode())
        ):
            await _answer(send, 401, "This URL was used already, or is not complete. For another: clew serve --url")
            return
        self.entrance = None
        to = query.get("to", ["/"])[0]
        to = to if to.startswith("/") and not to.startswith(("//", "/\\")) else "/"
        cookie = f"{self.cookie}={self.secret}; HttpOnly; SameSite=Strict; Path=/"
        headers = [(b"location", quote(to, safe="/?=&#~.-_").encode()), (b"set-cookie", cookie.encode())]
        await send({"type": "http.response.start", "status": 303, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


def _with_headers(send: Send) -> Send:
    async def answer(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", []))
            names = {name.lower() for name, _ in headers}
            headers += [(name, value) for name, value in _ALWAYS.items() if name not in names]
            message = {**message, "headers": headers}
        await send(message)

    return answer


def _limited(receive: Receive) -> Receive:
    """Cuts a body off at the limit: a request may say one size and send another."""
    size = 0

    async def limited() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        return message if size <= MAX_BODY else {"type": "http.disconnect"}

    return limited


async def _answer(send: Send, status: int, text: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": f"{text}\n".encode()})
