"""P8 on real file systems: a disk that is full, then freed; a disk that is read-only; a limit on open files."""

from __future__ import annotations

import os
import resource
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

import clew
from clew.backends.sqlite import reserve
from clew.errors import ReadOnly, StorageFull, Unavailable
from tests.crash import disk


@pytest.fixture
def small(tmp_path: Path) -> Iterator[disk.Disk]:
    """Eight megabytes: a WAL takes four before it is folded into the store."""
    with disk.mounted(tmp_path / "disk", "8m") as made:
        yield made


def texts(path: Path, session: str) -> list[str]:
    """What a new look at the store finds."""
    with clew.open(path, create=False) as store:
        return [node.text for node in store.sessions.get(session).path()]


def until_full(session: clew.Session, size: int = 5000) -> tuple[list[str], str, clew.Message]:
    """Appends until the disk is full: the ids that were acknowledged, and the message that was not, with its id."""
    kept = []
    for number in range(10_000):
        id, said = str(uuid.uuid4()), clew.user(f"{number} " + "x" * size)
        try:
            kept.append(session.append(said, id=id).id)
        except StorageFull:
            return kept, id, said
    raise AssertionError("the disk never filled")


def test_the_same_handle_works_after_space_is_freed(small: disk.Disk) -> None:
    """On a full disk an append fails and says so; once there is space the same call on the same store succeeds."""
    path = small.folder / "s.db"
    with clew.open(path) as store:
        session = store.sessions.create()
        small.fill(leave=200_000)
        kept, id, said = until_full(session)
        assert kept
        assert [node.id for node in session.path()] == kept
        for _ in range(3):
            with pytest.raises(StorageFull) as told:
                session.append(said, id=id)
            assert "Free some space" in told.value.hint
        small.free()
        assert session.append(said, id=id).id == id
        assert session.append(clew.user("more")).parent_id == id
        found = [node.id for node in session.path()]
        assert found[: len(kept) + 1] == [*kept, id]
        assert store.verify().ok
    assert len(texts(path, session.id)) == len(kept) + 2


def test_a_full_disk_in_the_first_open(small: disk.Disk) -> None:
    """A store that cannot be created for want of space can be created when there is some."""
    small.fill()
    with pytest.raises(StorageFull):
        clew.open(small.folder / "s.db")
    small.free()
    with clew.open(small.folder / "s.db") as store:
        store.sessions.create().append(clew.user("hello"))


def test_threads_that_share_a_commit_on_a_full_disk(small: disk.Disk) -> None:
    """Appends that wait together are each told the truth, and each is stored once when made again."""
    path = small.folder / "s.db"
    with clew.open(path) as store:
        session = store.sessions.create()
        small.fill(leave=150_000)
        lock, kept, missed = threading.Lock(), set[str](), dict[str, clew.Message]()

        def talk(number: int) -> None:
            mine = store.sessions.get(session.id)
            for turn in range(12):
                id, said = str(uuid.uuid4()), clew.user(f"{number} {turn} " + "y" * 4000)
                try:
                    mine.append(said, id=id)
                    with lock:
                        kept.add(id)
                except StorageFull:
                    with lock:
                        missed[id] = said

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(talk, range(8)))
        assert kept
        assert missed
        stored = [node.id for node in session.path()]
        assert set(stored) == kept, "who was told yes is stored, who was told no is not"
        small.free()
        for id, said in missed.items():
            session.append(said, id=id)
        stored = [node.id for node in session.path()]
        assert sorted(stored) == sorted({*kept, *missed})
        assert store.verify().ok


