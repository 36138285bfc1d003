"""What the tests share: real stores in temporary folders, with the clock and the ids under control where it matters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

import clew
from clew.store import Store

pytest.register_assert_rewrite("clew.testing", "clew.snapshot_contract")

settings.register_profile("clew", deadline=None, derandomize=False, print_blob=True)
settings.load_profile("clew")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a store may be made."""
    return tmp_path / "chats.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    """A new store in a file."""
    with clew.open(path) as store:
        yield store


@pytest.fixture
def sound() -> Callable[[Store], None]:
    """Asserts that everything in a store is as it was written."""

    def check(store: Store) -> None:
        report = store.verify()
        assert report.ok, report.damage

    return check
