"""P25: whatever is deleted is decided in the transaction that deletes it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Generic, TypeVar

import pytest

import clew
from clew import agents, retention
from clew.base.ids import new_id
from clew.engine.engine import wall_clock
from clew.retention import Policy
from clew.sources.import_all import import_all
from clew.sources.import_log import ImportRecorder
from clew.sources.registry import find
from clew.sources.undo import UndoReport, undo
from tests.sources.made import claude_line, jsonl

WORKER = Path(__file__).with_name("deleting_worker.py")


def imported(target: str | Path, files: Path, count: int) -> Callable[[clew.Store], UndoReport]:
    """Imports as many conversations; returns the deletion that takes them back."""
    folder = files / "projects" / "p"
    folder.mkdir(parents=True)
    for number in range(count):
        name = f"5e55a011-0000-4000-8000-{number:012}"
        lines = [claude_line(10 * number + 1, None, "user", f"Ask {number}", sessionId=name)]
        (folder / f"{name}.jsonl").write_bytes(jsonl(lines))
    with clew.open(target) as store:
        this = ImportRecorder(store, (str(folder),))
        assert len(list(import_all(store, find([str(folder)]), recorder=this))) == count
    return lambda store: undo(store, this.id)


def aged(target: str | Path, count: int) -> None:
    """Creates as many agents' sessions that were last active 60 days ago."""
    then = int((datetime.now(UTC) - timedelta(days=60)).timestamp() * 1_000_000)
    with clew.open(target, clock=lambda: then) as store:
        sessions = agents.SessionStore(store)
        for number in range(count):
            sessions.append_message(sessions.create(cwd="/p").id, clew.user(f"Ask {number}"))
        retention.set_policy(store, Policy(30, share=1.0))


AGED: dict[str, Callable[[clew.Store], object]] = {
    "cleanup": lambda store: agents.SessionStore(store).cleanup(),
    "sweep": lambda store: retention.sweep(store),
    "purge": lambda store: store.sessions.purge(everything=True, before=datetime.now(UTC) - timedelta(days=30)),
}


def race(target: str | Path, files: Path, way: str, count: int) -> None:
    """Deletes while two processes change the same sessions; what they were told is stored must be there."""
    if way == "undo":
        delete: Callable[[clew.Store], object] = imported(target, files, count)
    else:
        aged(target, count)
        delete = AGED[way]
    with clew.open(target) as store:
        names = [one.id for one in store.sessions.list(limit=count).all()]
        assert len(names) == count
        workers = [
            subprocess.Popen([sys.executable, WORKER, target, str(seed), *names], stdout=subprocess.PIPE, text=True)
            for seed in range(2)
        ]
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
        delete(store)
        for worker in workers:
            worker.kill()
        told = [line.rstrip("\n").split("\t") for one in workers for line in (one.communicate()[0]).splitlines(True)
                if line.endswith("\n")]  # fmt: skip
        assert told
        for way_, name, text in told:
            if way_ == "fork":
                assert store.sessions.get(text).path()
                continue
            if way_ == "rename" and way != "undo":
                continue  # renaming is no activity: a session that was renamed before the deletion began is still due
            session = store.sessions.get(name)
            if way_ == "append":
                assert text in [node.text for node in session.path()]
            elif way_ == "hold":
                assert session.held
        assert store.verify().ok


T = TypeVar("T")


class WritesBetween(Generic[T]):
    """A source of ids or times that lets another writer work once, after a deletion has chosen what to delete."""

    def __init__(self, inner: Callable[[], T]) -> None:
        self.write: Callable[[], object] | None = None
        self._inner = inner

    def __call__(self) -> T:
        write, self.write = self.write, None
        if write is not None:
            write()
        return self._inner()


