"""What the recorded histories of command-line programs do not show: rewinds, compactions, older forms."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.sources.aider import Aider
from clew.sources.cline import Cline
from clew.sources.continue_dev import Continue
from clew.sources.contract import Entry, Home, Part, Source
from clew.sources.gemini_cli import GeminiCLI
from clew.sources.goose import Goose
from clew.sources.importer import import_item
from clew.sources.items import items
from clew.sources.opencode import OpenCode
from clew.sources.pi import Pi
from clew.sources.qwen_code import QwenCode
from clew.sources.registry import sources
from tests.sources.made import about, entries, jsonl, messages, path, read, view
from tests.sources.samples.recorded import RECORDED

TIME = "2026-11-18T00:00:00.000Z"


def way(parts: Iterable[Part]) -> list[str]:
    """The texts from the root to the message where the program would continue."""
    found = messages(parts)
    return [view(found[id]).text for id in path(found, about(parts, "head")[-1])]


def texts(parts: Iterable[Part]) -> dict[str, Entry]:
    return {view(entry).text: entry for entry in messages(parts).values()}


# Gemini CLI


def gemini(*lines: Any, name: str = "tmp/p/chats/session-1.jsonl") -> list[Part]:
    header = {"sessionId": "s", "projectHash": "h", "startTime": TIME, "kind": "main"}
    return read(GeminiCLI(), jsonl([header, *lines]), name)


def said(id: str, text: str, kind: str = "user", **more: Any) -> dict[str, Any]:
    return {"id": id, "timestamp": TIME, "type": kind, "content": text, **more}


def test_gemini_rewinds() -> None:
    """A rewind drops a message and those after it, which stay as a branch; one to an unknown id drops all."""
    talk = [said("a", "One"), said("b", "Yes", "gemini"), said("c", "Two"), {"$rewindTo": "c"}, said("d", "Three")]
    assert way(gemini(*talk)) == ["One", "Yes", "Three"]
    assert set(texts(gemini(*talk))) == {"One", "Yes", "Two", "Three"}
    assert way(gemini(*talk, {"$rewindTo": "never"}, said("e", "Four"))) == ["Four"]


def test_gemini_compacts() -> None:
    """The first new message of a compaction is a root that stands for the path before it."""
    talk = [said("a", "One"), said("b", "Yes", "gemini")]
    compacted = [said("x", "<state_snapshot>"), said("y", "Got it.", "gemini")]
    parts = gemini(*talk, {"$set": {"messages": compacted}}, said("c", "Two"), {"$set": {"summary": "A title"}})
    found = texts(parts)
    assert way(parts) == ["<state_snapshot>", "Got it.", "Two"]
    assert found["<state_snapshot>"].derived == found["Yes"].id
    assert about(parts, "title") == ["A title"]


def test_gemini_calls_that_end_one_after_the_other() -> None:
    """Each call becomes a message once it has ended, and never twice."""
    one = {"id": "c1", "name": "f", "args": {}, "status": "success", "result": "A"}
    two = {"id": "c2", "name": "g", "args": {}, "status": "executing"}
    ended = {**two, "status": "cancelled"}
    talk = [said("b", "I look", "gemini"), said("b", "I look", "gemini", toolCalls=[one, two])]
    parts = gemini(*talk, said("b", "I look", "gemini", toolCalls=[one, ended]))
    blocks = [view(entry).blocks for entry in messages(parts).values()]
    assert [type(block).__name__ for each in blocks for block in each] == [
        "Text", "ToolCall", "ToolResult", "ToolCall", "ToolResult"
    ]  # fmt: skip
    assert blocks[2][1] == clew.ToolResult(call_id="c2", content=(), is_error=True)


def test_gemini_before_it_wrote_logs() -> None:
    """A conversation that is one JSON object has all its messages, and the calls in them."""
    call = {"id": "c", "name": "f", "args": {}, "status": "success", "result": [{"text": "A"}]}
    old = {"sessionId": "s", "projectHash": "h", "startTime": TIME, "summary": "Old",
           "messages": [said("a", "One"), said("b", "Yes", "gemini", toolCalls=[call])]}  # fmt: skip
    parts = read(GeminiCLI(), json.dumps(old).encode(), "tmp/p/chats/session-1.json")
    assert [view(entry).text for entry in messages(parts).values()] == ["One", "Yes\nA"]
    assert about(parts, "title") == ["Old"]


# opencode


def opencode(tmp_path: Path, session: dict[str, Any], *rows: tuple[dict[str, Any], list[dict[str, Any]]]) -> list[Part]:
    (tmp_path / "share").mkdir(exist_ok=True)
    file = tmp_path / "share" / "opencode.db"
    file.unlink(missing_ok=True)
    with closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE session (id, directory, title, parent_id, revert)")
        database.execute("CREATE TABLE message (id, session_id, time_created, data)")
        database.execute("CREATE TABLE part (id, message_id, data)")
        row = {"id": "ses_1", "directory": "/w", "title": "A", "parent_id": None, "revert": None, **session}
        database.execute("INSERT INTO session VALUES (:id, :directory, :title, :parent_id, :revert)", row)
        for number, (data, parts) in enumerate(rows):
            made = {"time": {"created": 1794962000000 + number, "completed": 1}, **data}
            database.execute("INSERT INTO message VALUES (?, 'ses_1', ?, ?)", (f"m{number}", number, json.dumps(made)))
            for at, part in enumerate(parts):
                database.execute("INSERT INTO part VALUES (?, ?, ?)", (f"p{at}", f"m{number}", json.dumps(part)))
        database.commit()
    (item,) = items(str(file))
    return list(OpenCode().read(item))


def row(role: str, text: str, **more: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    return {"role": role, **more}, [{"type": "text", "text": text}]


def test_opencode_reverts(tmp_path: Path) -> None:
    """After a revert the session ends before the message that was taken back, and that message is kept."""
    talk = [row("user", "One"), row("assistant", "Yes"), row("user", "Two")]
    parts = opencode(tmp_path, {"revert": '{"messageID": "m2"}'}, *talk)
    assert way(parts) == ["One", "Yes"]
    assert "Two" in texts(parts)


def test_opencode_compacts(tmp_path: Path) -> None:
    """The prompt of a compaction is a root that stands for the path before it."""
    compaction = ({"role": "user"}, [{"type": "compaction", "auto": True}])
    parts = opencode(tmp_path, {}, row("user", "One"), row("assistant", "Yes"), compaction, row("assistant", "Summary"))
    found = list(messages(parts).values())
    assert (found[2].parent, found[2].derived) == (None, found[1].id)
    assert found[3].parent == found[2].id


def test_opencode_while_it_answers(tmp_path: Path) -> None:
    """The last answer is kept in the log until it has ended, and is a message then."""
    open_answer = row("assistant", "Ye", time={"created": 1794962000001})
    before = opencode(tmp_path, {}, row("user", "One"), open_answer)
    assert way(before) == ["One"]
    assert len(entries(before)) == 3
    assert way(opencode(tmp_path, {}, row("user", "One"), row("assistant", "Yes"))) == ["One", "Yes"]


def test_opencode_as_json_files(tmp_path: Path) -> None:
    """The older tree of files has the same messages under the same ids as the database that took them over."""
    rows: list[Any] = [row("user", "One"), row("assistant", "Yes")]
    storage = tmp_path / "storage"
    for number, (data, parts) in enumerate(rows):
        made = {"id": f"m{number}", "time": {"created": 1794962000000 + number, "completed": 1}, **data}
        put(storage / "message" / "ses_1" / f"m{number}.json", made)
        for at, part in enumerate(parts):
            put(storage / "part" / f"m{number}" / f"p{at}.json", part)
    session = {"id": "ses_1", "directory": "/w", "title": "A", "projectID": "p"}
    put(storage / "session" / "p" / "ses_1.json", session)
    (item,) = items(str(storage / "session" / "p" / "ses_1.json"))
    assert OpenCode().recognise(item.path, item.head())
    assert list(messages(OpenCode().read(item))) == list(messages(opencode(tmp_path, {}, *rows)))
    exported: Any = {"info": session, "messages": [{"info": {**data, "id": "m", "time": {"created": 1}}, "parts": parts}
                                              for data, parts in rows[:1]]}  # fmt: skip
    put(tmp_path / "export.json", exported)
    (item,) = items(str(tmp_path / "export.json"))
    assert OpenCode().recognise(item.path, item.head())
    assert way(list(OpenCode().read(item))) == ["One"]


def put(file: Path, data: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(data))


# pi


def entry(id: str, parent: str | None, kind: str = "message", **more: Any) -> dict[str, Any]:
    return {"type": kind, "id": id, "parentId": parent, "timestamp": TIME, **more}


def user(text: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}]}


def pi(*lines: Any) -> list[Part]:
    return read(Pi(), jsonl([{"type": "session", "version": 3, "id": "s", "timestamp": TIME, "cwd": "/w"}, *lines]))


def test_pi_is_a_tree() -> None:
    """Two lines after one are two branches, and the last line says where pi would continue."""
    parts = pi(
        entry("1", None, message=user("One")),
        entry("2", "1", message=user("Left")),
        entry("3", "1", "branch_summary", summary="What was left", fromId="2"),
        entry("4", "3", message=user("Right")),
        entry("5", "4", "label", targetId="1", label="here"),
    )
    assert way(parts) == ["One", "What was left", "Right"]
    assert texts(parts)["Left"].parent == texts(parts)["One"].id


def test_pi_compacts() -> None:
    """A compaction is a root that stands for the path before it."""
    parts = pi(
        entry("1", None, message=user("One")),
        entry("2", "1", "compaction", summary="Summary", firstKeptEntryId="1"),
        entry("3", "2", message=user("Two")),
    )
    assert way(parts) == ["Summary", "Two"]
    assert texts(parts)["Summary"].derived == texts(parts)["One"].id


def test_pi_without_ids_and_with_a_missing_parent() -> None:
    """Lines of version 1 follow each other; a line whose parent is missing is a root with a note."""
    old = [{"type": "message", "timestamp": TIME, "message": user(text)} for text in ("One", "Two")]
    assert way(pi(*old)) == ["One", "Two"]
    (lost,) = messages(pi(entry("2", "gone", message=user("Lost")))).values()
    assert (lost.parent, lost.note) == (None, "its parent is missing")


# Qwen Code


def qwen(number: int, parent: int | None, kind: str = "user", text: str = "", **more: Any) -> dict[str, Any]:
    said = {} if kind == "system" else {"message": {"role": "user", "parts": [{"text": text}]}}
    times = {"timestamp": f"2026-11-18T00:00:{number:02}.000Z", "sessionId": "s", "cwd": "/w"}
    return {"uuid": f"u{number}", "parentUuid": f"u{parent}" if parent else None, "type": kind, **times, **said, **more}


def test_qwen_rewinds_and_compresses() -> None:
    """After a rewind the next prompt follows an earlier line; a compressed history begins with a root."""
    history = [{"role": "user", "parts": [{"text": "Summary"}]}, {"role": "model", "parts": [{"text": "Got it."}]}]
    parts = read(QwenCode(), jsonl([
        qwen(1, None, text="One"),
        qwen(2, 1, "assistant", "Yes"),
        qwen(3, 2, text="Two"),
        qwen(4, 2, "system", subtype="rewind", systemPayload={}),
        qwen(5, 4, text="Two, better"),
        qwen(6, 5, "system", subtype="chat_compression", systemPayload={"compressedHistory": history}),
        qwen(7, 6, text="Three"),
        qwen(8, 7, "system", subtype="custom_title", systemPayload={"customTitle": "A title"}),
    ]))  # fmt: skip
    found = texts(parts)
    assert way(parts) == ["Summary", "Got it.", "Three"]
    assert found["Two, better"].parent == found["Two"].parent == found["Yes"].id
    assert found["Summary"].derived == found["Two, better"].id
    assert about(parts, "title") == ["A title"]


def test_qwen_repeats_a_uuid() -> None:
    """A uuid that is used again at another time is another message."""
    again = {**qwen(1, None, text="Another"), "timestamp": "2026-11-19T00:00:00.000Z"}
    parts = read(QwenCode(), jsonl([qwen(1, None, text="One"), again]))
    assert set(texts(parts)) == {"One", "Another"}


# Goose


def test_goose_compacts(tmp_path: Path) -> None:
    """Rows that are written again under other numbers stay the same messages; the summary stands for them."""
    (sample,) = (sample for sample in RECORDED if sample.name == "goose")
    sample.write(tmp_path)
    file = tmp_path / sample.histories[0]
    (item,) = items(str(file))
    before = messages(Goose().read(item))
    with closing(sqlite3.connect(file)) as database:
        database.execute("""UPDATE messages SET id = id + 100, metadata_json = '{"agentVisible":false}' """)
        summary = ("m", "20261118_1", "user", '[{"type":"text","text":"Summary"}]', 1794962900,
                   '{"userVisible":false,"agentVisible":true}')  # fmt: skip
        database.execute("INSERT INTO messages VALUES (300, ?, ?, ?, ?, ?, NULL, NULL, ?)", summary)
        database.commit()
    after = list(Goose().read(items(str(file)).__next__()))
    found = texts(after)
    assert set(before) < set(messages(after))
    assert (found["Summary"].parent, found["Summary"].derived) == (None, found["One of them failed."].id)


def test_goose_before_its_database() -> None:
    """The older files have a line about the session, and one for each message."""
    lines = [
        {"working_dir": "/w", "description": "Old", "message_count": 1},
        {"role": "user", "created": 1794962000, "content": [{"type": "text", "text": "One"}]},
    ]
    assert Goose().recognise("x.jsonl", jsonl(lines))
    parts = read(Goose(), jsonl(lines), "sessions/20261118_1.jsonl")
    assert way(parts) == ["One"]
    assert (about(parts, "title"), about(parts, "cwd")) == (["Old"], ["/w"])


def test_goose_with_everything_in_the_wal(tmp_path: Path) -> None:
    """A database whose rows are all in its -wal is read, and neither file changes."""
    (sample,) = (sample for sample in RECORDED if sample.name == "goose")
    sample.write(tmp_path)
    copy = tmp_path / "goose-2"
    copy.mkdir()
    with closing(sqlite3.connect(tmp_path / sample.histories[0])) as full:
        script = "\n".join(full.iterdump())
    with closing(sqlite3.connect(copy / "sessions.db")) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA wal_autocheckpoint = 0")
        database.executescript(script)
        for name in ("sessions.db", "sessions.db-wal"):
            (tmp_path / name).write_bytes((copy / name).read_bytes())
    (tmp_path / "goose").mkdir(exist_ok=True)
    for name in ("sessions.db", "sessions.db-wal"):
        (tmp_path / name).replace(tmp_path / "goose" / name)
    state = {file.name: file.read_bytes() for file in (tmp_path / "goose").iterdir()}
    (item,) = items(str(tmp_path / "goose" / "sessions.db"))
    assert Goose().recognise(item.path, item.head())
    assert len(messages(Goose().read(item))) == 15
    assert {file.name: file.read_bytes() for file in (tmp_path / "goose").iterdir()} == state


# Cline


def test_cline_in_an_editor(tmp_path: Path) -> None:
    """A task of an extension: its prompt without the wrapper, its tokens, and a path that was left as a branch."""
    task = tmp_path / "tasks" / "1794962000000"
    prompt = [{"type": "text", "text": "<task>\nFix it\n</task>"}, {"type": "text", "text": "<environment_details>x"}]
    talk = [{"role": "user", "content": prompt, "ts": 1794962000000}, {"role": "assistant", "content": "Done"}]
    request = {"ts": 1, "type": "say", "say": "api_req_started", "text": '{"tokensIn":10,"tokensOut":5}'}
    put(task / "ui_messages.json", [request])
    with clew.open(tmp_path / "s.db") as store:
        for last in ("And this", "And that"):
            put(task / "api_conversation_history.json", [*talk, {"role": "user", "content": last}])
            (item,) = items(str(task / "api_conversation_history.json"))
            assert Cline().recognise(item.path, item.head())
            (done,) = import_item(store, Cline(), item).conversations
        session = store.sessions.get(done.session)
        assert session.title == "Fix it"
        assert [node.text for node in session.path()] == ["Fix it", "Done", "And that"]
        assert len(session.branches()) == 1
    found = texts(Cline().read(item))
    assert view(found["Done"]).usage == clew.Usage(input=10, output=5)


def test_tasks_of_cline_have_their_times(tmp_path: Path) -> None:
    """A task began when its id says, and its answers came when their requests were sent."""
    task = tmp_path / "tasks" / "1794962000000"
    put(task / "api_conversation_history.json", [
        {"role": "user", "content": "Fix it"}, {"role": "assistant", "content": "Done"},
    ])  # fmt: skip
    put(task / "ui_messages.json", [{"ts": 1794962060000, "type": "say", "say": "api_req_started", "text": "{}"}])
    (item,) = items(str(task / "api_conversation_history.json"))
    found = texts(Cline().read(item))
    begin, end = found["Fix it"].created_at, found["Done"].created_at
    assert begin is not None
    assert end is not None
    assert (begin.timestamp(), (end - begin).total_seconds()) == (1794962000, 60)


# Continue


def test_continue_while_a_tool_runs() -> None:
    """The last item is a message once its calls have ended."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}

    def session(status: str) -> bytes:
        state = {"toolCallId": "c", "toolCall": call, "status": status, "output": [{"content": "A"}]}
        message = {"role": "assistant", "content": "I look", "toolCalls": [call]}
        history = [{"message": {"role": "user", "content": "One"}}, {"message": message, "toolCallStates": [state]}]
        return json.dumps({"sessionId": "s", "title": "T", "workspaceDirectory": "/w", "history": history}).encode()

    assert way(read(Continue(), session("calling"))) == ["One"]
    assert way(read(Continue(), session("done"))) == ["One", "I look\nA"]


