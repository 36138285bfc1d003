"""How moved, deleted and replaced files of an open store are noticed without looking each of them up."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import clew
from clew.backends.sqlite import one_name
from clew.backends.sqlite.one_name import UNSETTLED, OpenFiles, settled_time


@pytest.fixture
def looked_up() -> Iterator[list[int]]:
    """The times of the folder at which files were looked up. Every time counts as settled."""
    found: list[int] = []
    real = OpenFiles.look_up

    def look_up(self: OpenFiles, changed: int) -> bool:
        found.append(changed)
        return real(self, changed)

    with patch.multiple(one_name, ROUNDING=0, FINE_ROUNDING=0), patch.object(OpenFiles, "look_up", look_up):
        yield found


def test_a_recent_time_is_not_settled() -> None:
    """A change that follows at once may get the same time, so a recent time proves nothing."""
    now = time.time_ns()
    assert settled_time(now) == UNSETTLED
    assert settled_time(now + 10**12) == UNSETTLED
    assert settled_time(now - 10**10) == now - 10**10
    second = now - now % 10**6 - 10**9  # whole milliseconds: the file system may round by two seconds
    assert settled_time(second) == UNSETTLED
    assert settled_time(second + 1) == second + 1


@pytest.mark.parametrize("end", ["", "-wal", "-shm", "-lock"])
def test_a_file_goes_from_a_quiet_folder(tmp_path: Path, end: str, looked_up: list[int]) -> None:
    """While nothing changes in the folder nothing is looked up, and a file that goes is noticed at once."""
    path, away = tmp_path / "store" / "chats.db", tmp_path / "away"
    path.parent.mkdir()
    with clew.open(path) as store:
        session = store.sessions.create()
        time.sleep(0.05)  # older kernels round times to 4 ms
        for number in range(5):
            session.append(clew.user(f"message {number}"))
        count = len(looked_up)
        session.append(clew.user("nothing is looked up"))
        assert len(looked_up) == count
        Path(f"{path}{end}").rename(away)
        gone = pytest.raises(clew.Unavailable, match="was moved, deleted or replaced")
        with nullcontext() if end == "-lock" else gone:
            session.append(clew.user("noticed"))
        if end == "-lock":
            assert Path(f"{path}-lock").exists()
        else:
            away.rename(f"{path}{end}")
            session.append(clew.user("back"))


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="lists the open files of a process")
def test_a_closed_store_has_nothing_open(tmp_path: Path) -> None:
    """A store that is closed holds neither its files nor its folder open, though the object is still there."""
    store = clew.open(tmp_path / "s.db")
    session = store.sessions.create()
    for number in range(8):
        session.append(clew.user(f"message {number}"))
    assert opened_in(tmp_path)
    store.close()
    assert opened_in(tmp_path) == []


def opened_in(folder: Path) -> list[str]:
    """The files below a folder that this process has open, and the folder itself."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the one that lists them
            found.append(os.readlink(f"/proc/self/fd/{fd}"))
    return [one for one in found if one.startswith(str(folder))]


def test_a_file_that_another_process_creates_meanwhile(tmp_path: Path) -> None:
    """A path that does not exist when it is looked at is a valid one, also if the file is there a moment later."""
    path, real = tmp_path / "s.db", os.stat

    def stat(name: Any, *more: Any, **options: Any) -> os.stat_result:
        if os.fspath(name) != str(path) or path in created:
            return real(name, *more, **options)
        created.append(path)
        with open(path, "xb"):
            raise FileNotFoundError(str(path))

    created: list[Path] = []
    with patch.object(os, "stat", stat):
        assert one_name.resolve(str(path)) == str(path)
    assert path.exists()
