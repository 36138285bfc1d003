"""Jobs run behind the program, in order, and none is forgotten."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from clew.base import worker as module
from clew.base.worker import Worker
from tests.reliability.tools import output, python


def test_jobs_run_in_order_and_are_finished() -> None:
    """Jobs run one after the other on another thread; closing waits for them, and what they raised is kept."""
    done: list[int] = []
    worker, begin = Worker("test"), threading.Event()
    worker.add(lambda: begin.wait(30))
    for n in range(3):
        worker.add(lambda n=n: done.append(n))  # type: ignore[misc]
    worker.add(lambda: 1 / 0)
    assert len(worker) >= 4
    begin.set()
    assert worker.close(30) == 0
    assert done == [0, 1, 2]
    assert [type(one) for one in worker.failures] == [ZeroDivisionError]
    assert worker.close(30) == 0
    worker.add(lambda: done.append(3))
    assert len(worker) == 0
    assert not [thread for thread in threading.enumerate() if thread.name == "test"]


def test_jobs_that_take_too_long_are_counted() -> None:
    """Closing does not wait for ever: it returns the number of unfinished jobs, and starts no waiting ones."""
    go_on, begun = threading.Event(), threading.Event()
    done: list[int] = []
    worker = Worker("test")

    def slow() -> None:
        begun.set()
        go_on.wait(30)

    worker.add(slow)
    worker.add(lambda: done.append(2))
    assert begun.wait(30)
    thread = worker._thread
    assert thread is not None
    assert not worker.flush(0.01)
    assert worker.close(0.01) == 2
    go_on.set()
    thread.join(30)
    assert done == []


def test_a_delay() -> None:
    """A job with a delay runs after it; added again it stays one job, and may run sooner. Closing drops it."""
    worker, done = Worker("test"), list[float]()
    began = time.monotonic()

    def job() -> None:
        done.append(time.monotonic() - began)

    worker.add(job, after=0.05)
    worker.add(job, after=3600)
    assert worker.flush(30)  # which does not wait for it
    while not done:
        time.sleep(0.005)
    assert 0.05 <= done[0] < 30
    worker.add(job, after=3600)
    worker.add(job)
    assert worker.flush(30)
    assert len(done) == 2
    worker.add(job, after=3600)
    assert worker.close(30) == 0
    assert len(done) == 2


def test_a_job_may_add_itself_and_close() -> None:
    """A job that is added while it runs, runs again. One that closes its worker does not wait for itself."""
    worker, done, closed = Worker("test"), list[int](), threading.Event()

    def job() -> None:
        done.append(1)
        if len(done) < 3:
            worker.add(job)
        else:
            assert worker.close() == 0
            closed.set()

    worker.add(job)
    assert closed.wait(30)
    assert done == [1, 1, 1]


def test_the_thread_ends_when_it_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then a later job begins another."""
    monkeypatch.setattr(module, "IDLE", 0.001)
    worker, again = Worker("test"), threading.Event()
    worker.add(lambda: None)
    thread = worker._thread
    if thread is not None:
        thread.join(30)
        assert not thread.is_alive()
    worker.add(again.set)
    assert again.wait(30)


def test_without_a_thread_a_job_runs_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """If no thread can be started, the caller runs it, and no job is lost."""

    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    worker, done = Worker("test"), list[int]()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        worker.add(lambda: done.append(1), after=3600)
    assert done == [1]


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_process_has_none_of_the_jobs() -> None:
    """Those of its parent are its parent's; its own run on a thread of its own."""
    worker, begin, done = Worker("test"), threading.Event(), list[int]()
    worker.add(lambda: begin.wait(30))
    worker.add(lambda: done.append(1))
    child = os.fork()
    if child == 0:
        fine = worker.flush(30) and len(worker) == 0 and worker.close() == 0
        worker.add(lambda: done.append(2))
        os._exit(0 if fine and worker.flush(30) and done == [2] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    begin.set()
    assert worker.flush(30)
    assert done == [1]
    worker.close()


ENDS = """
import sys
from clew.base.worker import Worker
kept, lost = Worker("kept", at_exit=30), Worker("lost")
for worker, name in ((kept, "kept"), (lost, "lost")):
    worker.add(lambda name=name: open(sys.argv[1] + name, "w").close(), after=3600)
del kept
"""


def test_the_end_of_a_program(tmp_path: Path) -> None:
    """It waits for the jobs of a worker that says so, also for those with a delay."""
    output(python(ENDS, f"{tmp_path}/"))
    assert [one.name for one in tmp_path.iterdir()] == ["kept"]
