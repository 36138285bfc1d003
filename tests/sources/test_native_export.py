"""What was imported comes out again: files byte for byte, databases record for record."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import clew
from clew import exports
from clew.errors import Invalid
from clew.redaction import Rule, Rules
from clew.sources import find, import_all
from clew.sources.sqlite import row_bytes, row_record
from tests.sources.made import SESSION, an_id, claude_line, jsonl
from tests.sources.samples import APPS, SAMPLES, Sample, frameworks
from tests.sources.samples.recorded import RECORDED
from tests.sources.test_exports import chatgpt, claude, node, say

EVERY = [*SAMPLES, *APPS, *RECORDED]
TEXTS = [sample for sample in EVERY if not sample.databases]
MESSAGES_ONLY = ("langgraph",)
"""Databases whose rows are not kept: a checkpoint of LangGraph repeats the whole state, and only its messages are."""
DATABASES = [sample for sample in EVERY if sample.databases and sample.name not in MESSAGES_ONLY]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[clew.Store]:
    with clew.open(tmp_path / "s.db") as store:
        yield store


def take(store: clew.Store, *paths: Path) -> None:
    """Imports what is at these paths."""
    done = list(import_all(store, find([str(path) for path in paths])))
    assert {one.state for one in done} <= {"imported", "unchanged"}


def put(store: clew.Store, folder: Path, sessions: Any = None) -> dict[str, bytes]:
    """The files of a native export, by their names."""
    done = exports.write(store, f"{folder}/", sessions, form="native")
    assert not done.damaged
    assert not done.refused
    return {Path(name).name: Path(name).read_bytes() for name in done.files}


@pytest.mark.parametrize("sample", TEXTS, ids=repr)
def test_every_file_comes_out_as_it_was(sample: Sample, store: clew.Store, tmp_path: Path) -> None:
    """The files of a native export are those that were imported, with the bytes and the names that they had."""
    sample.write(tmp_path / "in")
    take(store, tmp_path / "in")
    out = put(store, tmp_path / "out")
    assert sorted(out.values()) == sorted(sample.files.values())
    names = {Path(name).name for name in sample.files}
    assert len(names) < len(sample.files) or set(out) == names


@pytest.mark.parametrize("sample", TEXTS, ids=repr)
def test_files_that_grow_come_out_as_they_are_now(sample: Sample, store: clew.Store, tmp_path: Path) -> None:
    """A log that was imported when half of its lines were there, and again when all were, comes out whole."""
    sample.write(tmp_path / "in")
    for name, data in sample.files.items():
        lines = data.splitlines(keepends=True)
        if name.endswith(".jsonl"):
            (tmp_path / "in" / name).write_bytes(b"".join(lines[: max(1, len(lines) // 2)]))
    list(import_all(store, find([str(tmp_path / "in")])))
    sample.write(tmp_path / "in")
    take(store, tmp_path / "in")
    assert sorted(put(store, tmp_path / "out").values()) == sorted(sample.files.values())


ROWS = {
    "llm": ("conversations", "threads", "turns", "messages", "responses", "tools"),
    "opencode": ("session", "message", "part"),
    "goose": ("sessions", "messages"),
    "open-webui-database": ("chat",),
    "cursor-cli": ("meta", "blobs"),
    "cursor-editor": (),
    "openai-agents": ("agent_sessions", "agent_messages"),
    "google-adk": ("sessions", "events"),
    "agno": ("agno_sessions", "agno_runs"),
    "agno-old": ("my_sessions",),
}
"""Tables all of whose rows belong to conversations."""


@pytest.mark.parametrize("sample", DATABASES, ids=repr)
def test_every_record_of_a_database_comes_out(sample: Sample, store: clew.Store, tmp_path: Path) -> None:
    """A native export of a database has its rows, each with its values, as lines of JSON."""
    sample.write(tmp_path / "in")
    take(store, tmp_path / "in")
    out = put(store, tmp_path / "out")
    lines = [line for data in out.values() for line in data.splitlines()]
    kept = [row for line in lines for row in rows_in(json.loads(line))]
    assert kept
    answers: dict[str, dict[str, Any]] = {}
    for record in map(json.loads, lines):  # a response of llm is two messages, each with its columns of the row
        if "side" in record:
            answers.setdefault(record.get("id") or record["row"].get("id"), {}).update(record.get("row", {}))
    kept += map(plain, answers.values())
    with closing(sqlite3.connect(tmp_path / "in" / sample.histories[0])) as database:
        database.row_factory = sqlite3.Row
        for table in ROWS[sample.name]:
            for row in database.execute(f"SELECT * FROM {table}"):
                assert plain(json.loads(row_record("", row))["row"]) in kept, table


def test_the_messages_of_checkpoints_come_out(store: clew.Store, tmp_path: Path) -> None:
    """An export of LangGraph's checkpoints has each message once, as LangChain writes it; a subgraph is apart."""
    frameworks.langgraph(tmp_path / "in.db")
    take(store, tmp_path / "in.db")
    out = put(store, tmp_path / "out")
    said = [[json.loads(line)["data"]["content"] for line in data.splitlines()] for data in out.values()]
    assert sorted(said) == [
        ["How is Turin?", "", "sunny", "It is sunny.", "No idea."],
        ["Look it up."],
    ]


