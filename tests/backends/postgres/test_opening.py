"""Opening a store on a server that is away, coming back, or does not let this user in."""

from __future__ import annotations

import os
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

import clew
from clew.backends.postgres.errors import is_temporary
from clew.errors import NotFound, Unavailable
from tests.backends.postgres.proxy import Proxy
from tests.backends.postgres.server import Server, started

AT = 'connection failed: connection to server at "db.example" (192.0.2.7), port 5432 failed:'


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def test_a_server_that_does_not_listen_yet(server: Server) -> None:
    """`open` waits for a server that refuses connections, up to the timeout."""
    port = free_port()
    late = threading.Timer(1.0, lambda: links.append(Proxy(server, port)))
    links: list[Proxy] = []
    url = server.url(schema="late").replace(f"{server.folder}&port={server.port}", f"127.0.0.1&port={port}")
    late.start()
    began = time.monotonic()
    try:
        with clew.open(url, timeout=30) as store:
            assert time.monotonic() - began > 0.9
            store.sessions.create().append(clew.user("first"))
    finally:
        late.join()
        links[0].close()


def test_a_server_that_is_killed_and_comes_back() -> None:
    """`open` waits while a killed server is away, starts and recovers, and connects again if its link breaks."""
    own = started()
    try:
        urls = [own.url() for _ in range(4)]
        with clew.open(urls[0]) as store:
            store.sessions.create().append(clew.user("first"))
        with ThreadPoolExecutor(4) as pool:
            opening = [pool.submit(clew.open, url, timeout=60) for url in urls[:2]]
            own.kill()
            opening += [pool.submit(clew.open, url, timeout=60) for url in urls[2:]]
            own.start()
            for one in opening:
                one.result(60).close()
        with clew.open(urls[0], create=False) as store:
            assert [node.text for node in store.sessions.latest().path()] == ["first"]
    finally:
        own.stop()


def test_a_server_that_stays_away() -> None:
    """After the timeout `open` is Unavailable; the error names the host, and has no password."""
    port = free_port()
    began = time.monotonic()
    with pytest.raises(Unavailable, match=f"127.0.0.1:{port}.*refused") as told:
        clew.open(f"postgresql://me:secret@127.0.0.1:{port}/x", timeout=1.2)
    assert 1 < time.monotonic() - began < 8
    assert "secret" not in f"{told.value} {told.value.hint} {told.value.__cause__}"


@pytest.mark.parametrize("database", ["postgres", "nothere"])
def test_a_server_that_does_not_let_one_in(server: Server, database: str) -> None:
    """A wrong password, an unknown user and an unknown database are told at once, whatever the timeout."""
    began = time.monotonic()
    url = server.url().replace("/postgres?", f"/{database}?")
    if database == "nothere":
        with pytest.raises(NotFound):
            clew.open(url, timeout=60)
    else:
        with pytest.raises(Unavailable, match="rejects this user"):
            clew.open(url.replace("clew@", "stranger:secret@"), timeout=60)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("said", "passes"),
    [
        (f"{AT} Connection refused\n\tIs the server running on that host?", True),
        (f"{AT} FATAL:  the database system is starting up", True),
        (f"{AT} FATAL:  the database system is in recovery mode", True),
        (
            f"{AT} FATAL:  the database system is not yet accepting connections\nDETAIL:  Recovery state",
            True,
        ),
        (f"{AT} FATAL:  sorry, too many clients already", True),
        (f"{AT} FATAL:  remaining connection slots are reserved for roles with the SUPERUSER attribute", True),
        (f'{AT} FATAL:  too many connections for role "me"', True),
        (f"{AT} FATAL:  canceling authentication due to timeout", True),
        (f"{AT} No route to host", True),
        (f"{AT} session is read-only", True),
        (f"{AT} server closed the connection unexpectedly", True),
        ("connection timeout expired", True),
        ("failed to resolve host 'db.example': [Errno -3] Temporary failure in name resolution", True),
        (f'{AT} FATAL:  password authentication failed for user "me"', False),
        (f"{AT} fe_sendauth: no password supplied", False),
        (f'{AT} FATAL:  role "me" does not exist', False),
        (f'{AT} FATAL:  database "app" does not exist', False),
        (f'{AT} FATAL:  no pg_hba.conf entry for host "192.0.2.1", user "me", database "app", no encryption', False),
        (f"{AT} SSL error: certificate verify failed", False),
        (f"{AT} server does not support SSL, but SSL was required", False),
        (f'{AT} Connection refused\n- host: two: {AT} FATAL:  password authentication failed for user "me"', False),
        (f"{AT} Connection refused\n- host: two: {AT} session is read-only", True),
    ],
)
def test_which_failures_pass(said: str, passes: bool) -> None:
    """A connection is tried again if the server may come back, and not if it would say the same again."""
    assert is_temporary(psycopg.OperationalError(said)) is passes


def test_a_host_that_dies_without_a_word(proxy: Proxy) -> None:
    """While an answer is waited for the other host is probed, so that a dead one is noticed within the timeout."""
    with clew.open(proxy.url(), timeout=40) as store, store._engine.backend._connections.take() as conn:  # type: ignore[attr-defined]
        with socket.socket(fileno=os.dup(conn.fileno())) as link:
            assert link.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            idle, every, limit = (
                link.getsockopt(socket.IPPROTO_TCP, option)
                for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_USER_TIMEOUT)
            )
        assert idle + every < 40
        assert limit == 40_000
