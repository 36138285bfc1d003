"""Any value in any place of a history: every format gives parts or an error, and messages that can be stored.

`make test` tries the same examples each time. `make soak` tries many others; what it finds becomes a line of
`test_examples_that_failed_once`.
"""

from __future__ import annotations

import copy
import json
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import clew
from clew.base.messages import Native
from clew.errors import ClewError, Invalid
from clew.providers.neutral import encode, neutral
from clew.sources import find, import_all
from clew.sources.contract import About, Entry, Part, Skip
from clew.sources.items import items
from clew.sources.sqlite import quote_name
from tests.sources.made import SESSION, claude_line, jsonl
from tests.sources.samples import APPS, SAMPLES, Sample, otel
from tests.sources.samples.recorded import RECORDED
from tests.sources.test_every_format import source
from tests.sources.test_exports import chatgpt, claude, node, say

EVERY = [*SAMPLES, *APPS, *RECORDED]
JSON = [sample for sample in EVERY if all(name.endswith((".jsonl", ".json")) for name in sample.histories)]
DATABASES = [sample for sample in EVERY if sample.databases]
SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large)
SAME = settings(max_examples=25, deadline=None, derandomize=True, database=None, suppress_health_check=SLOW)
MANY = settings(max_examples=2000, deadline=None, suppress_health_check=SLOW)
ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8) | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=4,
)


def hostile_values(sample: Sample, data: st.DataObject) -> None:
    """Changes values of one file, and reads it."""
    name = data.draw(st.sampled_from(sample.histories))
    text = sample.files[name].decode()
    documents = [json.loads(line) for line in text.splitlines()] if name.endswith(".jsonl") else [json.loads(text)]
    for _ in range(data.draw(st.integers(1, 3))):
        mutate(documents, data)
    with tempfile.TemporaryDirectory() as folder:
        sample.write(Path(folder))
        file = Path(folder) / name
        file.write_text("".join(json.dumps(document) + "\n" for document in documents))
        check(sample, file)


