"""P3 after a failover: the primary is killed under load, its synchronous standby promoted, and nothing is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

import clew
from tests.backends.postgres.server import Server, Standby, distribution, started
from tests.concurrency.workers import Writer, stored

ROOT = Path(__file__).resolve().parents[3]


class Pair:
    """A primary and a standby that has each commit before it is acknowledged."""

    def __init__(self) -> None:
        self.primary = started(programs=distribution)
        self.standby: Standby | None = None

    def follow(self) -> None:
        """Begins to follow the primary, and to be waited for."""
        self.standby = Standby(self.primary, programs=distribution)
        with self.primary.connect() as conn:
            conn.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            conn.execute("SELECT pg_reload_conf()")
            until = time.monotonic() + 20
            while not conn.execute("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'").fetchone():
                assert time.monotonic() < until, "the standby does not follow"
                time.sleep(0.05)

    def url(self) -> str:
        """A store on whichever of the two can be written."""
        assert self.standby is not None
        hosts = f"host={self.primary.folder},{self.standby.folder}&port={self.primary.port},{self.standby.port}"
        return f"postgresql://clew@/postgres?{hosts}&target_session_attrs=read-write&schema=t{uuid.uuid4().hex}"

    def fail_over(self) -> None:
        """The primary is gone for good, and the standby takes its place."""
        assert self.standby is not None
        self.primary.kill()
        time.sleep(0.5)  # whoever comes meanwhile finds a server that can only be read
        self.standby.promote()

    def swap(self) -> None:
        """The one that was promoted gets a standby of its own, in place of the lost one."""
        assert self.standby is not None
        lost, self.primary = self.primary, self.standby
        lost.stop()
        self.follow()

    def stop(self) -> None:
        for one in (self.standby, self.primary):
            if one is not None:
                one.stop()


@pytest.fixture
def pair() -> Iterator[Pair]:
    pair = Pair()
    try:
        pair.follow()
        yield pair
    finally:
        pair.stop()


def storm(pair: Pair, *, writers: int, seconds: float) -> None:
    """Writers append while the primary is killed and the standby promoted; nobody is told, and nothing is lost."""
    url, session = pair.url(), str(uuid.uuid4())
    with clew.open(url) as store:
        store.sessions.create(id=session)
    crew = [Writer(url, session, number, seconds=seconds) for number in range(writers)]
    for writer in crew:
        writer.go()
    for writer in crew:
        assert writer.line() == "ACK 0\n"
    time.sleep(seconds / 5)
    pair.fail_over()
    acked, longest = {}, 0.0
    for writer in crew:
        later, err, summary = writer.finish()
        acked[writer.name] = [0, *later]
        assert (writer.process.returncode, err) == (0, ""), "an error reached a caller"
        assert summary is not None
        longest = max(longest, summary["longest"])
    assert longest > 0.4, "nobody was at work when the primary was killed"
    assert stored(url, session) == acked


def test_a_standby_that_is_promoted(pair: Pair) -> None:
    """The primary is killed under load and the standby promoted: all that was acknowledged is there, once."""
    storm(pair, writers=3, seconds=3.0)


@pytest.mark.soak
def test_failover_after_failover(pair: Pair) -> None:
    """Ten times, with a new standby each time."""
    for _ in range(10):
        storm(pair, writers=4, seconds=10.0)
        pair.swap()


def test_a_commit_that_the_standby_has_not(pair: Pair) -> None:
    """A commit found again on a restarted primary is not acknowledged before the standby has it, and so not lost."""
    assert pair.standby is not None
    with clew.open(pair.url()) as store:
        session = store.sessions.create()
        session.append(clew.user("first"))
        pair.standby.kill()
        acked = threading.Event()

        def talk() -> None:
            session.append(clew.user("second"))
            acked.set()

        thread = threading.Thread(target=talk)
        thread.start()
        waiting(pair.primary)
        pair.primary.kill()
        pair.primary.start()
        waiting(pair.primary)  # it has found its message there, and waits for the standby
        with pair.primary.connect() as conn:
            schema = store.path.partition("schema=")[2]
            assert conn.execute(f"SELECT count(*) FROM {schema}.nodes").fetchone() == (2,)
        assert not acked.wait(1)
        pair.standby.start()
        pair.fail_over()
        thread.join(60)
        assert acked.is_set()
        assert [node.text for node in session.path()] == ["first", "second"]
        report = store.verify()
        assert report.ok, report.damage


def waiting(server: Server) -> None:
    """Returns when a commit waits for the standby."""
    with server.connect() as look:
        until = time.monotonic() + 20
        while not look.execute("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'").fetchone():
            assert time.monotonic() < until, "nobody waits for the standby"
            time.sleep(0.02)


@pytest.mark.soak
def test_a_host_that_dies_during_an_append() -> None:
    """A host that stops answering during an append is given up, and the append is finished through another."""
    inside = ["unshare", "-n", sys.executable, "-m", "tests.backends.postgres.dead_host"]
    if not shutil.which("unshare") or subprocess.run(["unshare", "-n", "ip", "link"], capture_output=True).returncode:
        assert not os.environ.get("CLEW_REQUIRE_TOOLS"), "no network of its own can be had"
        pytest.skip("no network of its own can be had")
    done = subprocess.run(inside, capture_output=True, text=True, cwd=ROOT, timeout=240)
    assert (done.returncode, done.stdout) == (0, "['first', 'second'] True\n"), done.stderr
