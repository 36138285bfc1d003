"""A bucket on the loopback interface that speaks enough of S3: objects, ranges, lists, and conditional writes."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape


class Bucket:
    """Its objects by key, what was asked of it, and what it refuses."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.asked: list[tuple[str, str, str]] = []
        self.refuse = 0
        """A status for every request, if it is one."""
        self.lose = 0
        """So many saves are kept, and their answers are lost."""
        self.url = ""


def tag(data: bytes) -> str:
    return f'"{hashlib.md5(data).hexdigest()}"'  # as S3 does


@contextmanager
def served() -> Iterator[Bucket]:
    bucket, lock = Bucket(), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def key(self) -> str:
            return unquote(urlsplit(self.path).path).removeprefix("/bucket").removeprefix("/")

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            condition = f"if-match {self.headers['If-Match']}" if "If-Match" in self.headers else ""
            with lock:
                bucket.asked.append((self.command, self.key(), self.headers.get("Range", condition)))
                if bucket.refuse:
                    self.answer(bucket.refuse, b"<Error><Code>Refused</Code></Error>")
                    return
                getattr(self, self.command.lower())(self.key(), body)

        do_GET = do_PUT = do_DELETE = do_HEAD = do_POST = handle_any

        def put(self, key: str, body: bytes) -> None:
            wanted = self.headers.get("If-Match")
            there = bucket.objects.get(key)
            if wanted is not None and (there is None or tag(there) != wanted):
                return self.answer(404 if there is None else 412, b"<Error><Code>PreconditionFailed</Code></Error>")
            bucket.objects[key] = body
            if bucket.lose:
                bucket.lose -= 1
                return self.answer(500)
            return self.answer(200, ETag=tag(body))

        def get(self, key: str, _: bytes) -> None:
            query = parse_qs(urlsplit(self.path).query)
            if "list-type" in query:
                return self.answer(200, listed(bucket, query.get("prefix", [""])[0]))
            data = bucket.objects.get(key)
            if data is None:
                return self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            headers = {"ETag": tag(data), "Last_Modified": "Thu, 26 Mar 2026 10:00:00 GMT"}
            wanted = self.headers.get("Range")
            if wanted is None:
                return self.answer(200, data, **headers)
            first, last = (int(number) for number in wanted.removeprefix("bytes=").split("-"))
            part = data[first : last + 1]
            span = f"bytes {first}-{first + len(part) - 1}/{len(data)}"
            return self.answer(206, part, Content_Range=span, **headers)

        head = get

        def delete(self, key: str, _: bytes) -> None:
            bucket.objects.pop(key, None)
            self.answer(204)

        def post(self, _: str, body: bytes) -> None:
            """Several are deleted at once."""
            keys = [part.partition("</Key>")[0] for part in body.decode().split("<Key>")[1:]]
            for key in keys:
                bucket.objects.pop(key, None)
            gone = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
            self.answer(200, f'<?xml version="1.0"?><DeleteResult>{gone}</DeleteResult>'.encode())

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    bucket.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield bucket
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def listed(bucket: Bucket, prefix: str) -> bytes:
    found = "".join(
        f"<Contents><Key>{escape(key)}</Key><Size>{len(data)}</Size><ETag>{escape(tag(data))}</ETag>"
        "<LastModified>2026-03-26T10:00:00.000Z</LastModified></Contents>"
        for key, data in sorted(bucket.objects.items())
        if key.startswith(prefix)
    )
    return f'<?xml version="1.0"?><ListBucketResult><IsTruncated>false</IsTruncated>{found}</ListBucketResult>'.encode()
