"""Zeros at the end of the write-ahead log, so that a sync does not have to write its new size."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

import pytest

import clew
from clew.backends.sqlite import reserve
from clew.backends.sqlite.reserve import EVERY, STEP, LogSpace
from clew.backends.sqlite.wal import pages_in_log
from clew.store.store import Store

FRAME = 24 + 4096
BUSY = """
import sys, clew
with clew.open(sys.argv[1]) as store:
    session = store.sessions.get(sys.argv[2])
    for number in range(int(sys.argv[3])):
        session.append(clew.user(f"{sys.argv[4]} {number}"))
        print(number, flush=True)
"""


@pytest.fixture
def log(path: Path) -> Path:
    """The log of the store at `path`."""
    return path.with_name(f"{path.name}-wal")


def zeros(log: Path) -> int:
    """The number of zeros at the end of the log."""
    data = log.read_bytes()
    return len(data) - len(data.rstrip(b"\0"))


def test_the_log_grows_in_steps(store: Store, log: Path) -> None:
    """Appends change the size of the log once in a while, and never reach its end."""
    session = store.sessions.create()
    session.append([clew.user("the first")])
    for number in range(3):
        session.append(clew.user(f"before {number}"))
    sizes = set()
    for number in range(60):
        session.append(clew.user(f"message {number}"))
        sizes.add(log.stat().st_size)
        assert zeros(log) > FRAME
    assert 2 <= len(sizes) <= 6
    assert max(sizes) < 64 * 5 * FRAME + 3 * STEP


def test_one_append_makes_nothing_longer(path: Path, log: Path) -> None:
    """A program that appends one message and ends does not write any zeros."""
    with clew.open(path) as store:
        id = store.sessions.create().id
    with clew.open(path) as store:
        store.sessions.get(id).append(clew.user("hello"))
        assert log.stat().st_size < STEP


def test_the_log_stays_as_long_as_it_is(store: Store, log: Path) -> None:
    """Once SQLite writes from the beginning of the log again, nothing is added."""
    session = store.sessions.create()
    with closing(sqlite3.connect(store.path)) as conn:
        for _ in range(4):
            for number in range(20):
                session.append(clew.user(f"message {number}"))
            size = log.stat().st_size
            conn.execute("PRAGMA wal_checkpoint(RESTART)")
    assert log.stat().st_size == size
    assert size < 4 * STEP


def test_other_processes(store: Store, path: Path, log: Path, sound: Callable[[Store], None]) -> None:
    """Several processes that write by turns make the log no longer than one would, and lose nothing."""
    sessions = [store.sessions.create() for _ in range(3)]
    command = [sys.executable, "-c", BUSY, str(path)]
    others = [
        subprocess.Popen([*command, session.id, "30", "said"], stdout=subprocess.DEVNULL) for session in sessions[1:]
    ]
    for number in range(30):
        sessions[0].append(clew.user(f"said {number}"))
    assert [other.wait() for other in others] == [0, 0]
    assert log.stat().st_size < 100 * 5 * FRAME + 4 * STEP
    for session in sessions:
        assert [node.text for node in session.path()] == [f"said {number}" for number in range(30)]
    sound(store)


def test_a_writer_that_is_killed(store: Store, path: Path, tmp_path: Path, sound: Callable[[Store], None]) -> None:
    """A log that ends in zeros has every acknowledged message, and no damage, also in a copy of the files."""
    session = store.sessions.create()
    command = [sys.executable, "-c", BUSY, str(path), session.id, "100000", "said"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        for _ in range(25):
            acknowledged = int(other.stdout.readline())
        other.send_signal(signal.SIGKILL)
    copy = tmp_path / "copy" / path.name
    copy.parent.mkdir()
    for end in ("", "-wal"):
        shutil.copy(f"{path}{end}", f"{copy}{end}")
    assert zeros(Path(f"{copy}-wal"))
    with clew.open(copy) as opened:
        for one in (opened, store):
            said = [node.text for node in one.sessions.get(session.id).path()]
            assert said == [f"said {number}" for number in range(len(said))]
            assert len(said) > acknowledged
            sound(one)


def test_damage_before_the_zeros(store: Store, path: Path, log: Path) -> None:
    """A damaged frame with commits after it is reported, though zeros follow them; the zeros are no pages."""
    session = store.sessions.create()
    for number in range(6):
        session.append(clew.user(f"message {number}"))
    assert zeros(log) > FRAME
    assert 0 not in pages_in_log(str(path))
    assert store.verify().ok
    with log.open("r+b") as file:
        file.seek(32 + 2 * FRAME + 100)
        old = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([old[0] ^ 1]))
    assert [one.what for one in store.verify().damage] == ["wal"]


@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), 1000], ids=["full", "partly"])
def test_a_disk_without_space(store: Store, log: Path, fault: OSError | int, sound: Callable[[Store], None]) -> None:
    """If there is no space for the zeros, or for some of them, appends continue."""
    session = store.sessions.create()
    write = os.pwrite

    def fail(fd: int, data: bytes, where: int) -> int:
        if isinstance(fault, OSError):
            raise fault
        return write(fd, data[:fault], where)

    with patch("clew.backends.sqlite.reserve.os.pwrite", fail):
        for number in range(40):
            session.append(clew.user(f"message {number}"))
    assert [node.text for node in session.path()] == [f"message {number}" for number in range(40)]
    assert zeros(log) < FRAME
    sound(store)


def test_a_small_disk(path: Path, log: Path) -> None:
    """If the disk has too little space for a whole reserve, none is used for zeros."""
    with patch.object(reserve, "PLENTY", 1 << 60), patch.object(reserve, "SHARE", 1 << 30), clew.open(path) as store:
        session = store.sessions.create()
        for number in range(10):
            session.append(clew.user(f"message {number}"))
        assert zeros(log) < FRAME


def test_another_file_in_place_of_the_log(tmp_path: Path) -> None:
    """Zeros are only written to the file that was the log when the store was opened."""
    file = tmp_path / "chats.db-wal"
    file.write_bytes(b"precious")
    found = file.stat()
    for log, size in (((found.st_dev, found.st_ino + 1), 8), (None, 8), ((found.st_dev, found.st_ino), 8 + STEP)):
        space = LogSpace(str(tmp_path / "chats.db"))
        for _ in range(2 * EVERY):
            space.keep(log)
        space.close()
        assert file.stat().st_size == size
