"""Fixtures for agent sessions."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clew import agents


def sdk(kind: str, text: str, uuid: str, **more: Any) -> dict[str, Any]:
    """A message as an agent SDK sends it."""
    return {"type": kind, "uuid": uuid, "message": {"role": kind, "content": text}, "parent_tool_use_id": None, **more}


def texts(nodes: list[Any]) -> list[str]:
    return [node.text for node in nodes]


def lines(path: Path) -> list[Any]:
    """Each line of a file, which must be one JSON object."""
    raw = path.read_bytes()
    assert raw == b"" or raw.endswith(b"\n")
    return [json.loads(line) for line in raw.split(b"\n")[:-1]]


def until(true: Callable[[], bool]) -> None:
    """Waits until something is so."""
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder for a mirror."""
    return tmp_path / "projects"


@pytest.fixture
def sessions(path: Path) -> Iterator[agents.SessionStore]:
    """Agent sessions in a file, without a mirror."""
    with agents.open(path) as opened:
        yield opened


@pytest.fixture
def mirrored(path: Path, root: Path) -> Iterator[agents.SessionStore]:
    """Agent sessions in a file, with a mirror."""
    with agents.open(path, mirror=root) as opened:
        yield opened


def written(mirrored: agents.SessionStore) -> None:
    """Waits until the mirror has been updated, or could not be."""
    assert mirrored.mirror is not None
    _ = mirrored.mirror.error


def place(mirrored: agents.SessionStore, session: agents.Session) -> Path:
    """The folder of a session in the mirror, when it has been updated."""
    assert mirrored.mirror is not None
    written(mirrored)
    return Path(mirrored.mirror.folder(session.metadata))