CHANGES: dict[str, Callable[[clew.Session], object]] = {
    "append": lambda session: session.append(clew.user("more")),
    "rename": lambda session: session.rename("new"),
    "hold": lambda session: session.hold(),
    "retain": lambda session: session.retain(days=90),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("way", ["trash", *AGED])
def test_a_change_between_choosing_and_deleting(tmp_path: Path, way: str, change: str) -> None:
    """A session that another writer changes after it was chosen stays as the writer left it; the others go."""
    path, between = tmp_path / "s.db", WritesBetween(new_id)
    aged(path, 3)
    with clew.open(path, ids=between) as store, clew.open(path) as other:
        name = store.sessions.list().items[1].id
        if way == "trash":
            for one in store.sessions.list().items:
                one.trash()

        def write() -> None:
            if way == "trash":
                other.sessions.restore(name)
            CHANGES[change](other.sessions.get(name))

        between.write = write
        if way == "trash":
            store.sessions.purge(trashed=True)
        else:
            AGED[way](store)
        assert between.write is None
        assert [one.id for one in store.sessions.list().items] == [name]
        session = store.sessions.get(name)
        changed = {"append": len(session.path()) == 2, "rename": session.title == "new", "hold": session.held,
                   "retain": session.expires_at is not None}  # fmt: skip
        assert changed[change]
        assert store.verify().ok


@pytest.mark.parametrize("way", AGED)
def test_a_fork_between_choosing_and_deleting(tmp_path: Path, way: str) -> None:
    """A session that another writer forks after it was chosen goes; the fork keeps all of its messages."""
    path, between = tmp_path / "s.db", WritesBetween(new_id)
    aged(path, 3)
    with clew.open(path, ids=between) as store, clew.open(path) as other:
        name = store.sessions.list().items[1].id
        between.write = lambda: other.sessions.fork(name)
        AGED[way](store)
        assert between.write is None
        (fork,) = store.sessions.list().items
        assert [node.text for node in fork.path()] == ["Ask 1"]
        assert store.verify().ok


@pytest.mark.parametrize("change", [*CHANGES, "fork"])
def test_a_change_between_the_check_and_the_undo(tmp_path: Path, change: str) -> None:
    """A session that an import created stays if another writer changes or forks it before the undo deletes it."""
    path, between = tmp_path / "s.db", WritesBetween(new_id)
    take_back = imported(path, tmp_path, 3)
    with clew.open(path, ids=between) as store, clew.open(path) as other:
        name = store.sessions.list().items[1].id
        between.write = lambda: {**CHANGES, "fork": other.sessions.fork}[change](other.sessions.get(name))
        report = take_back(store)
        assert between.write is None
        assert [one.session for one in report.left] == [name]
        assert len(report.sessions) == 2
        assert len({one.id for one in store.sessions.list().items} - {name}) == (change == "fork")
        assert store.sessions.get(name).path()[0].text == "Ask 1"
        assert store.verify().ok


@pytest.mark.parametrize("change", [*CHANGES, "fork"])
def test_a_change_between_the_check_and_the_undo_of_messages(tmp_path: Path, change: str) -> None:
    """Messages that an import added to a session stay if another writer changes or forks it before they go."""
    path, between = tmp_path / "s.db", WritesBetween(wall_clock)
    imported(path, tmp_path, 1)
    (file,) = (tmp_path / "projects" / "p").iterdir()
    file.write_bytes(file.read_bytes() + jsonl([claude_line(2, 1, "assistant", "Yes", sessionId=file.stem)]))
    with clew.open(path, clock=between) as store, clew.open(path) as other:
        this = ImportRecorder(store)
        assert [one.state for one in import_all(store, find([str(file)]), recorder=this)] == ["imported"]
        between.write = lambda: {**CHANGES, "fork": other.sessions.fork}[change](other.sessions.get(file.stem))
        report = undo(store, this.id)
        assert between.write is None
        assert (report.messages, [one.session for one in report.left]) == (0, [file.stem])
        assert [node.text for node in store.sessions.get(file.stem).path()][:2] == ["Ask 0", "Yes"]
        assert store.verify().ok


@pytest.mark.parametrize("way", ["undo", *AGED])
def test_deletions_beside_writers(tmp_path: Path, way: str) -> None:
    """Nothing that was appended, renamed, held or forked since is deleted, by any way of deleting."""
    race(tmp_path / "s.db", tmp_path, way, 40)


@pytest.mark.soak
@pytest.mark.parametrize("way", ["undo", *AGED])
def test_deletions_beside_writers_for_long(tmp_path: Path, way: str) -> None:
    """The same with many sessions."""
    race(tmp_path / "s.db", tmp_path, way, 1_500)
