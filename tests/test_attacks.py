"""What a hostile reviewer found, kept from coming back."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

import clew


def test_log_of_a_session_deleted_meanwhile(path: Path) -> None:
    """An entry that waited while its session was deleted is refused, and leaves nothing behind."""
    with clew.open(path, durability="relaxed") as store:
        session = store.sessions.create()
        began, outcome = threading.Event(), list[BaseException]()

        def late() -> None:
            began.wait()
            with pytest.raises(clew.NotFound) as caught:
                session.log.append(b"late")
            outcome.append(caught.value)

        thread = threading.Thread(target=late)
        thread.start()
        with store.transaction():
            session.delete()
            began.set()
            time.sleep(0.2)
        thread.join()
        assert outcome
        assert store.verify().ok


def test_blob_of_a_session_deleted_meanwhile(path: Path) -> None:
    """A blob whose session is deleted while it streams in is refused, and none of its pieces stays."""
    with clew.open(path, durability="relaxed") as store:
        session = store.sessions.create()

        def source() -> Iterator[bytes]:
            for number in range(40):
                yield os.urandom(256 * 1024)
                if number == 20:
                    session.delete()

        with pytest.raises(clew.NotFound):
            session.blobs.put(source())
        report = store.verify()
        assert report.ok
        assert report.counts["chunks"] == 0


def test_delete_what_a_summary_stands_for_with_its_end(path: Path) -> None:
    """The end of a compaction and the message it stands for go together in one call."""
    with clew.open(path, durability="relaxed") as store:
        session = store.sessions.create()
        first = session.append([clew.user("one"), clew.user("two")])
        after = session.compact([clew.system("summary"), clew.user("three")])
        assert store.nodes.delete([first[1].id, after[1].id]) == 2
        assert [node.text for node in session.history()] == ["one", "summary"]
        assert store.verify().ok


@pytest.mark.parametrize(("year", "hours"), [(1, 14), (9999, -12)])
def test_time_beyond_the_calendar(path: Path, year: int, hours: int) -> None:
    """A time that UTC cannot name is refused: stored, it would keep every listing from being read."""
    edge = datetime.min if year == 1 else datetime.max
    with clew.open(path, durability="relaxed") as store:
        session = store.sessions.create()
        with pytest.raises(clew.Invalid):
            session.append(clew.user("x"), created_at=edge.replace(tzinfo=timezone(timedelta(hours=hours))))
        assert session.path() == []
        assert session.append(clew.user("x"), created_at=edge.replace(tzinfo=UTC)).created_at.year == year


def test_path_with_two_slashes(path: Path) -> None:
    """A path may begin with two slashes."""
    with clew.open(f"/{path}") as store:
        store.sessions.create()
    with clew.open(path) as store:
        assert len(store.sessions.list().items) == 1


def test_role_that_cannot_be_hashed() -> None:
    """A role of any type is refused with a typed error."""
    with clew.open(":memory:") as store, pytest.raises(clew.Invalid):
        store.sessions.create().append(clew.Message(role=[], blocks=(clew.Text(text="x"),)))  # type: ignore[arg-type]


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams(path: Path, closed: str) -> None:
    """A command whose streams were closed before it began ends as with empty ones."""
    command = f'echo \'{{"text": "x"}}\' | {{ "{sys.executable}" -m clew --db "{path}" append {closed}; }}'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "bug" not in done.stderr
