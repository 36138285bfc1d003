"""A backup is whole, private, of one moment, and never in anyone's way."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import clew
from clew.errors import Closed, Conflict, Corrupted, Invalid, ReadOnly, StorageFull
from clew.store.store import Store
from tests.reliability import sample
from tests.reliability.tools import need, need_strace, output, python


@pytest.fixture
def full(path: Path) -> Iterator[Store]:
    """A store with something of everything in it."""
    with clew.open(path, clock=sample.clock(), ids=sample.id_source()) as store:
        sample.fill(store)
        yield store


def names(folder: Path) -> set[str]:
    return {one.name for one in folder.iterdir()}


def test_a_backup_reads_equal(full: Store, tmp_path: Path) -> None:
    """The copy opens as a store, is sound, and says the same about everything."""
    target = tmp_path / "copy.db"
    made = full.backup(target)
    assert made == (str(target), target.stat().st_size)
    assert os.stat(target).st_mode & 0o777 == 0o600
    with clew.open(target) as copy:
        assert copy.verify().ok
        assert sample.readings(copy) == sample.readings(full)
        copy.sessions.latest().append(clew.user("it can be written"))
        assert copy.verify().ok
    assert full.verify().ok


def test_only_the_copy_is_left(full: Store, tmp_path: Path) -> None:
    """The copy is one file: no part, no journal, no log beside it."""
    folder = tmp_path / "backups"
    folder.mkdir()
    full.backup(folder / "copy.db")
    assert names(folder) == {"copy.db"}


def test_progress(full: Store, tmp_path: Path) -> None:
    """Progress grows to the whole."""
    steps: list[tuple[int, int]] = []
    full.backup(tmp_path / "copy.db", progress=lambda done, total: steps.append((done, total)))
    assert steps == sorted(steps)
    assert steps[-1][0] == steps[-1][1] > 50


@pytest.mark.parametrize("taken", ["copy.db", "copy.db-wal", "copy.db-journal"])
def test_a_backup_overwrites_nothing(full: Store, tmp_path: Path, taken: str) -> None:
    """A name that is taken is refused, and so is one beside a log that would be taken for the copy's own."""
    (tmp_path / taken).write_bytes(b"precious")
    before = names(tmp_path)
    with pytest.raises(Conflict, match="already exists"):
        full.backup(tmp_path / "copy.db")
    assert names(tmp_path) == before
    assert (tmp_path / taken).read_bytes() == b"precious"


def test_a_link_to_nowhere_is_not_followed(full: Store, tmp_path: Path) -> None:
    """A dangling link counts as taken."""
    (tmp_path / "copy.db").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Conflict):
        full.backup(tmp_path / "copy.db")
    assert not (tmp_path / "elsewhere").exists()


def test_a_name_taken_while_copying(full: Store, tmp_path: Path) -> None:
    """Whoever takes the name in the meantime keeps it."""
    target = tmp_path / "copy.db"

    def take(done: int, total: int) -> None:
        if not target.exists():
            target.write_bytes(b"precious")

    with pytest.raises(Conflict):
        full.backup(target, progress=take)
    assert target.read_bytes() == b"precious"
    assert not [name for name in names(tmp_path) if ".part" in name]


def test_onto_itself(full: Store, path: Path) -> None:
    """The store's own file is a name that is taken."""
    with pytest.raises(Conflict):
        full.backup(path)
    assert full.verify().ok


def test_names_that_cannot_be(full: Store, tmp_path: Path) -> None:
    """A folder, a folder that is not there and a NUL are said to be what they are."""
    for bad in (tmp_path, tmp_path / "no" / "copy.db", f"{tmp_path}/a\0b"):
        with pytest.raises(Invalid):
            full.backup(bad)


def test_inside_a_transaction(full: Store, tmp_path: Path) -> None:
    """A transaction that is still open could not be part of it, so it is refused."""
    before = names(tmp_path)
    with full.transaction(), pytest.raises(Invalid, match="inside a transaction"):
        full.backup(tmp_path / "copy.db")
    assert names(tmp_path) == before


def test_of_a_closed_store(path: Path, tmp_path: Path) -> None:
    """A closed store has nothing to copy."""
    store = clew.open(path)
    store.close()
    with pytest.raises(Closed):
        store.backup(tmp_path / "copy.db")


def test_interrupted(full: Store, tmp_path: Path) -> None:
    """What stops a backup in the middle leaves nothing behind, and the store goes on."""
    before = names(tmp_path)

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        full.backup(tmp_path / "copy.db", progress=stop)
    assert names(tmp_path) == before
    full.sessions.latest().append(clew.user("still here"))


def test_of_a_store_in_memory(tmp_path: Path) -> None:
    """What was never in a file becomes one."""
    with clew.open(":memory:", clock=sample.clock(), ids=sample.id_source()) as store:
        sample.fill(store)
        store.backup(tmp_path / "copy.db")
        with clew.open(tmp_path / "copy.db") as copy:
            assert copy.verify().ok
            assert sample.readings(copy) == sample.readings(store)


