"""Files that are their owner's alone, and locks on them."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import time
from pathlib import Path
from threading import Event, Thread

import pytest

import clew
from clew.base import files


def test_a_lock_that_is_kept_is_waited_for(tmp_path: Path) -> None:
    """Whoever waits gets it when it is given back, and Unavailable when the patience ends."""
    path = str(tmp_path / "lock")
    held, enough = Event(), Event()

    def hold() -> None:
        with files.lock(path, 5):
            held.set()
            enough.wait()

    holder = Thread(target=hold)
    holder.start()
    held.wait()
    try:
        with pytest.raises(clew.Unavailable, match=f"another process holds {path}"), files.lock(path, 0.1):
            pass
    finally:
        enough.set()
    with files.lock(path, 5):
        pass
    holder.join()


def test_a_lock_that_was_swept_away_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file removed between opening and locking it is no lock: others would lock the next one."""
    path = tmp_path / "lock"
    opened, swept = os.open, list[int]()

    def sweep(*args: object, **named: object) -> int:
        fd: int = opened(*args, **named)  # type: ignore[arg-type]
        if len(swept) < 2:
            path.unlink()
            swept.append(fd)
            if len(swept) == 2:
                path.touch(0o600)
        return fd

    monkeypatch.setattr(os, "open", sweep)
    with files.lock(str(path), 5):
        monkeypatch.undo()
        with pytest.raises(clew.Unavailable), files.lock(str(path), 0):
            pass
    assert len(swept) == 2


def test_a_lock_is_given_back_although_a_child_has_it(tmp_path: Path) -> None:
    """A process forked meanwhile has the descriptor, and not the lock."""
    path = str(tmp_path / "lock")
    with files.lock(path, 5):
        child = os.fork()
        if child == 0:
            time.sleep(30)
            os._exit(0)
    try:
        with files.lock(path, 1):
            pass
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    """Neither what was refused nor what was read stays open."""
    loose = tmp_path / "loose"
    loose.touch()
    loose.chmod(0o644)
    sound = tmp_path / "sound"
    before = len(os.listdir("/dev/fd"))
    for _ in range(5):
        with pytest.raises(clew.Invalid):
            files.read_private(str(loose), 1)
        files.make_private(str(sound), b"x")
        files.read_private(str(sound), 1)
        with files.lock(str(sound), 0), pytest.raises(clew.Unavailable), files.lock(str(sound), 0):
            pass
    assert len(os.listdir("/dev/fd")) == before


def test_a_system_without_users_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody can say whose a file is, it is not read."""
    monkeypatch.delattr(os, "geteuid")
    with pytest.raises(clew.Unavailable, match="does not support file owners"):
        files.read_private(str(tmp_path / "k"), 1)


def test_a_file_system_without_locks_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is Unavailable, and says where to put the lock instead."""

    def none(fd: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    with (
        pytest.raises(clew.Unavailable, match="cannot be locked: No locks available"),
        files.lock(str(tmp_path / "l"), 5),
    ):
        pass


@pytest.mark.parametrize(("folder", "kind"), [("/sys", clew.ReadOnly), ("/proc", clew.Unavailable)])
def test_a_folder_that_takes_no_files_is_told(folder: str, kind: type[clew.ClewError]) -> None:
    """It is read-only, or out of reach, and the error says which."""
    if not os.path.isdir(folder):
        pytest.skip(f"this system has no {folder}")
    with pytest.raises(kind, match=f"{folder}/k cannot be written") as caught:
        files.make_private(f"{folder}/k", b"x")
    assert type(caught.value) is kind


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    """Without space nothing is made, half or whole, and the error says so."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
    try:
        with pytest.raises(clew.StorageFull, match="no space is left for"):
            files.make_private(str(tmp_path / "k"), b"x" * 11)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_opened_is_not_synced(tmp_path: Path) -> None:
    """Some systems cannot sync a folder; what was written is no worse for it."""
    files.sync_folder(str(tmp_path / "none"))
