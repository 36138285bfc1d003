"""Conversations of Cursor in all four forms."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from clew.base.messages import Text, Thinking, ToolCall, ToolResult, Usage
from clew.sources.contract import About, Part, derived_id
from clew.sources.cursor import CursorHistory
from clew.sources.items import items
from clew.sources.sqlite import record_row
from tests.sources.made import about, entries, messages, path, read, skips, view
from tests.sources.samples import cursor as sample

SOURCE = CursorHistory()


def id_of(key: str, conversation: str = sample.COMPOSER) -> str:
    return derived_id("cursor", conversation, key)


def parts(path: Path) -> list[Part]:
    (item,) = items(str(path))
    return list(SOURCE.read(item))


@pytest.fixture
def editor(tmp_path: Path) -> list[Part]:
    sample.editor(tmp_path / "state.vscdb")
    return parts(tmp_path / "state.vscdb")


@pytest.fixture
def store(tmp_path: Path) -> list[Part]:
    sample.store(tmp_path / "store.db")
    return parts(tmp_path / "store.db")


def test_messages_in_the_order_that_the_conversation_lists(editor: list[Part]) -> None:
    """A listed message without a row is passed over; one that is no longer listed is kept as a record."""
    found = messages(editor)
    assert path(found, id_of("b4")) == [id_of(name) for name in ("b1", "b2", "b3", "b4")]
    kept = {entry.key for entry in entries(editor) if entry.message is None}
    told = [f"composerData:{name}" for name in sample.COMPOSERS if name != "empty"]
    assert kept == {f"bubbleId:{sample.COMPOSER}:gone", *told}


def test_what_a_bubble_says(editor: list[Part]) -> None:
    """Texts, thoughts, calls with their results and failures, tokens and models."""
    found = messages(editor)
    assert view(found[id_of("b2")]).blocks == (Thinking(text="I run them."),)
    assert view(found[id_of("b3")]).blocks == (
        Text(text="I run them."),
        ToolCall(id="c1", name="run_terminal_cmd", arguments={"command": "npm test"}),
        ToolResult(call_id="c1", content=(Text(text='{"output":"1 failed"}'),), is_error=True),
    )
    last = view(found[id_of("b4")])
    assert (last.role, last.usage, last.model) == ("assistant", Usage(input=90, output=7), "claude-sonnet-5-5")
    assert view(found[id_of("b3")]).usage is None, "0 tokens are unknown"
    assert str(found[id_of("b1")].created_at) == "2026-11-01 10:00:01+00:00"
    assert str(found[id_of("b4")].created_at) == "2026-10-26 07:33:20+00:00"


def test_facts(editor: list[Part]) -> None:
    """The index wins over the conversation's own row; a subagent names its owner and comes after it."""
    told = [part for part in editor if isinstance(part, About)]
    assert [one.conversation for one in told] == [sample.COMPOSER, sample.OLD, sample.AGENT]
    assert (told[0].title, told[0].cwd, told[0].branch) == ("Tests", "/src/app", "main")
    assert (told[2].owner, told[2].agent, told[2].title) == (sample.COMPOSER, "explore", "Search")


def test_an_older_conversation_has_its_messages_inside(editor: list[Part]) -> None:
    """Its row is kept once, and its messages are made from it."""
    found = messages(editor)
    assert path(found, id_of("o2", sample.OLD)) == [id_of("o1", sample.OLD), id_of("o2", sample.OLD)]
    assert [view(found[id_of(key, sample.OLD)]).text for key in ("o1", "o2")] == ["Hello", "Hi"]


def test_rows_can_be_written_back(editor: list[Part], store: list[Part]) -> None:
    """Every record is a row of the database."""
    found = [record_row(entry.raw) for entry in entries(editor) if entry.raw]
    rows = sample.rows()
    assert all(table == "cursorDiskKV" and rows[row["key"]] == row["value"] for table, row in found)
    assert len(found) == 9
    assert sum(record_row(entry.raw)[0] == "blobs" for entry in entries(store)) == len(sample.MESSAGES) + 1