@pytest.mark.checklist("D22")
def test_a_transaction_on_a_full_disk_is_all_or_nothing(small: disk.Disk) -> None:
    """Whoever swallows the error inside a transaction does not get the other half stored."""
    with clew.open(small.folder / "s.db") as store:
        session = store.sessions.create()
        session.append(clew.user("before"))
        small.fill(leave=60_000)
        with pytest.raises(Unavailable), store.transaction():
            session.append(clew.user("first"))
            for _ in range(4):
                with pytest.raises(Unavailable) as told:
                    session.append(clew.user("z" * 12_000_000))  # more than the page cache: written before the commit
                assert told.value.hint
            with suppress(Unavailable):
                session.append(clew.user("last"))
        assert [node.text for node in session.path()] == ["before"]
        small.free()
        with store.transaction():
            session.append(clew.user("first"))
            session.append(clew.user("last"))
        assert [node.text for node in session.path()] == ["before", "first", "last"]


@pytest.fixture
def roomy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[disk.Disk]:
    """A disk on which a store sets as much aside as it ever does."""
    monkeypatch.setattr(reserve, "SHARE", 1)
    with disk.mounted(tmp_path / "disk", "32m") as made:
        yield made


@pytest.mark.parametrize("size", [300, 9000])
@pytest.mark.parametrize("again", [False, True], ids=["open", "opened again"])
@pytest.mark.parametrize("key", [None, b"k" * 32], ids=["plain", "sealed"])
def test_purging_on_a_full_disk(roomy: disk.Disk, key: bytes | None, again: bool, size: int) -> None:
    """With no space left at all a store opens, reads and purges; the space is there again, and nothing else is lost."""
    path = roomy.folder / "s.db"
    secret = f"xylophone {'x' * size}"
    store = clew.open(path, key=key)
    sessions = [store.sessions.create(title=words) for words in ("gone", "stays")]
    sessions[0].append([clew.user(secret) for _ in range(600)])
    sessions[1].append([clew.user(f"harmless {number}") for number in range(50)])
    if again:
        store.close()
    roomy.fill()
    assert roomy.left() == 0
    store = clew.open(path, key=key) if again else store
    try:
        with pytest.raises(StorageFull):
            store.sessions.get(sessions[1].id).append(clew.user("z" * 8_000_000))
        assert len(store.sessions.get(sessions[0].id).path()) == 600
        receipt = store.sessions.purge(sessions[0].id)
        assert (receipt.messages, receipt.failures, receipt.pending) == (600, (), ())
        files = [file for file in roomy.folder.glob("s.db*") if b"xylophone" in file.read_bytes()]
        assert files == []
        assert roomy.left() > 100_000
        assert (roomy.folder / "s.db-reserve").stat().st_size == reserve.SIZE
        kept = store.sessions.get(sessions[1].id)
        kept.append(clew.user("more"))
        assert [node.text for node in kept.path()[:50]] == [f"harmless {number}" for number in range(50)]
        assert store.verify().ok
    finally:
        store.close()


@pytest.mark.parametrize(
    ("space", "size"), [("8m", 5000), ("8m", 60_000), pytest.param("16m", 5000, marks=pytest.mark.soak)]
)
@pytest.mark.parametrize("again", [False, True], ids=["open", "opened again"])
def test_purging_on_a_small_disk(tmp_path: Path, space: str, again: bool, size: int) -> None:
    """On a disk of a few megabytes that a store has filled to the last byte, a purge succeeds and frees the space."""
    with disk.mounted(tmp_path / "disk", space) as made:
        path = made.folder / "s.db"
        store = clew.open(path)
        gone, stays = (store.sessions.create(title=title) for title in ("gone", "stays"))
        stays.append([clew.user(f"harmless {number}") for number in range(50)])
        kept, *_ = until_full(gone, size)
        if again:
            store.close()
        made.fill()
        assert made.left() == 0
        store = clew.open(path) if again else store
        try:
            receipt = store.sessions.purge(gone.id)
            assert (receipt.messages, receipt.failures, receipt.pending) == (len(kept), (), ())
            assert made.left() > 6_000_000
            stays = store.sessions.get(stays.id)
            stays.append(clew.user("more"))
            assert len(stays.path()) == 51
            assert store.verify().ok
        finally:
            store.close()


