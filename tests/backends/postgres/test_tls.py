"""Connections to other hosts: whether they have TLS, and who is told if not."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import clew
from clew.backends.postgres.connection import UnencryptedConnection
from clew.errors import Unavailable
from clew.store.parts import Parts
from clew.testing.providers import self_signed
from tests.backends.postgres.server import Server, distribution, started
from tests.backends.postgres.test_cli import clew as command


@pytest.fixture(scope="module")
def address() -> str:
    """An address of this machine that is no loopback: to a client it is another host."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent
        except OSError:
            pytest.skip("this machine has no network")
        return str(probe.getsockname()[0])


@pytest.fixture(scope="module")
def own(address: str) -> Iterator[Server]:
    """A server that listens on the network, first without TLS."""
    with socket.create_server((address, 0)) as taken:
        port = taken.getsockname()[1]
    server = started(programs=distribution, settings={"listen_addresses": f"{address},127.0.0.1", "port": str(port)})
    yield server
    server.stop()


@pytest.fixture
def encrypted(own: Server, tmp_path: Path) -> Iterator[Path]:
    """The certificate with which it speaks TLS for now."""
    certificate, key = self_signed(tmp_path)
    for one in (certificate, key):
        copied = Path(shutil.copy(one, own.folder / one.name))
        copied.chmod(0o600)
        if os.geteuid() == 0:
            os.chown(copied, 65534, 65534)
    with own.connect() as conn:
        for name, value in (("ssl_cert_file", certificate.name), ("ssl_key_file", key.name)):
            conn.execute(f"ALTER SYSTEM SET {name} = '{own.folder / value}'")
        conn.execute("ALTER SYSTEM SET ssl = on")
        conn.execute("SELECT pg_reload_conf()")
        yield certificate
        conn.execute("ALTER SYSTEM SET ssl = off")
        conn.execute("SELECT pg_reload_conf()")


def at(own: Server, host: str, **query: str) -> str:
    return own.url(**query).replace(f"host={own.folder}", f"host={host}")


def test_another_host_without_tls(own: Server, address: str) -> None:
    """A connection to another host without TLS is a warning, once for a store, that names no password."""
    with pytest.warns(UnencryptedConnection, match="without TLS") as told:
        store = clew.open(at(own, address).replace("clew@", "clew:secret@"))
    assert len(told) == 1
    assert "verify-full" in str(told[0].message)
    assert "secret" not in str(told[0].message)
    with store, Parts.of(store).engine.backend.reader():
        store.sessions.list()  # on another connection: a second warning would be an error


def test_this_host(own: Server) -> None:
    """A socket and a loopback address go over no network: there is no warning."""
    for url in (own.url(), at(own, "127.0.0.1"), at(own, "localhost", hostaddr="127.0.0.1")):
        clew.open(url).close()  # a warning would be an error


def test_tls_is_used_where_the_server_has_it(own: Server, address: str, encrypted: Path) -> None:
    """With TLS on the server a connection has it, unasked, and there is no warning; `disable` in the URL is obeyed."""
    with clew.open(at(own, address)) as store:
        used = Parts.of(store).engine.read(
            lambda tx: tx.conn.execute("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").fetchone()  # type: ignore[attr-defined]
        )
    assert used == (True,)
    with pytest.warns(UnencryptedConnection):
        clew.open(at(own, address, sslmode="disable")).close()


def test_a_certificate_that_is_checked(own: Server, address: str, encrypted: Path, tmp_path: Path) -> None:
    """With verify-full a server with the right certificate is let in, another is Unavailable at once."""
    checked = {"hostaddr": address, "sslmode": "verify-full", "sslrootcert": str(encrypted)}
    clew.open(at(own, "localhost", **checked)).close()
    with pytest.raises(Unavailable, match="does not match host name"):
        clew.open(at(own, "db.example", **checked), timeout=60)
    (tmp_path / "other").mkdir()
    another, _ = self_signed(tmp_path / "other")
    with pytest.raises(Unavailable, match="certificate"):
        clew.open(at(own, "localhost", **checked | {"sslrootcert": str(another)}), timeout=60)


def test_the_command_line_says_it_in_one_line(own: Server, address: str, tmp_path: Path) -> None:
    """A command warns in one line on stderr, and `doctor` has it among its checks; nobody is told of a socket."""
    url = at(own, address)
    made = command("append", "--db", url, home=tmp_path, typed='{"text": "first"}\n')
    assert made.returncode == 0, made.stderr
    assert [line for line in made.stderr.splitlines() if "TLS" in line] == made.stderr.splitlines()[:1]
    assert made.stderr.startswith("clew: warning: postgresql://clew@")
    checks = json.loads(command("doctor", "--db", url, "--json", home=tmp_path).stdout)
    assert [one["state"] for one in checks["items"] if one["name"] == "tls"] == ["note"]
    here = url.replace(f"host={address}", f"host={own.folder}")
    looked = command("doctor", "--db", here, "--json", home=tmp_path)
    assert looked.stderr == ""
    assert [one for one in json.loads(looked.stdout)["items"] if one["name"] == "tls"] == []


def test_the_driver_prefers_tls() -> None:
    """Where a URL says nothing of TLS, the driver asks the server for it."""
    (mode,) = [one.compiled for one in psycopg.pq.Conninfo.get_defaults() if one.keyword == b"sslmode"]
    assert mode == b"prefer"
