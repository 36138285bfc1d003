"""P3 on a server: processes that write at once lose nothing; nor does anyone when the server itself is killed."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import uuid

import pytest

import clew
from clew.store.session import delete_session
from tests.backends.postgres.server import Server, started
from tests.concurrency.workers import Writer, crowd, stored


def test_eight_processes(url: str) -> None:
    """Eight processes open a store that does not exist, and append to one session; two are killed."""
    crowd(url, writers=8, count=25, kills=2, pause=0.3)


@pytest.mark.soak
@pytest.mark.parametrize("kills", [0, 3])
def test_eight_processes_of_five_hundred(url: str, kills: int) -> None:
    """Eight processes append five hundred messages each."""
    crowd(url, writers=8, count=500, kills=kills, pause=0.3)


OPENERS = """
import os, sys
import clew, clew.backends.postgres
inlet, outlet = os.pipe()
children = []
for _ in range(20):
    child = os.fork()
    if not child:
        os.close(outlet)
        os.read(inlet, 1)  # until the parent has closed its end: then all begin
        try:
            clew.open(sys.argv[1]).close()
        except BaseException as error:
            print(error, file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    children.append(child)
os.close(outlet)
print(sum(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))
"""


def test_twenty_processes_make_the_store_at_once(url: str) -> None:
    """Twenty processes that find no store all get in, and one of them has made it."""
    done = subprocess.run([sys.executable, "-c", OPENERS, url], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("0\n", "")


def storm(server: Server, *, writers: int, seconds: float, kills: int) -> None:
    """The server is killed and started again while writers go on; nobody is told of it, and nothing is lost."""
    url, session = server.url(), str(uuid.uuid4())
    with clew.open(url) as store:
        store.sessions.create(id=session)
    crew = [Writer(url, session, number, seconds=seconds) for number in range(writers)]
    for writer in crew:
        writer.go()
        assert writer.line() == "ACK 0\n"  # else the server might be gone before it is opened
    for _ in range(kills):
        time.sleep(seconds / (kills + 1))
        server.kill()
        time.sleep(0.1)
        server.start()
    acked = {}
    for writer in crew:
        later, err, summary = writer.finish()
        acked[writer.name] = [0, *later]
        assert writer.process.returncode == 0, err
        assert err == "", "an error reached a caller"
        assert summary is not None
    assert stored(url, session) == acked


def test_a_server_that_is_killed() -> None:
    """The server is killed twice under load and started again: all that was acknowledged is there, once."""
    server = started(fsync=True)
    try:
        storm(server, writers=3, seconds=3.0, kills=2)
    finally:
        server.stop()


@pytest.mark.soak
def test_a_server_that_is_killed_again_and_again() -> None:
    """Twenty times."""
    server = started(fsync=True)
    try:
        storm(server, writers=4, seconds=60.0, kills=20)
    finally:
        server.stop()


def test_threads_on_many_sessions(url: str) -> None:
    """Threads that append to sessions of their own, and rename, fork and delete in between, get in no one's way."""
    with clew.open(url, durability="relaxed") as store:
        failed: list[BaseException] = []

        def work(number: int) -> None:
            try:
                session = store.sessions.create(title=str(number))
                for step in range(12):
                    session.append(clew.user(f"{number} {step}"))
                    if step % 4 == 1:
                        session.rename(f"{number} {step}")
                    if step % 4 == 2:
                        fork = session.fork()
                        fork.append(clew.user("aside"))
                        delete_session(fork)
                assert [node.text for node in session.path()] == [f"{number} {step}" for step in range(12)]
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        assert store.sessions.list(total=True).total == 6
        report = store.verify()
        assert report.ok, report.damage


def test_a_forked_process(url: str) -> None:
    """A store opened before a fork is no use in the child, and the parent's goes on."""
    code = (
        "import os, sys, clew\n"
        "store = clew.open(sys.argv[1]); session = store.sessions.create()\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    try: session.append(clew.user('no'))\n"
        "    except clew.Closed: os._exit(7)\n"
        "    os._exit(1)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7\n"
        "session.append(clew.user('yes')); print(len(session.path()))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, url], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


@pytest.mark.parametrize("ending", ["sys.exit(0)", "raise ValueError", "raise clew.Invalid('no')", "pass"])
@pytest.mark.parametrize("nested", ["nullcontext()", "store.transaction()"], ids=["", "nested"])
def test_a_child_that_leaves_its_parents_transaction(url: str, ending: str, nested: str) -> None:
    """A child made inside a transaction neither undoes nor commits it, nor ends the parent's connection."""
    program = f"""
import os, sys
from contextlib import nullcontext
import clew

with clew.open(sys.argv[1]) as store:
    session = store.sessions.create()
    with store.transaction(), {nested}:
        session.append(clew.user("first"))
        child = os.fork()
        if child == 0:
            {ending}
        else:
            _, status = os.waitpid(child, 0)
            with clew.open(sys.argv[1]) as other:
                assert other.sessions.get(session.id).path() == [], "the child has committed"
            session.append(clew.user("last"))
    session.append(clew.user("after"))
    print(os.waitstatus_to_exitcode(status))
"""
    done = subprocess.run([sys.executable, "-c", program, url], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ("0\n" if "exit" in ending else "1\n"), done.stderr
    with clew.open(url) as store:
        assert [node.text for node in store.sessions.latest().path()] == ["first", "last", "after"]
        assert store.verify().ok
