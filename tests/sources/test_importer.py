"""Histories in a store: whole, once, and as they were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.sources.chatgpt import ChatGPT
from clew.sources.claude_code import ClaudeCode
from clew.sources.contract import Source
from clew.sources.importer import import_item, records, session_id
from clew.sources.items import items
from tests.sources.made import SESSION, an_id, claude_line, jsonl
from tests.sources.test_exports import TREE

CLAUDE = ClaudeCode()


def brought(store: clew.Store, path: Path, data: bytes, source: Source = CLAUDE) -> Any:
    """What became of a file with these bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    (item,) = items(str(path))
    return import_item(store, source, item)


def texts(store: clew.Store, session: str = SESSION) -> list[str]:
    return [node.text for node in store.sessions.get(session).path()]


LINES = [
    {"type": "summary", "summary": "A title", "leafUuid": an_id(4)},
    claude_line(1, None, "user", "One"),
    claude_line(2, 1, "assistant", "Yes", message={"id": "m", "model": "claude-x"}),
    {"type": "queue-operation", "operation": "enqueue", "sessionId": SESSION},
    claude_line(3, 2, "user", "Two"),
    claude_line(4, 2, "user", "Two, better"),
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "projects" / "p" / f"{SESSION}.jsonl"


@pytest.fixture(params=[None, b"k" * 32], ids=["plain", "sealed"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    with clew.open(tmp_path / "s.db", key=request.param) as store:
        yield store


def test_a_conversation_with_a_branch(store: clew.Store, file: Path) -> None:
    """The session ends where the program would continue; the path that was left is a branch."""
    done = brought(store, file, jsonl(LINES))
    assert [(one.session, one.messages, one.known) for one in done.conversations] == [(SESSION, 4, 0)]
    session = store.sessions.get(SESSION)
    assert texts(store) == ["One", "Yes", "Two, better"]
    assert [branch.head_id for branch in session.branches()] == [an_id(3)]
    assert (session.title, session.cwd) == ("A title", "/src/app")
    assert session.extra["source"]["tool"] == "claude-code"
    assert str(session.path()[0].created_at) == "2026-11-01 10:00:01+00:00"


def test_again_nothing_is_new(store: clew.Store, file: Path) -> None:
    """A second import stores nothing, and every record is there once and in its place."""
    data = jsonl(LINES)
    brought(store, file, data)
    before = [entry.data for entry in store.sessions.get(SESSION).log.read()]
    done = brought(store, file, data)
    assert [(one.messages, one.known, one.records) for one in done.conversations] == [(0, 4, 0)]
    session = store.sessions.get(SESSION)
    assert [entry.data for entry in session.log.read()] == before
    assert b"".join(records(session, store)) == data


@pytest.mark.parametrize("cut", range(1, len(LINES)))
def test_a_file_that_grows(store: clew.Store, file: Path, cut: int) -> None:
    """Imported in two parts, cut anywhere, it is the same as imported at once."""
    brought(store, file, jsonl(LINES[:cut]))
    brought(store, file, jsonl(LINES))
    session = store.sessions.get(SESSION)
    assert texts(store) == ["One", "Yes", "Two, better"]
    assert [branch.head_id for branch in session.branches()] == [an_id(3)]
    assert b"".join(records(session, store)) == jsonl(LINES)


def test_a_forked_copy_shares_its_messages(store: clew.Store, file: Path) -> None:
    """A copy of a file under another session's id: one node, two sessions, each with its own bytes."""
    other = an_id(998)
    copy = [json.loads(json.dumps(line).replace(SESSION, other)) for line in LINES[1:3]]
    copy.append(claude_line(7, 2, "user", "Three", sessionId=other))
    brought(store, file, jsonl(LINES))
    done = brought(store, file.with_name(f"{other}.jsonl"), jsonl(copy))
    assert [(one.messages, one.known) for one in done.conversations] == [(1, 2)]
    assert texts(store, other) == ["One", "Yes", "Three"]
    assert store.sessions.get(other).path()[0] == store.sessions.get(SESSION).path()[0]
    assert b"".join(records(store.sessions.get(other), store)) == jsonl(copy)
    assert b"".join(records(store.sessions.get(SESSION), store)) == jsonl(LINES)


def test_a_compaction_keeps_what_came_before(store: clew.Store, file: Path) -> None:
    """The path begins at the summary; the history has everything."""
    boundary = {"type": "system", "subtype": "compact_boundary", "message": None, "logicalParentUuid": an_id(2)}
    lines = [
        *LINES[1:3],
        claude_line(3, None, "user", "") | boundary,
        claude_line(4, 3, "user", "Summary", isCompactSummary=True),
        claude_line(5, 4, "assistant", "On"),
    ]
    brought(store, file, jsonl(lines))
    assert texts(store) == ["Summary", "On"]
    assert [node.text for node in store.sessions.get(SESSION).history()] == ["One", "Yes", "Summary", "On"]


def test_a_subagent_belongs_to_its_owner(store: clew.Store, file: Path) -> None:
    """Its trace is listed with its owner, and is never the latest session."""
    brought(store, file, jsonl(LINES))
    trace = file.with_suffix("") / "subagents" / "agent-a7.jsonl"
    brought(store, trace, jsonl([claude_line(50, None, "user", "Search", isSidechain=True)]))
    (agent,) = store.sessions.get(SESSION).subagents()
    assert (agent.agent, [node.text for node in agent.path()]) == ("a7", ["Search"])
    assert store.sessions.latest().id == SESSION


def test_a_title_that_a_person_gave_stays(store: clew.Store, file: Path) -> None:
    """Renamed here, a session is not renamed by the next import."""
    brought(store, file, jsonl(LINES))
    store.sessions.get(SESSION).rename("Mine")
    brought(store, file, jsonl([*LINES, {"type": "custom-title", "customTitle": "New", "sessionId": SESSION}]))
    assert store.sessions.get(SESSION).title == "Mine"


def test_chatgpt_as_it_was(store: clew.Store, tmp_path: Path) -> None:
    """A conversation of an export is a session whose head is the answer shown last."""
    done = brought(store, tmp_path / "conversations.json", json.dumps([TREE]).encode(), ChatGPT())
    (one,) = done.conversations
    assert one.session == session_id("chatgpt", "c1")
    assert (one.messages, store.sessions.get(one.session).title) == (4, "A title")
    assert len(store.sessions.get(one.session).path()) == 3


def test_verify_finds_nothing(store: clew.Store, file: Path) -> None:
    """What an import stores is sound."""
    brought(store, file, jsonl(LINES))
    assert store.verify().damage == []
