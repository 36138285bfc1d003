"""What a store on a server tells of its waits."""

from __future__ import annotations

import threading

import pytest

import clew
from clew import otel
from clew.backends import timing
from clew.store.store import timing_of, usage_of
from tests.store.test_timing import CANARY, Metrics, held


def test_waits_and_commits_of_a_server_are_measured(url: str) -> None:
    """An append is a commit; other writes wait for the lock, also if it is free; a call waits for a connection."""
    metrics = Metrics()
    with clew.open(url) as store:
        session = store.sessions.create(title=CANARY)
        session.append(CANARY)
        otel.instrument_store(store, meter_provider=metrics.provider)
        for _ in range(5):
            session.append(CANARY)
        session.rename(CANARY)
        found = {name: value for name, (_, value) in metrics().items()}
        assert (found["commit.duration"], found["lock.wait"]) == (6, 1)
        assert found["connection.wait"] >= 6
        assert (found["connections"], found["pool_size"]) == (0, 8)
        assert found["size"] > 8192
        with store.transaction():
            assert usage_of(store).connections == 1


@pytest.mark.parametrize("what", ["connection", "lock"])
def test_a_slow_wait_is_one_line(
    url: str, what: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind another writer, and for a connection, without the password and without content."""
    monkeypatch.setattr(timing, "SLOW", 0.3)
    with clew.open(url, pool_size=2) as store, clew.open(url) as other:
        session = store.sessions.create(title=CANARY)
        timing_of(store).threshold = 0.3
        if what == "lock":
            threads = [held(other, 0.7)]
            with store.transaction():
                pass
        else:
            ends = threading.Barrier(3)
            threads = [threading.Thread(target=store.read, args=[lambda unit: ends.wait(30)]) for _ in range(2)]
            for thread in threads:
                thread.start()
            while usage_of_pool(store) < 2:
                pass
            threading.Timer(0.7, ends.wait).start()
            session.refresh()
        for thread in threads:
            thread.join()
    told = {"lock": "a write waited", "connection": "a call waited"}[what]
    (line,) = [one.getMessage() for one in caplog.records if one.name == "clew.store"]
    assert line.startswith(f"{store.path}: {told} 0.")
    assert CANARY not in line


def usage_of_pool(store: clew.Store) -> int:
    """Connections in use, without taking one."""
    from clew.store.parts import Parts

    used, _ = Parts.of(store).engine.backend._connections.in_use()  # type: ignore[attr-defined]
    return int(used)


def test_a_broken_connection_is_a_retry(proxy) -> None:
    """The append is stored once, and counted as tried again."""
    metrics = Metrics()
    with clew.open(proxy.url(), timeout=10) as store:
        session = store.sessions.create()
        session.append("1")
        otel.instrument_store(store, meter_provider=metrics.provider)
        proxy.cut_at(b"CANARY", "after")
        session.append("CANARY")
        assert metrics()["retries"][1] >= 1
        assert len(session.path()) == 2
