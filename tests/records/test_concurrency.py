"""C37: several services on one store lose no messages."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import clew
from clew.records import Policy, RecordService
from clew.testing import FakeClock
from tests.records.talk import frame, given, made, stored, texts

TALKER = """
import sys
import clew
from clew.records import RecordService
from tests.records.talk import frame, stored
name, path, count = sys.argv[1:]
with clew.open(path) as store, RecordService(store) as service:
    record = service.get("talk")
    for n in range(int(count)):
        seen = record.storage.blob_version if n % 2 else None
        change = {"appendMessages": [frame(n + 2, content=f"{name} {n}")]}
        record = stored(service.update("talk", change, expected_version=seen))
        assert record.messages[-1].content == f"{name} {n}" or any(m.content == f"{name} {n}" for m in record.messages)
"""


@pytest.mark.checklist("C37")
@pytest.mark.parametrize("count", [150, pytest.param(500, marks=pytest.mark.soak)])
def test_two_services_lose_no_message(path: Path, count: int) -> None:
    """Two processes update one record many times each, by the version they last saw: all messages are there."""
    with clew.open(path) as store, RecordService(store) as service:
        made(service, "talk", frame(1, content="first"))
        root = Path(__file__).parents[2]
        env = {**os.environ, "PYTHONPATH": f"{root}:{root / 'src'}"}
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", TALKER, name, str(path), str(count)], env=env, stderr=subprocess.PIPE, text=True
            )
            for name in ("one", "other")
        ]
        for writer in writers:
            _, errors = writer.communicate(timeout=240)
            assert writer.returncode == 0, errors
        record = service.get("talk")
        assert record is not None
        said = texts(record)
        assert len(said) == 2 * count + 1
        for name in ("one", "other"):
            assert [one for one in said if one.startswith(name)] == [f"{name} {n}" for n in range(count)]
        assert record.metrics.user_utterance_count == 2 * count + 1
        sequences = [one.sequence for one in record.messages]
        assert sequences == sorted(set(sequences))
        assert store.verify().ok


@pytest.mark.checklist("C37")
def test_threads_share_a_service(path: Path) -> None:
    """Eight threads update one record and create others; a field is set only with the newest version."""
    with clew.open(path) as store, RecordService(store) as service:
        made(service, "talk", frame(1, content="first"))
        conflicts = []

        def work(name: int) -> None:
            for n in range(10):
                seen = service.get("talk")
                assert seen is not None
                service.update("talk", {"appendMessages": [frame(n, content=f"{name}:{n}")]}, expected_version=1)
                try:
                    change = {"title": f"{seen.title}+"}
                    service.update("talk", change, expected_version=seen.storage.blob_version)
                except clew.Conflict:
                    conflicts.append(name)
            service.create(given(f"talk-{name}"))

        threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        record = service.get("talk")
        assert record is not None
        assert len(record.messages) == 81
        assert record.title.count("+") == 80 - len(conflicts)
        assert service.list().total_count == 9


def test_one_create_wins(path: Path) -> None:
    """Of many that create the same record, one succeeds and the others get Conflict."""
    with clew.open(path) as store, RecordService(store) as service:
        outcomes: list[str] = []

        def create() -> None:
            try:
                stored(service.create(given("talk")))
                outcomes.append("stored")
            except clew.Conflict:
                outcomes.append("conflict")

        threads = [threading.Thread(target=create) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes) == ["conflict"] * 7 + ["stored"]


def test_two_services_sweep(path: Path, clock: FakeClock) -> None:
    """Services on one store obey one policy: the one that was stored last."""
    from datetime import timedelta

    with clew.open(path, clock=clock) as one, clew.open(path, clock=clock) as other:
        with RecordService(one, policy=Policy(7)) as short, RecordService(other, policy=Policy(60)) as long:
            made(short, "talk")
            clock.advance(timedelta(days=10))
            assert short.policy == long.policy == Policy(60)
            assert (short.list().total_count, long.list().total_count) == (1, 1)
            assert short.sweep().purged_count == 0
            assert long.set_policy(Policy(7)).purged_count == 1
            assert short.get("talk") is None
