"""The server: listens on this machine, records requests, sends queued responses."""

from __future__ import annotations

import datetime
import ipaddress
import json
import ssl
import threading
from collections import deque
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

from clew.testing.providers.protocols import Events, Fail, QueuedResponse, Redirect, Say, Send, ToolUse, Wire, find

Json = dict[str, Any]


class Request(NamedTuple):
    """A request that the server received."""

    path: str
    headers: dict[str, str]
    """By their names in lowercase."""
    body: bytes

    @property
    def json(self) -> Json:
        """The decoded body."""
        found: Json = json.loads(self.body)
        return found


class ProviderServer:
    """A context manager that runs a provider on a free local port. `certificate` and `key` enable https."""

    def __init__(self, *, certificate: Path | None = None, key: Path | None = None) -> None:
        self.requests: list[Request] = []
        """The requests in order, including refused and failed ones."""
        self.left = threading.Event()
        """Set when the server stops."""
        self._queue: deque[QueuedResponse] = deque()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.owner = self
        self._scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, key)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self._scheme = "https"

    @property
    def url(self) -> str:
        """Its address, without a path."""
        return f"{self._scheme}://127.0.0.1:{self._server.server_port}"

    def base_url(self, provider: str) -> str:
        """The base URL of a provider, for `clew.chat.connect`."""
        return f"{self.url}/v1" if provider.startswith("openai") else self.url

    def say(
        self,
        text: str = "",
        *,
        thinking: str = "",
        calls: tuple[ToolUse, ...] | list[ToolUse] = (),
        tokens: tuple[int, int] | None = (10, 5),
        stop: str | None = None,
        cut: int | None = None,
        ends: int | None = None,
        stalls: int | None = None,
    ) -> None:
        """Queues an answer: thinking, text, tool calls. See `Say`."""
        self._queue.append(Say(text, thinking, tuple(calls), tokens, stop, cut, ends, stalls))

    def fail(self, status: int, message: str = "it was told to fail", *, retry_after: float | None = None) -> None:
        """Queues an error with this status."""
        kind = {429: "rate_limit_error", 529: "overloaded_error"}.get(status, "api_error")
        self._queue.append(Fail(status, message, retry_after, kind))

    def send(self, body: bytes, content_type: str = "application/json") -> None:
        """Queues a response with these bytes."""
        self._queue.append(Send(body, content_type))

    def redirect(self, location: str, status: int = 307) -> None:
        """Queues a redirect to this address."""
        self._queue.append(Redirect(location, status))

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.left.set()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request: Request, wire: Wire) -> QueuedResponse:
        """The response to a request: a refusal, a queued response, or an echo."""
        if not any(request.headers.get(name) for name in wire.token):
            return Fail(401, "a token is required", kind="authentication_error")
        asked = request.json
        if (why := wire.refuses(asked)) is not None:
            return Fail(400, why, kind="invalid_request_error")
        return self._queue.popleft() if self._queue else Say(f"You said: {wire.last_text(asked)}")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    owner: ProviderServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores clients that disconnect."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # send each piece at once, without waiting for an acknowledgement
    server: _Server

    def do_POST(self) -> None:
        url = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.path, headers, body)
        self.server.owner.requests.append(request)
        wire = find(url.path)
        if wire is None:
            self._whole(404, b'{"error":{"message":"no such path"}}')
            return
        response = self.server.owner.answer(request, wire)
        with suppress(ConnectionError):
            self._send_response(response, wire, request)

    def log_message(self, format: str, *args: Any) -> None:
        """Prints nothing."""

    def _send_response(self, response: QueuedResponse, wire: Wire, request: Request) -> None:
        if isinstance(response, Fail):
            retry = {} if response.retry_after is None else {"retry-after": str(response.retry_after)}
            self._whole(response.status, json.dumps(wire.error(response)).encode(), headers=retry)
        elif isinstance(response, Redirect):
            self._whole(response.status, b"", headers={"location": response.location})
        elif isinstance(response, Send):
            self._whole(200, response.body, response.content_type)
        elif request.json.get("stream") or ":streamGenerateContent" in request.path:
            self._stream(response, wire.events(response, self._with_model(request)), done=wire.ends_with_done)
        else:
            self._whole(200, json.dumps(wire.whole(response, self._with_model(request))).encode())

    def _with_model(self, request: Request) -> Json:
        return {"model": "a-model", **request.json}

    def _whole(
        self, status: int, body: bytes, kind: str = "application/json", headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in {"content-type": kind, "content-length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, say: Say, events: Events, *, done: bool) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        limits = [limit for limit in (say.cut, say.ends, say.stalls) if limit is not None]
        for name, data in events[: min(limits, default=len(events))]:
            self._chunk((f"event: {name}\n" if name else "") + f"data: {json.dumps(data)}\n\n")
        if say.stalls is not None:
            self.server.owner.left.wait()
        if say.cut is not None:
            self.close_connection = True  # before the chunk that ends the stream
            return
        if done and say.ends is None:
            self._chunk("data: [DONE]\n\n")
        self._chunk("")

    def _chunk(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))


def self_signed(directory: Path) -> tuple[Path, Path]:
    """A certificate for this machine and its key, made in `directory`."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    names: list[x509.GeneralName] = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate, private = directory / "certificate.pem", directory / "key.pem"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return certificate, private