def test_while_others_write(path: Path, tmp_path: Path) -> None:
    """The copy is of one moment: each writer's messages up to some point, whole batches, none from after it."""
    stop = threading.Event()
    with clew.open(path, durability="relaxed") as store:
        sessions = [store.sessions.create(title=str(n)) for n in range(3)]
        for one in sessions:
            one.append([clew.user("x" * 2000) for _ in range(100)])

        def write(session: clew.Session) -> None:
            number = 0
            while not stop.is_set():
                session.append([clew.user(f"{number} {part}") for part in range(3)])
                number += 1

        writers = [threading.Thread(target=write, args=(one,)) for one in sessions]
        for writer in writers:
            writer.start()
        counts = []
        try:
            for number in range(6):
                seen = [one.refresh().counters.messages for one in map(store.sessions.get, [s.id for s in sessions])]
                store.backup(tmp_path / f"{number}.db")
                counts.append(seen)
        finally:
            stop.set()
            for writer in writers:
                writer.join()
        for number, seen in enumerate(counts):
            with clew.open(tmp_path / f"{number}.db") as copy:
                assert copy.verify().ok
                for session, least in zip(sessions, seen, strict=True):
                    texts = [node.text for node in copy.sessions.get(session.id).iter()][100:]
                    assert len(texts) + 100 >= least
                    assert texts == [f"{n} {part}" for n in range(len(texts) // 3) for part in range(3)]


def test_while_another_process_writes(path: Path, tmp_path: Path) -> None:
    """Another process's appends neither stop a backup nor make it begin again and again."""
    with clew.open(path) as store:
        session = store.sessions.create()
        session.append([clew.user("x" * 5000) for _ in range(400)])
        code = """
import sys, clew
session = clew.open(sys.argv[1], durability="relaxed").sessions.latest()
print("ready", flush=True)
while True:
    session.append(clew.user("more"))
"""
        writer = python(code, path)
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        steps: list[int] = []

        def wait_for_a_write(done: int, total: int) -> None:
            steps.append(done)
            version = session.refresh().version
            while len(steps) < 50 and session.refresh().version == version:
                time.sleep(0.001)
            assert len(steps) < 50, "the backup begins again at every write"

        try:
            store.backup(tmp_path / "copy.db", progress=wait_for_a_write)
        finally:
            writer.kill()
            writer.communicate()
    assert steps == sorted(steps)
    assert len(steps) > 2
    with clew.open(tmp_path / "copy.db") as copy:
        assert copy.verify().ok


def test_of_a_damaged_store(path: Path, tmp_path: Path) -> None:
    """A file too damaged to be copied says so, and leaves nothing behind."""
    sample.make(str(path))
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)
    before = names(tmp_path)
    try:
        with clew.open(path) as store:
            store.backup(tmp_path / "copy.db")
    except Corrupted:
        assert names(tmp_path) - {"chats.db-shm", "chats.db-wal"} == before
    else:
        with clew.open(tmp_path / "copy.db") as copy:
            assert not copy.verify().ok


def test_where_nothing_may_be_written() -> None:
    """A folder that may not be written is told as ReadOnly."""
    code = """
import os, sys, clew, clew.store.store, clew.backends.sqlite.backup
from clew.errors import ReadOnly
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    clew.open(":memory:").backup(sys.argv[1])
except ReadOnly:
    print("read-only")
"""
    # Not tmp_path: its folders are the owner's alone, and the owner may be root, whom no mode stops.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o555)
        assert output(python(code, folder / "copy.db")) == "read-only\n"
        assert names(folder) == set()
        folder.chmod(0o755)


def test_a_full_disk(full: Store, tmp_path: Path) -> None:
    """A disk that fills up is told as StorageFull, nothing is left on it, and there is room for a smaller copy."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(
        [need("mount"), "-t", "tmpfs", "-o", "size=200k", "tmpfs", disk], capture_output=True, check=False
    ).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        with pytest.raises(StorageFull):
            full.backup(disk / "copy.db")
        assert names(disk) == set()
        with clew.open(":memory:") as small:
            small.backup(disk / "copy.db")
        assert names(disk) == {"copy.db"}
    finally:
        subprocess.run(["umount", disk], check=True)


def test_the_copy_is_on_disk_before_it_has_its_name(full: Store, path: Path, tmp_path: Path) -> None:
    """The copy is synced, then named, then the folder is synced; and nothing but SQLite opens the store's own file."""
    strace, trace = need_strace(), tmp_path / "trace"
    full.close()
    code = "import sys, clew\nwith clew.open(sys.argv[1]) as s: s.backup(sys.argv[2])"
    calls = "trace=fsync,fdatasync,link,linkat,unlink,unlinkat,openat,pwrite64,write,close"
    wrap = (strace, "-f", "-qq", "-y", "-o", str(trace), "-e", calls)
    output(python(code, path, tmp_path / "copy.db", wrap=wrap))
    lines = trace.read_text().splitlines()

    def last(*words: str) -> int:
        return max(n for n, line in enumerate(lines) if all(word in line for word in words))

    written, synced = last("write", ".part>"), last("fsync(", ".part>")
    named, folder = last("link", f'"{tmp_path}/copy.db"'), last("fsync(", f"<{tmp_path}>")
    assert written < synced < named < folder
    opened = [line for line in lines if "openat(" in line and f'"{path}"' in line]
    assert all("O_CLOEXEC" in line for line in opened)
    # Opening asks SQLite for an exclusive lock, which takes a connection that could write.
    assert ["O_RDONLY" in line for line in opened] == [False] + [True] * (len(opened) - 1)
    assert len(opened) > 1


def test_a_read_only_file_system(full: Store, tmp_path: Path) -> None:
    """A file system mounted for reading is told as ReadOnly."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(
        [need("mount"), "-t", "tmpfs", "-o", "ro", "tmpfs", disk], capture_output=True, check=False
    ).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        with pytest.raises(ReadOnly):
            full.backup(disk / "copy.db")
    finally:
        subprocess.run(["umount", disk], check=True)