def rows_in(record: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows in a record: one, or a message with its parts."""
    if "info" in record:
        yield from map(plain, (record["info"], *record["parts"]))
    else:
        yield plain(record["row"] if "row" in record and "table" in record else record)


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """A row with the JSON in its columns read."""
    found = dict(row)
    for name, value in row.items():
        if isinstance(value, str) and value[:1] in ("{", "["):
            found[name] = json.loads(value)
    return found


def export_file(*conversations: dict[str, Any], **form: Any) -> bytes:
    return json.dumps(list(conversations), **form).encode()


def conversation(number: int) -> dict[str, Any]:
    return chatgpt(
        node("u", None, "user", f"Question {number}"), node("a", "u", "assistant", f"Answer {number}"),
        conversation_id=f"c{number}", title=f"Title {number}", current_node="a",
    )  # fmt: skip


FOLDER = {"id": "f", "title": "A folder"}


@pytest.mark.parametrize("form", [{}, {"indent": 2}, {"separators": (",", ":")}, {"ensure_ascii": False}], ids=repr)
def test_an_export_with_folders_among_its_conversations(
    form: dict[str, Any], store: clew.Store, tmp_path: Path
) -> None:
    """What is before, between and after the conversations of an export is kept, also entries that are none."""
    data = (
        b"\n "
        + export_file(FOLDER, conversation(1), FOLDER, conversation(2), conversation(3), FOLDER, **form)
        + b"\n\n"
    )
    (tmp_path / "conversations.json").write_bytes(data)
    list(import_all(store, find([str(tmp_path / "conversations.json")])))
    assert put(store, tmp_path / "out") == {"conversations.json": data}


def test_one_conversation_of_an_export(store: clew.Store, tmp_path: Path) -> None:
    """One conversation comes out as an array with its exact bytes, which can be imported again."""
    (tmp_path / "conversations.json").write_bytes(export_file(conversation(1), conversation(2), indent=1))
    take(store, tmp_path / "conversations.json")
    (one,) = (session for session in store.sessions.list() if session.title == "Title 2")
    data = b"".join(exports.native(store, one))
    assert json.loads(data) == [conversation(2)]
    assert data[1:-2] in (tmp_path / "conversations.json").read_bytes()
    (tmp_path / "again.json").write_bytes(data)
    with clew.open(tmp_path / "other.db") as other:
        take(other, tmp_path / "again.json")
        assert [session.id for session in other.sessions.list()] == [one.id]


def test_two_exports_of_one_account(store: clew.Store, tmp_path: Path) -> None:
    """The newer export comes out as it was; a conversation that only the older one has comes out beside it."""
    first = export_file(conversation(1), conversation(2))
    changed = conversation(2)
    changed["mapping"]["a"]["message"]["metadata"] = {"re-stamped": True}
    changed["update_time"] = 1.5
    second = export_file(conversation(3), changed)
    for number, data in enumerate((first, second, first)):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "conversations.json").write_bytes(data)
        take(store, folder)
    out = put(store, tmp_path / "out")
    assert sorted(out.values(), key=len) == sorted(
        [second, b"[" + json.dumps(conversation(1)).encode() + b"]\n"], key=len
    )


def test_a_deleted_message_leaves_valid_json(store: clew.Store, tmp_path: Path) -> None:
    """In the place of a message that was deleted is null, and everything else is as it was."""
    (tmp_path / "conversations.json").write_bytes(export_file(conversation(1)))
    take(store, tmp_path / "conversations.json")
    (session,) = store.sessions.list()
    store.nodes.delete([session.path()[-1].id])
    expected = conversation(1)
    expected["mapping"]["a"]["message"] = None
    assert json.loads(b"".join(exports.native(store, session))) == [expected]


def test_redacted_messages_come_out_redacted(tmp_path: Path) -> None:
    """What redaction has replaced does not come back by an export, and the file is valid JSON."""
    (tmp_path / "conversations.json").write_bytes(export_file(conversation(1), conversation(2)))
    rules = Rules((Rule(id="answers", pattern=r"Answer \d"),))
    with clew.open(tmp_path / "s.db", redact=rules) as store:
        take(store, tmp_path / "conversations.json")
        (data,) = put(store, tmp_path / "out").values()
    assert b"Answer" not in data
    assert [one["title"] for one in json.loads(data)] == ["Title 1", "Title 2"]


def test_a_codex_thread_in_two_files(store: clew.Store, tmp_path: Path) -> None:
    """A thread that was rewound has two files: a folder gets both, one output is refused with the reason."""
    (sample,) = (one for one in SAMPLES if one.name == "codex")
    sample.write(tmp_path / "in")
    take(store, tmp_path / "in")
    twice = [name for name in sample.files if "_" in Path(name).name]
    assert twice
    thread = Path(twice[0]).name.split("_")[0][-36:]
    session = store.sessions.get(thread)
    out = put(store, tmp_path / "out", [session])
    assert {name: data for name, data in out.items() if thread in name} == {
        Path(name).name: data for name, data in sample.files.items() if thread in Path(name).name
    }
    with pytest.raises(Invalid, match="in 2 files"):
        exports.native(store, session)


def test_a_subagent_inside_the_file_of_its_owner(store: clew.Store, tmp_path: Path) -> None:
    """Lines of a subagent between those of its session come out where they were; the session's own file is whole."""
    lines = [
        claude_line(1, None, "user", "Go"),
        claude_line(11, None, "user", "Look", isSidechain=True),
        claude_line(2, 1, "assistant", "On it"),
        claude_line(12, 11, "assistant", "Found", isSidechain=True),
        claude_line(3, 2, "user", "Thanks"),
    ]
    path = tmp_path / f"{SESSION}.jsonl"
    path.write_bytes(jsonl(lines[:3]))
    take(store, path)
    path.write_bytes(jsonl(lines))
    take(store, path)
    session = store.sessions.get(SESSION)
    assert len(list(session.subagents())) == 1
    assert b"".join(exports.native(store, session)) == jsonl(lines)


def test_logs_of_the_same_name(store: clew.Store, tmp_path: Path) -> None:
    """Two files of one name in different folders are two files, each whole."""
    trace = {"type": "session", "harness": "x"}
    data = {}
    for name in "ab":
        said = {"type": "message", "message": {"role": "user", "content": f"Hello {name}"}}
        data[name] = jsonl([{**trace, "id": name}, said])
        (tmp_path / name).mkdir()
        (tmp_path / name / "trace.jsonl").write_bytes(data[name])
        take(store, tmp_path / name)
    out = put(store, tmp_path / "out")
    assert sorted(out.values()) == sorted(data.values())
    assert "trace.jsonl" in out


def test_projects_of_claude_ai(store: clew.Store, tmp_path: Path) -> None:
    """The list of projects of an export comes out as it was."""
    projects = [{"uuid": an_id(n), "name": f"P{n}", "prompt_template": "Be brief", "docs": []} for n in (1, 2)]
    data = json.dumps(projects, indent=4).encode()
    (tmp_path / "projects.json").write_bytes(data)
    take(store, tmp_path / "projects.json")
    assert put(store, tmp_path / "out") == {"projects.json": data}


WORDS = st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(
    talks=st.lists(st.lists(WORDS, min_size=1, max_size=4), min_size=1, max_size=4),
    indent=st.none() | st.integers(0, 3),
    ascii=st.booleans(),
    around=st.tuples(*[st.text(alphabet=" \n\t", max_size=3)] * 2),
)
def test_any_export_comes_out_as_it_was(
    talks: list[list[str]], indent: int | None, ascii: bool, around: tuple[str, str], tmp_path_factory: Any
) -> None:
    """Whatever is said and however it is indented, an export of Claude.ai comes out byte for byte."""
    folder = tmp_path_factory.mktemp("export")
    numbers = iter(range(1, 1000))
    data = [
        claude(*(say(next(numbers), "human", text) for text in texts), uuid=an_id(500 + at))
        for at, texts in enumerate(talks)
    ]
    text = around[0] + json.dumps(data, indent=indent, ensure_ascii=ascii) + around[1]
    (folder / "conversations.json").write_text(text)
    with clew.open(folder / "s.db") as store:
        take(store, folder / "conversations.json")
        assert put(store, folder / "out") == {"conversations.json": text.encode()}


def test_rows_keep_their_json(tmp_path: Path) -> None:
    """The JSON in a column is put into a record byte for byte."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.row_factory = sqlite3.Row
        row = database.execute("""SELECT 1 AS id, '{"b": 1,  "a": 2.50}' AS data""").fetchone()
    assert row_bytes(row, "data") == b'{"id":1,"data":{"b": 1,  "a": 2.50}}'