def hostile_rows(sample: Sample, data: st.DataObject) -> None:
    """Changes a value of one row, or a value inside its JSON, and reads the database."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / next(iter(sample.databases))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(whole_database(sample.name))
        with closing(sqlite3.connect(file)) as database:
            database.execute("PRAGMA synchronous = OFF")
            names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
            table = data.draw(st.sampled_from([name for (name,) in names if "_fts" not in name]))
            column = data.draw(
                st.sampled_from([row[1] for row in database.execute(f"PRAGMA table_info({quote_name(table)})")])
            )
            place = f"{quote_name(table)} SET {quote_name(column)} = ? WHERE rowid = ?"
            rows = database.execute(f"SELECT rowid, {quote_name(column)} FROM {quote_name(table)}").fetchall()
            if not rows:
                return
            rowid, value = data.draw(st.sampled_from(rows))
            others = [other for _, other in rows]
            with suppress(sqlite3.Error):  # SQLite itself refuses some values
                database.execute(f"UPDATE OR REPLACE {place}", (changed(value, others, data), rowid))
            database.commit()
        check(sample, file)


@cache
def whole_database(name: str) -> bytes:
    """The bytes of a sample that is a database."""
    (sample,) = (one for one in DATABASES if one.name == name)
    with tempfile.TemporaryDirectory() as folder:
        sample.write(Path(folder))
        return (Path(folder) / next(iter(sample.databases))).read_bytes()


def changed(value: Any, others: list[Any], data: st.DataObject) -> Any:
    """Another value for a column: one of any type, that of another row, or its JSON with a value changed."""
    try:
        root = [json.loads(value)]
    except (TypeError, ValueError):
        root = []
    how = data.draw(st.sampled_from(["any", "other", *(["inside"] if root else [])]))
    if how == "other":
        return data.draw(st.sampled_from(others))
    if how == "any":
        return data.draw(
            st.none() | st.integers(-(2**62), 2**62) | st.floats() | st.text(max_size=5) | st.binary(max_size=5)
        )
    mutate(root, data)
    text = json.dumps(root[0] if root else None)
    return text.encode() if isinstance(value, bytes) else text


def mutate(root: list[Any], data: st.DataObject) -> None:
    """Replaces, removes or repeats a value below the root, or puts a value of another place there."""
    at: Any = root
    while True:
        if not at:
            return
        key = data.draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
        inner = at[key]
        if isinstance(inner, dict | list) and inner and data.draw(st.booleans()):
            at = inner
            continue
        how = data.draw(st.sampled_from(["replace", "remove", "repeat", "same"]))
        if how == "replace":
            at[key] = data.draw(ODD)
        elif how == "remove":
            del at[key]
        elif how == "repeat" and isinstance(at, list):
            at.insert(key, copy.deepcopy(inner))
        elif how == "same":
            at[key] = data.draw(st.sampled_from(sorted(words_in(root)) or [""]))
        return


def words_in(value: Any) -> set[str]:
    """Short texts: among them are the names by which records refer to each other."""
    if isinstance(value, str):
        return {value} if len(value) < 60 else set()
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return set[str]().union(*map(words_in, inner))


def check(sample: Sample, file: Path) -> list[Part]:
    """Reads a file: each message has an id, does not follow itself, and can be stored or is refused."""
    (item,) = items(str(file))
    parts: list[Part] = []
    with suppress(ClewError):
        for part in source(sample.source).read(item):
            assert isinstance(part, About | Entry | Skip)
            parts.append(part)
            if isinstance(part, Entry) and part.message is not None:
                assert part.id is not None
                assert part.id not in (part.parent, part.derived)
                try:
                    encode(part.message)
                except Invalid:
                    assert isinstance(part.message, Native)
                    neutral(part.message)
    return parts


@pytest.mark.parametrize("sample", JSON, ids=repr)
@SAME
@given(data=st.data())
def test_any_value(sample: Sample, data: st.DataObject) -> None:
    """Any value in any place gives parts or an error of clew, and messages that can be stored or are refused."""
    hostile_values(sample, data)


@pytest.mark.parametrize("sample", DATABASES, ids=repr)
@SAME
@given(data=st.data())
def test_any_row(sample: Sample, data: st.DataObject) -> None:
    """Any value in any row, or inside the JSON of any row, gives the same."""
    hostile_rows(sample, data)


@pytest.mark.soak
@pytest.mark.parametrize("sample", JSON, ids=repr)
@MANY
@given(data=st.data())
def test_any_value_at_random(sample: Sample, data: st.DataObject) -> None:
    """The same, with many more examples that differ each time."""
    hostile_values(sample, data)


@pytest.mark.soak
@pytest.mark.parametrize("sample", DATABASES, ids=repr)
@MANY
@given(data=st.data())
def test_any_row_at_random(sample: Sample, data: st.DataObject) -> None:
    """The same, with many more examples that differ each time."""
    hostile_rows(sample, data)


HEADER = {"sessionId": "s", "projectHash": "h", "startTime": "2026-11-01T10:00:00Z"}
PROMPT = {"id": "p", "type": "user", "content": "Do it", "timestamp": "2026-11-01T10:00:01Z"}
CALL = {"id": "c", "name": "ls", "args": {}, "status": "success"}
REQUEST = {"requestId": "r1", "message": {"text": "One"}, "responseId": "r2", "response": [{"value": "1"}]}
CHAT = {"version": 3, "responderUsername": "x", "initialLocation": "panel", "sessionId": "s"}
STATE = {"kind": 0, "v": {**CHAT, "requests": [{**REQUEST, "message": {"text": "a\0b"}, "modelId": "\0"}]}}


def answered_twice() -> list[dict[str, Any]]:
    """An answer with a call, and its result twice."""
    call = {"type": "tool_use", "id": "t", "name": "ls", "input": {}}
    result = claude_line(3, 2, "user", [{"type": "tool_result", "tool_use_id": "t", "content": "a"}])
    asked = [claude_line(1, None, "user", "Go"), claude_line(2, 1, "assistant", [call], message={"id": "m"})]
    return [*asked, result, result]


FAILED: dict[str, tuple[str, str, Callable[[], bytes], int]] = {
    "gemini-cli: two ended calls with one id": ("gemini-cli", "chats/session-1.jsonl", lambda: jsonl([
        HEADER, PROMPT, {**PROMPT, "type": "gemini", "id": "g"},
        {**PROMPT, "type": "gemini", "id": "g", "toolCalls": [CALL, CALL]},
    ]), 3),
    "gemini-cli: a new history with one message twice": ("gemini-cli", "chats/session-1.jsonl", lambda: jsonl([
        HEADER, {"$set": {"messages": [PROMPT, PROMPT]}},
    ]), 1),
    "claude-code: the last result of an answer is there twice": (
        "claude-code", f"{SESSION}.jsonl", lambda: jsonl(answered_twice()), 3,
    ),
    "chatgpt: a node is its own parent": ("chatgpt", "conversations.json", lambda: json.dumps(
        [chatgpt(node("a", "a", "user", "Hello"), current_node="a")]).encode(), 1),
    "chatgpt: two nodes are each other's parents": ("chatgpt", "conversations.json", lambda: json.dumps(
        [chatgpt(node("a", "b", "user", "Hello"), node("b", "a", "assistant", "Hi"), current_node="a")]).encode(), 2),
    "chatgpt: children are a number": ("chatgpt", "conversations.json", lambda: json.dumps(
        [chatgpt({**node("a", None, "user", "Hello"), "children": 3}, current_node="a")]).encode(), 1),
    "claude-ai: a message is its own parent": ("claude-ai", "conversations.json", lambda: json.dumps(
        [claude(say(1, "human", "Hello", parent_message_uuid=say(1, "human", "")["uuid"]))]).encode(), 1),
    "vscode: a response has the name of the next request": ("vscode", "s.json", lambda: json.dumps(
        {**CHAT, "requests": [REQUEST, {**REQUEST, "requestId": "r2"}]}).encode(), 4),
    "vscode: a change names a field by a number": ("vscode", "s.jsonl", lambda: jsonl([
        {"kind": 0, "v": {**CHAT, "requests": [REQUEST]}}, {"kind": 1, "k": ["requests", 0, "message", 7], "v": 1},
    ]), 2),
    "vscode: a text in a log has a NUL": ("vscode", "s.jsonl", lambda: jsonl([STATE]), 2),
    "hf-traces: half of a character": ("hf-traces", "trace.jsonl", lambda: jsonl([
        {"type": "session", "harness": "x", "id": "s"},
        {"type": "message", "message": {"role": "user", "content": "cut \ud83d"}},
    ]), 1),
    "hf-traces: a time is a digit that is no number": ("hf-traces", "trace.jsonl", lambda: jsonl([
        {"type": "session", "harness": "x", "id": "s"},
        {"type": "message", "timestamp": "\u00b2", "message": {"role": "user", "content": "a", "timestamp": "\u00b2"}},
    ]), 1),
    "otel: numbers that are none": ("otel", "traces.jsonl", lambda: jsonl([otel.span(1, **otel.ABOUT, **{
        "gen_ai_input.messages": [otel.text("user", "Hello")], "gen_ai_usage.input_tokens": 7,
        "gen_ai_usage.output_tokens": 8,
    })]).replace(b'"7"', b'"--7"').replace(b'"8"', '"\u00b2"'.encode()), 1),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILED)
def test_examples_that_failed_once(name: str, tmp_path: Path) -> None:
    """No message follows itself, all of them are stored, and importing the file again changes nothing."""
    source_name, path, make, count = FAILED[name]
    file = tmp_path / path
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(make())
    check(Sample(name, source_name, {path: b""}), file)
    with clew.open(tmp_path / "s.db") as store:
        (done,) = import_all(store, find([str(file)]))
        assert (done.source, done.state, done.messages) == (source_name, "imported", count)
        (again,) = import_all(store, find([str(file)]), again=True)
        assert (again.state, again.messages) == ("imported", 0)
        assert store.verify().damage == []


def test_a_part_of_an_unknown_type(tmp_path: Path) -> None:
    """A part of a message in opencode's database whose type is no text is kept, and the message can be shown."""
    (sample,) = (one for one in RECORDED if one.name == "opencode")
    sample.write(tmp_path)
    file = tmp_path / sample.histories[0]
    with closing(sqlite3.connect(file)) as database:
        database.execute("UPDATE part SET data = ?", (json.dumps({"type": ["text"]}),))
        database.commit()
    assert any(isinstance(part, Entry) and part.message is not None for part in check(sample, file))
