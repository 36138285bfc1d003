"""Taking back an import: what it added goes, what was used since stays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import clew
from clew.errors import Invalid, NotFound
from clew.sources.import_all import import_all
from clew.sources.import_log import ImportRecorder, list_runs
from clew.sources.registry import find
from clew.sources.undo import undo
from tests.sources.made import SESSION, an_id, claude_line, jsonl

LINES = [claude_line(1, None, "user", "One"), claude_line(2, 1, "assistant", "Yes")]
MORE = [*LINES, claude_line(3, 2, "user", "Two"), claude_line(4, 3, "assistant", "No")]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[clew.Store]:
    with clew.open(tmp_path / "s.db") as store:
        yield store


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "projects" / "p" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(jsonl(LINES))
    return path


def brought(store: clew.Store, path: Path) -> str:
    """Imports a file or folder; the id of the run."""
    this = ImportRecorder(store, (str(path),))
    assert all(one.state in ("imported", "unchanged") for one in import_all(store, find([str(path)]), recorder=this))
    return this.id


def texts(store: clew.Store) -> list[str]:
    return [node.text for node in store.sessions.get(SESSION).path()]


def test_a_created_session_goes(store: clew.Store, file: Path) -> None:
    """The sessions that an import created are purged, and the next import reads the files again."""
    trace = file.with_suffix("") / "subagents" / "agent-a7.jsonl"
    trace.parent.mkdir(parents=True)
    trace.write_bytes(jsonl([claude_line(50, None, "user", "Search", isSidechain=True)]))
    id = brought(store, file.parent)
    assert [(one.id, one.sessions, one.messages) for one in list_runs(store)] == [(id, 2, 3)]
    would = undo(store, id, dry_run=True)
    assert (would.messages, len(store.sessions.list())) == (3, 1)
    done = undo(store, id)
    assert (done.messages, done.left) == (3, ())
    assert done.receipt is not None
    assert done.receipt.messages == 3
    assert list(store.sessions.list()) == []
    assert store.verify().damage == []
    with pytest.raises(Invalid, match="undone before"):
        undo(store, id)
    brought(store, file.parent)
    assert texts(store) == ["One", "Yes"]


@pytest.mark.parametrize("use", ["rename", "label", "append", "fork", "trash", "hold"])
def test_what_was_used_since_stays(store: clew.Store, file: Path, use: str) -> None:
    """A session that somebody changed, continued or forked is left, with the reason."""
    id = brought(store, file)
    session = store.sessions.get(SESSION)
    if use == "rename":
        session.rename("Mine")
    elif use == "label":
        session.label("kept")
    elif use == "append":
        session.append(clew.user("On"))
    elif use == "fork":
        session.fork()
    elif use == "trash":
        session.trash()
    else:
        session.hold()
    done = undo(store, id)
    assert [left.session for left in done.left] == [SESSION]
    assert (done.sessions, done.messages) == ((), 0)


def test_messages_that_were_added_go(store: clew.Store, file: Path) -> None:
    """From a session that grew, the messages of that import go; imported again, they are back."""
    brought(store, file)
    file.write_bytes(jsonl(MORE))
    id = brought(store, file)
    done = undo(store, id)
    assert (done.messages, done.left, texts(store)) == (2, (), ["One", "Yes"])
    brought(store, file)
    assert texts(store) == ["One", "Yes", "Two", "No"]
    assert store.verify().damage == []


def test_messages_that_are_used_stay(store: clew.Store, file: Path) -> None:
    """Messages that a snapshot or a later message needs are left."""
    brought(store, file)
    file.write_bytes(jsonl(MORE))
    id = brought(store, file)
    store.sessions.get(SESSION).append(clew.user("On"))
    assert [left.why for left in undo(store, id).left] == ["it was changed or continued since"]
    assert texts(store) == ["One", "Yes", "Two", "No", "On"]


def test_an_unknown_run(store: clew.Store) -> None:
    """A run that does not exist is an error that says how to list them."""
    with pytest.raises(NotFound, match="import"):
        undo(store, an_id(1))
