"""A work tree beside a store, and a session whose files are checkpointed."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.checkpoints import Checkpoints
from clew.store.session import Session
from clew.store.store import Store


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The root."""
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def session(store: Store, work: Path) -> Session:
    return store.sessions.create(cwd=work)


@pytest.fixture
def checkpoints(session: Session, work: Path) -> Checkpoints:
    return Checkpoints(session, work)


@pytest.fixture
def say(session: Session) -> Callable[..., str]:
    """Says something, and returns the message's id."""

    def said(text: str = "go on") -> str:
        return session.append(clew.user(text)).id

    return said


@pytest.fixture
def lent() -> Iterator[tuple[Path, Checkpoints, str]]:
    """A folder and its checkpoints in memory; tests use it without root's permissions."""
    with tempfile.TemporaryDirectory(dir="/tmp") as made, clew.open(":memory:") as store:
        work = Path(made) / "work"
        work.mkdir()
        Path(made).chmod(0o755)
        if os.geteuid() == 0:
            os.chown(work, 65534, -1)
        session = store.sessions.create()
        assert session.blobs  # imported before the rights to do so are given up
        yield work, Checkpoints(session, work), session.append(clew.user("go")).id
        for path in work.rglob("*"):
            path.chmod(0o755)


def picture(folder: Path, *, leave_out: tuple[str, ...] = (".git",)) -> dict[str, tuple[Any, ...]]:
    """Everything below a folder: kind, permissions, and content by its hash or target."""
    found: dict[str, tuple[Any, ...]] = {}
    for here, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in leave_out]
        for name in [*folders, *files]:
            path = os.path.join(here, name)
            said = os.lstat(path)
            key, mode = os.path.relpath(path, folder), stat.S_IMODE(said.st_mode)
            if stat.S_ISLNK(said.st_mode):
                found[key] = "link", os.readlink(path)
            elif stat.S_ISDIR(said.st_mode):
                found[key] = "dir", mode
            elif stat.S_ISREG(said.st_mode):
                found[key] = "file", mode, hashlib.sha256(Path(path).read_bytes()).hexdigest()
            else:
                found[key] = ("other",)
    return found