# aider


def test_aider_lines_that_go_on() -> None:
    """A line of the program that does not end in two spaces goes on, and what follows is not an answer."""
    text = (
        "# aider chat started at 2026-11-18 10:00:00\n\n> Model: m with diff edit format  \n\n"
        "#### One  \n\nYes.\n\n> Commit 1a2b3c4 A message\nof two lines  \n> Tokens: 1.5M sent, 20 received.  \n"
        "#### Two  \n\nNo.\n\n> Tokens: 5 sent, 6 received.  \n"
    )
    parts = read(Aider(), text.encode(), "repo/.aider.chat.history.md")
    assert [view(one).text for one in messages(parts).values()] == ["One", "Yes.", "Two", "No."]
    assert b"".join(one.raw for one in entries(parts)) == text.encode()


# all of them


@pytest.mark.parametrize("system", ["linux", "darwin", "win32"])
def test_where_they_are(system: str) -> None:
    """Each program names absolute places in the user's folder, and aider none."""
    kinds = (GeminiCLI, OpenCode, Pi, QwenCode, Goose, Cline, Continue)
    for kind in kinds:
        source: Source = kind()
        places = list(source.discover(Home("/home/u", {}, system)))
        assert places
        assert all(place.startswith("/home/u/") for place in places)
        assert source.name in {one.name for one in sources()}
    assert list(Aider().discover(Home("/home/u", {}, system))) == []