def test_what_is_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the owner's alone, takes its space really, and is given back in parts; not where little is left."""
    monkeypatch.setattr(reserve, "PLENTY", 1 << 60)
    kept = reserve.Reserve(str(tmp_path / "s.db"))
    assert not kept.give()
    kept.keep()
    file = Path(kept.path)
    assert (file.stat().st_size, file.stat().st_mode & 0o777) == (reserve.SIZE, 0o600)
    assert file.stat().st_blocks * 512 >= reserve.SIZE
    assert kept.give(reserve.SLICE)
    assert file.stat().st_size == reserve.SIZE - reserve.SLICE
    monkeypatch.setattr(reserve, "SHARE", 1 << 60)
    kept.keep()
    assert file.stat().st_size == reserve.SIZE - reserve.SLICE
    assert kept.give()
    assert not kept.give()
    monkeypatch.undo()
    monkeypatch.setattr(reserve, "PLENTY", 1 << 60)
    monkeypatch.delattr(os, "posix_fallocate")
    kept.keep()
    assert file.stat().st_size == reserve.SIZE


def test_what_is_set_aside_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a large disk it is a share of the store, and grows with it; once the disk has little left, it is whole."""
    monkeypatch.setattr("clew.backends.sqlite.writer.RESERVE_EVERY", -1.0)
    file = tmp_path / "s.db-reserve"
    with clew.open(tmp_path / "s.db") as store:
        session = store.sessions.create()
        session.append([clew.user("x" * 600) for _ in range(1000)])
        assert file.stat().st_size == reserve.SLICE
        session.append([clew.user("x" * 9000) for _ in range(1000)])
        for _ in range(3):
            time.sleep(0.002)
            session.append(clew.user("more"))
        size = (tmp_path / "s.db").stat().st_size
        assert reserve.SLICE < file.stat().st_size <= size // reserve.SHARE
        monkeypatch.setattr(reserve, "PLENTY", 1 << 60)
        time.sleep(0.002)
        session.append(clew.user("more"))
        assert file.stat().st_size == reserve.SIZE


def test_no_space_to_open_in(small: disk.Disk) -> None:
    """Where nothing was set aside, a store on a full disk says that the disk is full; freed, it is as it was."""
    path = small.folder / "s.db"
    with clew.open(path) as store:
        session = store.sessions.create()
        session.append(clew.user("hello"))
    (small.folder / "s.db-reserve").unlink()
    small.fill()
    with pytest.raises(StorageFull):
        clew.open(path)
    small.free()
    assert texts(path, session.id) == ["hello"]


def test_a_read_only_disk(small: disk.Disk) -> None:
    """On a read-only disk writing says so; nothing is changed, and all is well once it can be written again."""
    path = small.folder / "s.db"
    with clew.open(path) as store:
        session = store.sessions.create()
        session.append(clew.user("hello"))
    before = path.read_bytes()
    small.read_only(on=True)
    with pytest.raises(ReadOnly) as told, clew.open(path) as store:
        store.sessions.get(session.id).append(clew.user("no"))
    assert told.value.hint
    with pytest.raises(ReadOnly):
        clew.open(small.folder / "new.db")
    assert path.read_bytes() == before
    small.read_only(on=False)
    with clew.open(path) as store:
        store.sessions.get(session.id).append(clew.user("yes"))
    assert texts(path, session.id) == ["hello", "yes"]


def test_too_many_open_files(tmp_path: Path) -> None:
    """A process that has no descriptor left is told so, and the store works once there are some again."""
    with clew.open(tmp_path / "s.db") as store:
        session = store.sessions.create()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        taken: list[int] = []
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
            try:
                while True:
                    taken.append(os.dup(0))
            except OSError:
                pass
            assert session.append(clew.user("an open store needs no more")).text
            with pytest.raises(Unavailable) as told:
                clew.open(tmp_path / "other.db")
            assert "open" in told.value.hint
        finally:
            for fd in taken:
                os.close(fd)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        with clew.open(tmp_path / "other.db") as other:
            other.sessions.create()
        session.append(clew.user("more"))
        assert len(session.path()) == 2
