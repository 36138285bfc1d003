"""What a store tells of its waits: a line for a slow one, and metrics through OpenTelemetry."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import clew
from clew import otel
from clew.backends import timing
from clew.store.store import timing_of

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

CANARY = "canary-5d11"


class Metrics:
    """The metrics of a store, read back."""

    def __init__(self) -> None:
        self.reader = InMemoryMetricReader()
        self.provider = MeterProvider([self.reader])

    def __call__(self) -> dict[str, tuple[dict[str, Any], Any]]:
        """Each metric's attributes, and its value or how many values it had."""
        data = self.reader.get_metrics_data()
        found = {}
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    (point,) = metric.data.data_points
                    value = getattr(point, "count", None)
                    found[metric.name.removeprefix("clew.store.")] = (
                        dict(point.attributes or {}), point.value if value is None else value  # type: ignore[union-attr]
                    )  # fmt: skip
        return found


def held(store: clew.Store, seconds: float) -> threading.Thread:
    """A thread that has the write lock for some seconds, from when this returns."""
    ready = threading.Event()

    def hold() -> None:
        with store.transaction():
            ready.set()
            time.sleep(seconds)

    thread = threading.Thread(target=hold)
    thread.start()
    assert ready.wait(30)
    return thread


@pytest.mark.parametrize("same", [True, False])
def test_a_slow_wait_for_the_lock_is_one_line(
    path: Path, same: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a thread and behind another program alike: the store and the seconds, and nothing of content."""
    monkeypatch.setattr(timing, "SLOW", 0.2)
    with clew.open(path) as store, clew.open(path) as other:
        session = store.sessions.create(title=CANARY)
        timing_of(store).threshold = 0.2
        thread = held(store if same else other, 0.5)
        session.append(CANARY)
        thread.join()
        session.append(CANARY)
    (line,) = [one for one in caplog.records if one.name == "clew.store"]
    assert line.levelno == logging.WARNING
    assert line.getMessage().startswith(f"{path}: a write waited 0.")
    assert CANARY not in line.getMessage()


def test_a_slow_commit_is_one_line(
    path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Appends that repeat the last one, and all other writes."""
    monkeypatch.setattr(timing, "SLOW", 0.0)
    with clew.open(path) as store:
        session = store.sessions.create()
        session.append("1")
        timing_of(store).threshold = 0.0
        for write in (lambda: session.append("2"), lambda: session.rename("a")):
            caplog.clear()
            write()
            assert [one.getMessage() for one in caplog.records] == [f"{path}: a commit took 0.0 s"]


def test_a_program_without_logging_prints_nothing(path: Path) -> None:
    """Python would write a warning to stderr if no handler takes it."""
    code = (
        "import sys, clew; from clew.backends import timing; timing.SLOW = -1.0\n"
        "with clew.open(sys.argv[1]) as store: store.sessions.create().append('a')\n"
        "assert 'logging' in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_quick_store_logs_nothing(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A line is for what takes over a second."""
    with clew.open(path) as store:
        session = store.sessions.create()
        for _ in range(5):
            session.append(CANARY)
    assert caplog.records == []


@pytest.mark.parametrize("key", [None, b"k" * 32])
def test_metrics_of_a_store(path: Path, key: bytes | None) -> None:
    """Commits, waits, units and the size, with the name that was given, until they are stopped."""
    metrics = Metrics()
    with clew.open(path, key=key) as store:
        session = store.sessions.create(title=CANARY)
        stop = otel.instrument_store(store, name="main", meter_provider=metrics.provider)
        for _ in range(5):
            session.append(CANARY)
        store.write(lambda unit: None)
        thread = held(store, 0.05)
        session.rename(CANARY)
        thread.join()
        found = metrics()
        assert {name: value for name, (_, value) in found.items() if name != "size"} == {
            "commit.duration": 8, "unit.duration": 1, "lock.wait": 1,
        }  # fmt: skip
        assert found["size"][1] >= path.stat().st_size
        assert {tuple(about.items()) for about, _ in found.values()} == {(("clew.store.name", "main"),)}
        stop()
        session.append(CANARY)
        assert metrics().get("commit.duration", (None, 8))[1] == 8
        assert timing_of(store).threshold == timing.SLOW


def test_metrics_of_several_observers_and_of_a_closed_store(path: Path) -> None:
    """Each gets all measurements; a closed store has no size."""
    one, two = Metrics(), Metrics()
    with clew.open(path) as store:
        stop = otel.instrument_store(store, meter_provider=one.provider)
        otel.instrument_store(store, meter_provider=two.provider)
        store.sessions.create()
        stop()
        store.sessions.create()
        assert (one()["commit.duration"][1], two()["commit.duration"][1]) == (1, 2)
    with clew.open(":memory:") as memory:
        otel.instrument_store(memory, meter_provider=one.provider)
        memory.sessions.create()


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_metrics_of_an_async_store(path: Path) -> None:
    """Its sync store is instrumented."""
    import clew.aio

    metrics = Metrics()
    async with clew.aio.open(path) as store:
        otel.instrument_store(store.sync, meter_provider=metrics.provider)
        session = await store.sessions.create()
        await session.append(CANARY)
        assert metrics()["commit.duration"][1] == 2