def test_no_value_of_another_key_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are found by the index: no query on the table of keys scans it."""
    file = tmp_path / "state.vscdb"
    sample.editor(file)
    asked: list[str] = []
    connect = sqlite3.connect

    def traced(*arguments: Any, **options: Any) -> sqlite3.Connection:
        database: sqlite3.Connection = connect(*arguments, **options)
        database.set_trace_callback(asked.append)
        return database

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", traced)
        parts(file)
    queries = [query for query in asked if "cursorDiskKV" in query and query.startswith("SELECT")]
    with closing(sqlite3.connect(file)) as database:
        plans = {row[3] for query in queries for row in database.execute(f"EXPLAIN QUERY PLAN {query}")}
    assert len(queries) > 10
    assert plans
    assert not [plan for plan in plans if plan.startswith("SCAN")]


def test_a_message_that_is_being_written(tmp_path: Path) -> None:
    """The last message of a running conversation has an id of its own, so that the whole one can follow."""
    file = tmp_path / "state.vscdb"
    sample.editor(file)
    with closing(sqlite3.connect(file)) as database:
        change = "UPDATE cursorDiskKV SET value = replace(value, 'completed', 'generating') WHERE key LIKE 'composer%'"
        database.execute(change)
        database.commit()
    running = messages(parts(file))
    assert id_of("b4") not in running
    assert id_of("b3") in running


def test_the_command_line_follows_its_root(store: list[Part]) -> None:
    """Listed messages are the path; a rewound one is a branch; the folder comes from the prompt's preamble."""
    found = messages(store)
    (head,) = about(store, "head")
    texts = [view(found[id]).text for id in path(found, head)]
    assert texts[0] == "You are an agent."
    assert texts[2:] == ["List it", "", "a.py"]
    (left,) = [entry for entry in found.values() if view(entry).text == "Taken back"]
    assert view(found[left.parent or ""]).text == "List it"
    facts = [about(store, name) for name in ("title", "cwd", "model")]
    assert facts == [["List it"], ["/src/app"], ["gpt-6-sol"]]
    call = view(found[path(found, head)[3]])
    assert call.blocks == (Thinking(text="I list."), ToolCall(id="c1", name="LS", arguments={"path": "."}))
    assert view(found[head]).blocks == (ToolResult(call_id="c1", content=(Text(text="a.py"),)),)


def test_the_command_line_without_a_root(tmp_path: Path) -> None:
    """If the root is missing, messages follow each other as they were written."""
    file = tmp_path / "store.db"
    sample.store(file)
    with closing(sqlite3.connect(file)) as database:
        database.execute("UPDATE meta SET value = 'not hexadecimal'")
        database.commit()
    found = messages(parts(file))
    assert len(path(found, list(found)[-1])) == len(sample.MESSAGES)


@pytest.mark.parametrize(("name", "data"), [("a.jsonl", sample.LINES), ("a.txt", sample.TEXT)])
def test_transcripts(name: str, data: bytes) -> None:
    """Prompts without their wrapper, calls and results; every byte is kept."""
    parts = read(SOURCE, data, f"agent-transcripts/{name}")
    found = messages(parts)
    told = [view(found[id]) for id in path(found, list(found)[-1])]
    assert [(one.role, one.text.splitlines()[0]) for one in told] == [
        ("user", "List"), ("assistant", "I list."), ("assistant", "It is a.py."),
    ]  # fmt: skip
    (call,) = [block for block in told[1].blocks if isinstance(block, ToolCall)]
    assert (call.name, call.arguments) == ("LS", {"path": "."})
    assert b"".join(entry.raw for entry in entries(parts)) == data


def test_databases_of_another_form(tmp_path: Path) -> None:
    """A database without the tables is named, and nothing is raised."""
    for name in ("state.vscdb", "store.db"):
        file = tmp_path / "Cursor" / ".cursor" / "chats" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(file)) as database:
            database.execute("CREATE TABLE t (x)")
        assert skips(parts(file))
