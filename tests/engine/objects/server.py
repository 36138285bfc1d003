"""A server on this machine that speaks S3: moto's, in a process of its own, so that it can be stopped."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import uuid
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote

from clew.base.buckets import Bucket

SIGNED = {
    "Authorization": "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
}


class Server:
    """One server, from `start` to `stop`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.create_server(("127.0.0.1", 0)) as found:
            self.port = found.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        env = {**os.environ, "HOME": str(self._folder)}
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
        until = time.monotonic() + 60
        while True:
            try:
                self.ask("GET", "/")
            except OSError:
                if self._process.poll() is not None or time.monotonic() > until:
                    raise
                time.sleep(0.05)
            else:
                return

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, SIGNED)
            answer = connection.getresponse()
            said = answer.read()
            assert answer.status < 400, said
            return said
        finally:
            connection.close()

    def bucket(self) -> NodeLocation:
        """A bucket that nobody else uses."""
        name = f"b{uuid.uuid4().hex}"
        self.ask("PUT", f"/{name}")
        return NodeLocation(self, name)


class NodeLocation:
    """A bucket, and what is in it."""

    def __init__(self, server: Server, name: str) -> None:
        self.server = server
        self.name = name
        self.url = f"s3://{name}/team/blobs"

    def open(self, *, over: int = 1000, port: int | None = None, prefix: str = "team/blobs") -> Bucket:
        """As a store knows it; what cannot be reached is told at once."""
        config: dict[str, Any] = {
            "endpoint": f"http://127.0.0.1:{port or self.server.port}", "access_key_id": "a", "secret_access_key": "b",
            "region": "us-east-1",
        }  # fmt: skip
        options: dict[str, Any] = {"client_options": {"allow_http": True}, "retry_config": {"max_retries": 0}}
        return Bucket(f"s3://{self.name}/{prefix}", over=over, config=config, **options)

    @property
    def environment(self) -> dict[str, str]:
        """What tells the tools of the provider, and obstore, the same."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.server.port}", "AWS_ACCESS_KEY_ID": "a",
            "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true",
        }  # fmt: skip

    def names(self) -> list[str]:
        """The names of all objects but the marks."""
        said = self.server.ask("GET", f"/{self.name}?list-type=2").decode()
        found = [part.partition("</Key>")[0] for part in said.split("<Key>")[1:]]
        return [name for name in found if not name.endswith("/clew")]

    def get(self, name: str) -> bytes:
        return self.server.ask("GET", f"/{self.name}/{quote(name)}")

    def put(self, name: str, data: bytes) -> None:
        self.server.ask("PUT", f"/{self.name}/{quote(name)}", data)

    def delete(self, name: str) -> None:
        self.server.ask("DELETE", f"/{self.name}/{quote(name)}")

    def unfinished(self) -> int:
        """Uploads in parts that were begun and not ended."""
        return self.server.ask("GET", f"/{self.name}?uploads").count(b"<UploadId>")
