"""What an import keeps, leaves and reports, beyond the messages themselves."""

from __future__ import annotations

import io
import json
import os
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.base.messages import Media, Native
from clew.sources.claude_code import ClaudeCode
from clew.sources.contract import About, Attachment, Entry, Home, Part
from clew.sources.import_all import FileOutcome, import_all
from clew.sources.imported_files import ImportedFiles, state
from clew.sources.importer import import_item, records
from clew.sources.items import Item, items
from clew.sources.registry import Found, find
from tests.sources.made import SESSION, an_id, claude_line, jsonl

LINES = [claude_line(1, None, "user", "One"), claude_line(2, 1, "assistant", "Yes"), claude_line(3, 2, "user", "Two")]


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


def brought(store: clew.Store, *paths: Path, **how: Any) -> list[FileOutcome]:
    return list(import_all(store, find([str(path) for path in paths]), **how))


class Made:
    """A source whose parts are given."""

    name, title, deletes_after = "made", "Made", None

    def __init__(self, *parts: Part) -> None:
        self.parts = parts

    def discover(self, home: Home) -> tuple[str, ...]:
        return ()

    def resume(self, conversation: str) -> None:
        return None

    def recognise(self, path: str, head: bytes) -> bool:
        return False

    def read(self, item: Item) -> Iterator[Part]:
        yield from self.parts


def said(number: int, parent: int | None, text: str, **more: Any) -> Entry:
    raw = json.dumps({"role": "user", "content": text}).encode()
    return Entry(
        conversation=more.pop("conversation", "c"),
        raw=raw,
        key=str(number),
        id=an_id(number),
        message=Native("anthropic", raw),
        parent=None if parent is None else an_id(parent),
        **more,
    )


def test_the_last_activity_is_that_of_the_last_message(store: clew.Store, file: Path) -> None:
    """An imported session is listed by the time of its last message, behind what was used since."""
    mine = store.sessions.create(title="Mine")
    mine.append(clew.user("Hello"))
    brought(store, file)
    session = store.sessions.get(SESSION)
    assert session.updated_at == datetime(2026, 11, 1, 10, 0, 3, tzinfo=UTC)
    assert [one.id for one in store.sessions.list()] == [mine.id, SESSION]
    session.append(clew.user("On"))
    assert store.sessions.latest().id == SESSION


def test_sessions_of_the_same_moment_have_an_order(store: clew.Store, tmp_path: Path) -> None:
    """Many conversations that ended at the same time are listed once each, and the one continued comes first."""
    item = Item(str(tmp_path), 1, 1)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    import_item(store, Made(*(said(n, None, "x", conversation=an_id(100 + n), created_at=at) for n in range(20))), item)
    listed = [one.id for one in store.sessions.list()]
    assert sorted(listed) == [an_id(100 + n) for n in range(20)]
    store.sessions.get(listed[-1]).append(clew.user("On"))
    assert store.sessions.latest().id == listed[-1]


def test_a_conversation_in_the_trash_stays_there(store: clew.Store, file: Path) -> None:
    """Its file is not skipped, and once it is restored the next import adds what is new."""
    brought(store, file)
    store.sessions.trash(SESSION)
    file.write_bytes(jsonl([*LINES, claude_line(4, 3, "assistant", "More")]))
    (outcome,) = brought(store, file)
    assert (outcome.state, outcome.skipped, outcome.conversations) == ("trashed", (), ())
    store.sessions.restore(SESSION)
    (outcome,) = brought(store, file)
    assert (outcome.state, outcome.messages) == ("imported", 1)


