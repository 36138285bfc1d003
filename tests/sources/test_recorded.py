"""Histories that genuine programs wrote: whole, once, and as they were."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.base.messages import Message, Text, Thinking, ToolCall, ToolResult
from clew.providers.neutral import neutral
from clew.sources.contract import About, Entry, Skip
from clew.sources.importer import records
from clew.sources.items import items
from clew.sources.registry import find
from tests.sources.made import document_of
from tests.sources.samples import Sample
from tests.sources.samples.recorded import CLAUDE_CODE, RECORDED
from tests.sources.test_apps import all_sessions, bring, contents, source

NAMES = [sample.name for sample in RECORDED]
LINES = [sample for sample in RECORDED if all(name.endswith(".jsonl") for name in sample.histories)]
DOCUMENTS = [sample for sample in RECORDED if all(name.endswith(".json") for name in sample.histories)]
DATABASES = [sample for sample in RECORDED if sample.databases]
each = pytest.mark.parametrize("sample", RECORDED, ids=NAMES)


def shown(message: Message) -> str:
    """A message in one line: who, and what."""
    parts = []
    for block in message.blocks:
        if isinstance(block, Thinking):
            parts.append(f"({block.text})")
        elif isinstance(block, ToolCall):
            parts.append(f"{block.name}{json.dumps(block.arguments)}")
        elif isinstance(block, ToolResult):
            words = " ".join(one.text for one in block.content if isinstance(one, Text))
            parts.append(f"{'failed' if block.is_error else 'ok'}: {words.strip().splitlines()[0] if words else ''}")
        elif isinstance(block, Text):
            parts.append(block.text)
        else:
            parts.append(f"<{getattr(block, 'kind', 'media')}>")
    return f"{message.role}: {' | '.join(parts)}"


def transcripts(store: clew.Store) -> dict[str, list[str]]:
    """Each session by its title: all messages that led to its head."""
    return {
        session.title or "": [shown(neutral(node.said)) for node in session.history()]
        for session in all_sessions(store)
    }


def imported(sample: Sample, folder: Path) -> clew.Store:
    sample.write(folder)
    store = clew.open(folder / "store.db")
    bring(store, folder, sample.histories, sample)
    return store


@each
def test_it_is_recognised(sample: Sample, tmp_path: Path) -> None:
    """Each file is recognised by its content, and by no other source."""
    sample.write(tmp_path)
    found = {str(Path(one.item.path).relative_to(tmp_path)): one.source for one in find([str(tmp_path)])}
    assert {name: one.name for name, one in found.items() if one is not None} == dict.fromkeys(
        sample.histories, sample.source
    )


@each
def test_again_and_in_any_order(sample: Sample, tmp_path: Path) -> None:
    """Imported once, twice, or from the last file to the first, the store is the same."""
    with imported(sample, tmp_path) as one, clew.open(tmp_path / "b.db") as other:
        first = contents(one)
        bring(one, tmp_path, sample.histories, sample)
        bring(other, tmp_path, sample.histories[::-1], sample)
        assert first
        assert contents(one) == first
        assert contents(other) == first
        assert one.verify().damage == []


@pytest.mark.parametrize("sample", [*LINES, CLAUDE_CODE], ids=repr)
def test_every_byte_of_a_log_is_kept(sample: Sample, tmp_path: Path) -> None:
    """The records of a conversation, joined, are its file."""
    with imported(sample, tmp_path) as store:
        kept = [b"".join(records(session, store)) for session in all_sessions(store)]
    assert sorted(kept) == sorted(sample.files.values())


def test_every_byte_of_a_file_with_several_runs_is_kept(tmp_path: Path) -> None:
    """The records of all runs of aider, joined, are the file."""
    (sample,) = (sample for sample in RECORDED if sample.name == "aider")
    with imported(sample, tmp_path) as store:
        runs = sorted(store.sessions.list(), key=lambda session: session.extra["source"]["id"])
        assert b"".join(b"".join(records(run, store)) for run in runs) == next(iter(sample.files.values()))


@pytest.mark.parametrize("sample", DOCUMENTS, ids=repr)
def test_every_byte_of_a_document_is_kept(sample: Sample, tmp_path: Path) -> None:
    """The frame of a document and its messages give back its bytes."""
    sample.write(tmp_path)
    for name, data in sample.files.items():
        (item,) = items(str(tmp_path / name))
        assert document_of(source(sample.source).read(item)) == data


@pytest.mark.parametrize("sample", DATABASES, ids=repr)
def test_every_row_is_kept(sample: Sample, tmp_path: Path) -> None:
    """The records of the conversations are the rows of the database."""
    with imported(sample, tmp_path) as store:
        kept = [row for session in all_sessions(store) for one in records(session, store) for row in rows_in(one)]
    with closing(sqlite3.connect(tmp_path / sample.histories[0])) as database:
        database.row_factory = sqlite3.Row
        tables = ("session", "message", "part") if sample.name == "opencode" else ("sessions", "messages")
        rows = [read_row(dict(row)) for table in tables for row in database.execute(f"SELECT * FROM {table}")]
    assert sorted(map(json.dumps, kept)) == sorted(map(json.dumps, rows))


def rows_in(record: bytes) -> list[dict[str, Any]]:
    data = json.loads(record)
    return [read_row(row) for row in ([data["info"], *data["parts"]] if "info" in data else [data])]


def read_row(row: dict[str, Any]) -> dict[str, Any]:
    names = ("data", "content_json", "metadata_json")
    return {name: json.loads(v) if name in names and isinstance(v, str) else v for name, v in row.items()}


@pytest.mark.parametrize("sample", LINES, ids=repr)
def test_a_log_that_is_cut_in_its_last_line(sample: Sample, tmp_path: Path) -> None:
    """Cut at any byte of its last line, a log gives everything before that line and no complaint."""
    sample.write(tmp_path)
    short = {name: data for name, data in sample.files.items() if len(data) - data.rindex(b"\n", 0, -1) < 2000}
    name, data = max(short.items(), key=lambda one: one[1].count(b"\n"))
    start = data.rindex(b"\n", 0, -1) + 1
    expected = read(sample, tmp_path / name, data[:start])
    for end in range(start, len(data)):
        assert read(sample, tmp_path / name, data[:end]) == expected, f"cut at byte {end}"


@pytest.mark.parametrize("sample", DOCUMENTS, ids=repr)
def test_a_document_that_is_cut(sample: Sample, tmp_path: Path) -> None:
    """A document that is cut at any byte of its last message is skipped as a whole, and gives no message."""
    sample.write(tmp_path)
    name, data = max(sample.files.items(), key=lambda one: len(one[1]))
    for end in range(data.rindex(b'"role"'), len(data.rstrip())):
        assert [type(part) for part in read(sample, tmp_path / name, data[:end])] == [Skip], f"cut at byte {end}"


def test_markdown_that_is_cut(tmp_path: Path) -> None:
    """Cut at any byte of its last run, a file of aider gives the first records of the whole, as they are there."""
    (sample,) = (sample for sample in RECORDED if sample.name == "aider")
    sample.write(tmp_path)
    ((name, data),) = sample.files.items()
    whole = [part for part in read(sample, tmp_path / name, data) if isinstance(part, Entry)]
    for end in range(data.rindex(b"# aider chat started"), len(data)):
        found = [part for part in read(sample, tmp_path / name, data[:end]) if isinstance(part, Entry)]
        assert found == whole[: len(found)], f"cut at byte {end}"


def read(sample: Sample, path: Path, data: bytes) -> list[Any]:
    path.write_bytes(data)
    (item,) = items(str(path))
    return list(source(sample.source).read(item))


@pytest.mark.parametrize("sample", LINES, ids=repr)
def test_repeated_lines(sample: Sample, tmp_path: Path) -> None:
    """A log in which every line is there twice has the same messages in the same places."""
    sample.write(tmp_path)
    for name, data in sample.files.items():
        twice = b"".join(line * 2 for line in data.splitlines(keepends=True))
        assert tree(read(sample, tmp_path / name, twice)) == tree(read(sample, tmp_path / name, data))


def tree(parts: list[Any]) -> tuple[dict[Any, Any], list[str]]:
    """Where each message is, and where the program would continue."""
    found = {part.id: (part.parent, part.derived) for part in parts if isinstance(part, Entry) and part.message}
    return found, [part.head for part in parts if isinstance(part, About) and part.head]


@each
def test_what_was_said(sample: Sample, tmp_path: Path) -> None:
    """Texts, thoughts, calls with their arguments, results and failures are those of the run."""
    with imported(sample, tmp_path) as store:
        found = transcripts(store)
    for title, expected in SAID[sample.name].items():
        assert found[title] == expected


@each
def test_facts(sample: Sample, tmp_path: Path) -> None:
    """Folder, model, times and tokens are those of the run, and tokens are counted once."""
    with imported(sample, tmp_path) as store:
        sessions = list(store.sessions.list())
        folder = str(tmp_path / "aider") if sample.name == "aider" else "/home/user/work"
        assert {session.cwd for session in sessions} == {folder}
        assert {session.model for session in sessions} - {None} == {MODELS.get(sample.name, "a-model")}
        messages = [(node, neutral(node.said)) for session in sessions for node in session.history()]
        assert {node.created_at.strftime("%Y-%m-%d") for node, _ in messages} == {"2026-11-18"}
        used = {(one.usage.input, one.usage.output) for _, one in messages if one.usage and one.usage.output}
        assert used == USED.get(sample.name, {(10, 5)})
        assert all(one.role == "assistant" for _, one in messages if one.usage)


MODELS = {"gemini-cli": "gemini-2.5-flash", "qwen-code": "qwen3-coder-plus", "aider": "openai/a-model"}
USED: dict[str, set[tuple[int, int]]] = {"goose": set(), "aider": {(2300, 63), (2400, 22), (2300, 5)}}
ALPHA, NONE = "/home/user/work/a.txt", "/home/user/work/none.txt"
MISSED = f'read{{"filePath": "{NONE}"}} | failed: File not found: {NONE}'
COMMAND = 'run_commands{"commands": ["exit 3"]}'
SAID: dict[str, dict[str, list[str]]] = {
    "gemini-cli": {
        "Where are we going?": [
            "system: <session_context>\nWorkspace Directories:**\n  - /home/user/work\n</session_context>",
            "user: Where are we going?",
            "assistant: (**A) | (city**) | (Which) | (one?) | Rome.",
            "user: What is in a.txt?",
            "assistant: Let me look.",
            f'assistant: read_file{{"file_path": "{ALPHA}"}} | ok: alpha',
            "assistant: It says alpha.",
            "user: Do it all",
            "assistant: All at once.",
            f'assistant: read_file{{"file_path": "{ALPHA}"}} | ok: alpha',
            'assistant: run_shell_command{"command": "exit 3"} | ok: <untrusted_context>',
            f'assistant: read_file{{"file_path": "{NONE}"}} | failed: File not found: {NONE}',
            "assistant: Two of them failed.",
        ],
    },
    "opencode": {
        "A journey (fork #1)": [
            "user: Where are we going?",
            "assistant: (Which one?) | Rome.",
            "user: What is in a.txt?",
            f'assistant: Let me look. | read{{"filePath": "{ALPHA}"}} | ok: <path>{ALPHA}</path>',
            "assistant: It says alpha.",
            "user: Do it all",
            'assistant: Both at once. | bash{"command": "exit 3", "description": "Fails"} | failed: (no output) | '
            + MISSED,
            "assistant: Both failed.",
        ],
        "A failure": ["user: This one fails", "assistant: <error>"],
        "Looks around (@general subagent)": ["user: Look around", "assistant: One file."],
        "A kill": ["user: Kill me"],
    },
    "pi": {
        "This one fails": [
            "system: Be brief. | <cwd>\n/home/user/work\n</cwd>",
            "user: This one fails",
            "assistant: <error>",
        ],
    },
    "qwen-code": {
        "This one fails": ["user: This one fails"],
        "Kill me": ["user: Kill me"],
    },
    "goose": {
        "A journey": [
            "user: Where are we going?",
            "assistant: (Which one?) | Rome.",
            "user: What is in a.txt?",
            "assistant: Let me look.",
            'assistant: shell{"command": "cat a.txt"}',
            "tool: ok: alpha",
            "assistant: It says alpha.",
            "user: Do it all",
            "assistant: Both at once.",
            'assistant: shell{"command": "exit 3"}',
            "tool: failed: (no output)",
            'assistant: shell{"command": "echo hi"}',
            "tool: ok: hi",
            "assistant: One of them failed.",
        ],
    },
    "cline": {
        "What is in a.txt?": [
            "user: What is in a.txt?",
            f'assistant: Both at once. | read_files{{"files": [{{"path": "{ALPHA}"}}]}} | {COMMAND}',
            "tool: ok: 1 | alpha",
            "tool: failed: [Command exited with code 3]",
            "assistant: It says alpha.",
        ],
        "Kill me": [],
    },
    "continue": {
        "Where are we going?": [
            "user: Where are we going?",
            "assistant: Rome.",
            "user: What is in a.txt?",
            f'assistant: Let me look. | Read{{"filepath": "{ALPHA}"}} | ok: Content of {ALPHA}:',
            "assistant: It says alpha.",
        ],
    },
    "aider": {
        "Where are we going?": [
            "user: Where are we going?",
            "assistant: (Which one?) | Rome.\n\n> not a line of the program",
        ],
        "#### Is this a heading? > and this a quotation?": [
            "user: #### Is this a heading?\n\n> and this a quotation?",
            "assistant: Yes, a heading.",
        ],
        "This one fails": ["user: This one fails"],
    },
}
"""For some sessions of each sample, what its script let the program and the model say."""


@pytest.mark.parametrize("name", ["opencode", "pi", "qwen-code"])
def test_a_fork_shares_its_messages(name: str, tmp_path: Path) -> None:
    """The fork and its original have the same messages up to the fork, each stored once."""
    (sample,) = (sample for sample in RECORDED if sample.name == name)
    with imported(sample, tmp_path) as store:
        paths = sorted(([node.id for node in session.path()] for session in store.sessions.list()), key=len)
        fork, original = paths[-1], paths[-2]
        assert fork[: len(original)] == original
        assert [node.text for node in store.nodes.get(fork[-1])] == [SAID_LAST[name]]


SAID_LAST = {"opencode": "Both failed.", "pi": "Both failed.", "qwen-code": "One of them failed."}