def test_a_conversation_that_goes_to_the_trash_meanwhile(
    store: clew.Store, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that another program puts into the trash after a batch was made ready stays there as it is."""
    brought(store, file)
    file.write_bytes(jsonl([*LINES, claude_line(4, 3, "assistant", "No")]))
    whole = clew.Store.write

    def write(self: clew.Store, work: Any) -> Any:
        monkeypatch.undo()
        with clew.open(store.path) as other:
            other.sessions.trash(SESSION)
        return whole(self, work)

    monkeypatch.setattr(clew.Store, "write", write)
    assert [one.state for one in brought(store, file)] == ["trashed"]
    assert clew.Store.write is whole
    assert [node.text for node in store.sessions.restore(SESSION).path()] == ["One", "Yes", "Two"]
    assert [one.messages for one in brought(store, file)] == [1]


@pytest.mark.parametrize("trashed", [False, True])
def test_a_large_log_that_was_only_touched(
    store: clew.Store, file: Path, monkeypatch: pytest.MonkeyPatch, trashed: bool
) -> None:
    """What is known of a log still goes with its conversation after an import that read nothing new in it."""
    monkeypatch.setattr("clew.sources.lines.LARGE", 1)
    brought(store, file)
    if trashed:
        store.sessions.trash(SESSION)
    os.utime(file, (1, 1))
    (done,) = brought(store, file)
    assert (done.state, done.skipped) == ("imported", ())
    (item,) = items(str(file))
    assert ImportedFiles(store).is_unchanged(item) is not trashed
    store.sessions.purge(SESSION)
    assert ImportedFiles(store).find(item) is None


def test_unreadable_lines_are_reported_each_time(store: clew.Store, file: Path) -> None:
    """An unchanged file with a line that cannot be read is reported as it was."""
    file.write_bytes(jsonl(LINES) + b"{not JSON\n")
    first, second = brought(store, file), brought(store, file)
    assert first[0].skipped
    assert (second[0].state, second[0].skipped) == ("unchanged", first[0].skipped)


def test_a_message_above_the_limit_is_an_attachment(tmp_path: Path, file: Path) -> None:
    """It has a note in its place, its bytes in a blob, and it is written out as it was."""
    lines = [LINES[0], claude_line(2, 1, "assistant", "y" * 9000), LINES[2]]
    lines.insert(1, {"type": "progress", "sessionId": SESSION, "data": "z" * 9000})
    file.write_bytes(jsonl(lines))
    with clew.open(tmp_path / "small.db", max_body=4096) as store:
        (outcome,) = brought(store, file)
        assert (outcome.skipped, outcome.messages) == ((), 3)
        session = store.sessions.get(SESSION)
        large = session.path()[1]
        assert "more than a message may have" in large.text
        assert large.role == "assistant"
        assert b"".join(records(session, store)) == jsonl(lines)
        assert store.verify().damage == []


def test_attachments_live_and_die_with_their_message(store: clew.Store, tmp_path: Path) -> None:
    """A file that a message refers to is a blob of its tree, shown in its view, and goes when the session goes."""
    opened: list[str] = []

    def open_it() -> io.BytesIO:
        opened.append("once")
        return io.BytesIO(b"picture" * 100_000)

    def fail() -> io.BytesIO:
        raise FileNotFoundError(2, "No such file or directory")

    block = {"type": "image", "source": {"type": "url", "url": "asset:1"}}
    raw = json.dumps({"role": "user", "content": [{"type": "text", "text": "Look"}, block]}).encode()
    files = (
        Attachment("asset:1", "a.png", "image/png", open_it),
        Attachment("asset:2", "b.pdf", "application/pdf", lambda: io.BytesIO(b"paper")),
        Attachment("asset:3", "gone.txt", None, fail),
    )
    entry = Entry(
        conversation="c", raw=raw, key="1", id=an_id(1), message=Native("anthropic", raw), attachments=files
    )  # fmt: skip
    item = Item(str(tmp_path), 1, 1)
    outcome = import_item(store, Made(About(conversation="c", title="T"), entry), item)
    session = store.sessions.get(outcome.conversations[0].session)
    media = [block for block in session.path()[0].message.blocks if isinstance(block, Media)]
    assert [(one.name, one.mime_type, one.url) for one in media] == [
        ("a.png", "image/png", None), ("b.pdf", "application/pdf", None),
    ]  # fmt: skip
    assert session.blobs.get(media[0].blob or "") == b"picture" * 100_000
    assert ["gone.txt" in note for note in outcome.notes] == [True]
    again = import_item(store, Made(entry), item)
    assert (again.conversations[0].known, opened) == (1, ["once"])
    assert store.verify().damage == []
    receipt = session.purge()
    assert (receipt.blobs, receipt.messages) == (2, 1)


def test_inherited_entries_are_stored_once(store: clew.Store, tmp_path: Path) -> None:
    """What a conversation continues from another file is in its path, and not in its own records, in either order."""
    base = (said(1, None, "One"), said(2, 1, "Two"))
    fork = (
        said(1, None, "One", conversation="f", inherited=True),
        Entry(conversation="f", raw=b"{}", key="meta", inherited=True),
        said(3, 1, "Three", conversation="f"),
    )
    item = Item(str(tmp_path), 1, 1)
    for order in ((base, fork), (fork, base)):
        with clew.open(":memory:") as store:
            made = [import_item(store, Made(*parts), item).conversations[0].session for parts in order]
            first, second = made if order[0] is base else made[::-1]
            assert [node.text for node in store.sessions.get(first).path()] == ["One", "Two"]
            assert [node.text for node in store.sessions.get(second).path()] == ["One", "Three"]
            assert list(records(store.sessions.get(second), store)) == [fork[2].raw]
            assert list(records(store.sessions.get(first), store)) == [one.raw for one in base]


def test_a_database_has_changed_if_its_log_has(tmp_path: Path) -> None:
    """Rows that are in the write-ahead log alone change the state of a file."""
    path = str(tmp_path / "logs.db")
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("CREATE TABLE t (x)")
        db.commit()
        (item,) = items(path)
        before = state(item)
        db.execute("INSERT INTO t VALUES (1)")
        db.commit()
        (again,) = items(path)
        assert (again.size, again.modified) == (item.size, item.modified)
        assert state(again) != before
    db.close()


def test_a_file_that_grew_is_not_looked_up_again(store: clew.Store, file: Path) -> None:
    """Entries of the last import are counted as known without a look into the store; a changed one is looked up."""
    brought(store, file)
    history = ImportedFiles(store)
    file.write_bytes(jsonl([*LINES, claude_line(4, 3, "assistant", "More")]))
    (item,) = items(str(file))
    outcome = import_item(store, ClaudeCode(), item, history=history)
    assert [(one.messages, one.known) for one in outcome.conversations] == [(1, 3)]
    assert b"".join(records(store.sessions.get(SESSION), store)) == file.read_bytes()
    other = [claude_line(1, None, "user", "Other"), *LINES[1:], claude_line(5, 3, "assistant", "Else")]
    file.write_bytes(jsonl(other))
    (item,) = items(str(file))
    outcome = import_item(store, ClaudeCode(), item, history=history)
    assert [(one.messages, one.records) for one in outcome.conversations] == [(4, 0)]
    assert [node.text for node in store.sessions.get(SESSION).path()] == ["Other", "Yes", "Two", "Else"]


def test_a_repeated_line_is_stored_once(store: clew.Store, file: Path) -> None:
    """The same line twice is one message."""
    file.write_bytes(jsonl([*LINES, LINES[2]]))
    (outcome,) = brought(store, file)
    assert (outcome.messages, outcome.skipped) == (3, ())
    assert b"".join(records(store.sessions.get(SESSION), store)) == jsonl(LINES)


def test_a_copy_without_anything_new_ends_where_it_ends(store: clew.Store, file: Path) -> None:
    """A forked copy of which every message is stored has its whole path."""
    other = an_id(998)
    copy = file.with_name(f"{other}.jsonl")
    copy.write_bytes(jsonl([{**line, "sessionId": other} for line in LINES[:2]]))
    brought(store, file)
    brought(store, copy)
    assert [node.text for node in store.sessions.get(other).path()] == ["One", "Yes"]


def test_a_trace_before_its_owner(store: clew.Store, file: Path) -> None:
    """A subagent's trace that is read first belongs to its owner, which is filled later."""
    trace = file.with_suffix("") / "subagents" / "agent-a7.jsonl"
    trace.parent.mkdir(parents=True)
    trace.write_bytes(jsonl([claude_line(50, None, "user", "Search", isSidechain=True)]))
    brought(store, trace)
    brought(store, file)
    (agent,) = store.sessions.get(SESSION).subagents()
    assert [node.text for node in agent.path()] == ["Search"]
    assert [node.text for node in store.sessions.get(SESSION).path()] == ["One", "Yes", "Two"]


def test_unknown_files_have_an_outcome(store: clew.Store, tmp_path: Path) -> None:
    """A file that no source recognises is skipped with its reason."""
    (tmp_path / "x.txt").write_text("hello")
    (outcome,) = import_all(store, [*find([str(tmp_path / "x.txt")])])
    assert (outcome.state, outcome.skipped) == ("skipped", ("no source recognises it",))
    assert isinstance(next(iter(find([str(tmp_path / "x.txt")]))), Found)
