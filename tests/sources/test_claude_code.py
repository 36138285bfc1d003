"""Claude Code's logs, read line by line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.base.messages import Native
from clew.sources.claude_code import ClaudeCode
from clew.sources.contract import ENVELOPE
from clew.sources.items import Item
from tests.sources.made import (
    SESSION,
    about,
    an_id,
    claude_line,
    entries,
    jsonl,
    messages,
    path,
    read,
    skips,
    titles,
    view,
)

SOURCE = ClaudeCode()


def call(name: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": name, "name": "Bash", "input": {"command": "ls"}}


def result(name: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": name, "content": "done"}


def test_a_plain_conversation() -> None:
    """Messages have their own uuids, parents and times; the bytes around them are kept."""
    data = jsonl(
        [claude_line(1, None, "user", "Hello"), claude_line(2, 1, "assistant", [{"type": "text", "text": "Hi"}])]
    )
    parts = read(SOURCE, data)
    found = messages(parts)
    assert [entry.parent for entry in found.values()] == [None, an_id(1)]
    assert [view(entry).blocks[0] for entry in found.values()] == [clew.Text(text="Hello"), clew.Text(text="Hi")]
    assert about(parts, "cwd") == ["/src/app"]
    assert about(parts, "branch") == ["main"]
    assert str(found[an_id(2)].created_at) == "2026-11-01 10:00:02+00:00"
    for entry in found.values():
        assert isinstance(entry.message, Native)
        assert entry.message.extra is not None
        before, after = entry.message.extra[ENVELOPE]
        assert before.encode() + entry.message.raw + after.encode() == entry.raw


def test_every_byte_is_kept() -> None:
    """The records of a file, joined, are the file."""
    data = jsonl([
        {"type": "summary", "summary": "A title", "leafUuid": an_id(2)},
        claude_line(1, None, "user", "Hello"),
        {"type": "queue-operation", "operation": "enqueue", "sessionId": SESSION},
        {"type": "never-seen-before", "x": [1, 2]},
    ])  # fmt: skip
    assert b"".join(entry.raw for entry in entries(read(SOURCE, data))) == data


def test_links_that_are_no_messages_are_passed_over() -> None:
    """A reply follows the prompt though attachments stand between them."""
    data = jsonl([
        claude_line(1, None, "user", "Hello"),
        claude_line(2, 1, "user", "") | {"type": "attachment", "message": None},
        claude_line(3, 2, "user", "") | {"type": "system", "subtype": "api_error", "message": None},
        claude_line(4, 3, "assistant", "Hi"),
    ])  # fmt: skip
    assert path(messages(read(SOURCE, data)), an_id(4)) == [an_id(1), an_id(4)]


@pytest.mark.parametrize("text", ["<command-name>/model</command-name>", "\udc00 half a pair", 7, None])
def test_commands_in_lines_of_their_own_are_messages(text: object) -> None:
    """A command that the user ran without the model is a message on the path, byte for byte."""
    line = claude_line(2, 1, "user", "") | {"type": "system", "subtype": "local_command", "content": text}
    del line["message"]
    data = jsonl([claude_line(1, None, "user", "Hello"), line, claude_line(3, 2, "assistant", "Hi")])
    parts = read(SOURCE, data)
    on_path = [an_id(1), an_id(2), an_id(3)] if isinstance(text, str) else [an_id(1), an_id(3)]
    assert path(messages(parts), an_id(3)) == on_path
    assert b"".join(entry.raw for entry in entries(parts)) == data


@pytest.mark.parametrize("last", [5, 6])
def test_parallel_calls_are_one_path(last: int) -> None:
    """Calls that run side by side and their results stay on the path, whichever result the next line hangs on."""
    data = jsonl([
        claude_line(1, None, "user", "Look"),
        claude_line(2, 1, "assistant", [{"type": "text", "text": "I look"}], message={"id": "m"}),
        claude_line(3, 2, "assistant", [call("a")], message={"id": "m"}),
        claude_line(4, 3, "assistant", [call("b")], message={"id": "m"}),
        claude_line(5, 3, "user", [result("a")], sourceToolAssistantUUID=an_id(3)),
        claude_line(6, 4, "user", [result("b")], sourceToolAssistantUUID=an_id(4)),
        claude_line(7, last, "assistant", [{"type": "text", "text": "Done"}], message={"id": "n"}),
    ])  # fmt: skip
    assert path(messages(read(SOURCE, data)), an_id(7)) == [an_id(number) for number in range(1, 8)]


def test_an_edited_prompt_is_a_branch() -> None:
    """Two prompts after one answer are two branches."""
    data = jsonl([
        claude_line(1, None, "user", "One"),
        claude_line(2, 1, "assistant", "Yes", message={"id": "m"}),
        claude_line(3, 2, "user", "Two"),
        claude_line(4, 2, "user", "Two, better"),
    ])  # fmt: skip
    found = messages(read(SOURCE, data))
    assert found[an_id(3)].parent == found[an_id(4)].parent == an_id(2)


def test_a_compaction_is_a_root_that_stands_for_what_came_before() -> None:
    """The summary begins a new root; it is derived from the last message before the boundary."""
    data = jsonl([
        claude_line(1, None, "user", "One"),
        claude_line(2, 1, "assistant", "Yes"),
        claude_line(3, None, "user", "")
        | {"type": "system", "subtype": "compact_boundary", "message": None, "logicalParentUuid": an_id(2)},
        claude_line(4, 3, "user", "Summary", isCompactSummary=True),
        claude_line(5, 4, "assistant", "On we go"),
    ])  # fmt: skip
    found = messages(read(SOURCE, data))
    assert (found[an_id(4)].parent, found[an_id(4)].derived) == (None, an_id(2))
    assert path(found, an_id(5)) == [an_id(4), an_id(5)]


def test_usage_is_counted_once() -> None:
    """Each further line of an answer counts only what it adds; the sum is the largest count of each kind."""
    lines = [
        claude_line(
            n, n - 1 or None, "assistant", [], message={"id": "m", "usage": {"input_tokens": 10, "output_tokens": out}}
        )
        for n, out in ((1, 1), (2, 5), (3, 5))
    ]
    used = [view(entry).usage for entry in messages(read(SOURCE, jsonl(lines))).values()]
    assert [(one.input, one.output) for one in used if one] == [(10, 1), (0, 4), (0, 0)]


def test_a_subagents_file_belongs_to_its_owner() -> None:
    """The trace below subagents/ names its owner and its agent."""
    data = jsonl([claude_line(1, None, "user", "Search", isSidechain=True, agentId="a7")])
    parts = read(SOURCE, data, f"projects/p/{SESSION}/subagents/agent-a7.jsonl")
    assert (about(parts, "agent"), about(parts, "owner")) == (["a7"], [SESSION])


def test_an_inline_subagent_is_a_conversation_of_its_own() -> None:
    """LlmTables lines in the main file, as older versions write them, are no part of the main path."""
    data = jsonl([
        claude_line(1, None, "user", "Hello"),
        claude_line(2, None, "user", "Search", isSidechain=True),
        claude_line(3, 2, "assistant", "Found", isSidechain=True),
        claude_line(4, 1, "assistant", "Hi"),
    ])  # fmt: skip
    found = messages(read(SOURCE, data))
    names = [found[an_id(number)].conversation for number in (1, 2, 3, 4)]
    assert names[0] == names[3] == SESSION
    assert names[1] == names[2] == f"{SESSION}/{an_id(2)}"


def test_titles_by_rank() -> None:
    """A title that a person gave wins over the program's own, and that over a summary."""
    lines = [
        {"type": "custom-title", "customTitle": "Mine", "sessionId": SESSION},
        {"type": "ai-title", "aiTitle": "Its own", "sessionId": SESSION},
        {"type": "summary", "summary": "Summed up", "leafUuid": an_id(1)},
    ]
    assert about(read(SOURCE, jsonl(lines)), "title") == ["Mine"]
    assert about(read(SOURCE, jsonl(lines[1:])), "title") == ["Its own"]
    assert about(read(SOURCE, jsonl(lines[2:])), "title") == ["Summed up"]


def test_the_first_prompt_is_a_title_of_last_resort() -> None:
    """Commands, meta texts and what an editor glues before a prompt are no titles."""
    lines = [
        claude_line(1, None, "user", "<command-name>/clear</command-name>"),
        claude_line(2, 1, "user", "Caveat: The messages below were generated by the user", isMeta=True),
        claude_line(3, 2, "user", [{"type": "text", "text": "<ide_opened_file>a.py</ide_opened_file>"}]),
        claude_line(4, 3, "user", "<ide_opened_file>a.py</ide_opened_file>\nWhy does\nit fail?"),
        claude_line(5, 4, "user", "Another"),
    ]
    assert titles(SOURCE, jsonl(lines)) == ["Why does it fail?"]
    assert titles(SOURCE, jsonl(lines[:3])) == [None]


def test_a_summary_at_the_beginning_is_of_another_conversation(tmp_path: Path) -> None:
    """Older versions wrote the title of a conversation into the file of the next one."""
    first, second = tmp_path / f"{an_id(901)}.jsonl", tmp_path / f"{an_id(902)}.jsonl"
    first.write_bytes(jsonl([claude_line(1, None, "user", "Hello"), claude_line(2, 1, "assistant", "Hi")]))
    summary = {"type": "summary", "summary": "Of the first", "leafUuid": an_id(2)}
    second.write_bytes(jsonl([summary, claude_line(11, None, "user", "Again")]))
    source = ClaudeCode()
    assert about(source.read(Item(str(first), 0, 0)), "title") == ["Of the first"]
    assert about(source.read(Item(str(second), 0, 0)), "title") == []
    assert about(source.read(Item(str(second), 0, 0)), "prompt")[-1] == "Again"


def test_the_model_of_a_conversation() -> None:
    """The last model that answered; an answer of the program itself does not count."""
    lines = [
        claude_line(1, None, "assistant", "Hi", message={"model": "a-model"}),
        claude_line(2, 1, "assistant", "No response requested.", message={"model": "<synthetic>"}),
    ]
    assert about(read(SOURCE, jsonl(lines)), "model") == ["a-model"]


@pytest.mark.parametrize(
    "kept",
    [
        {"preservedSegment": {"headUuid": an_id(2), "anchorUuid": an_id(4), "tailUuid": an_id(2)}},
        {"preservedMessages": {"anchorUuid": an_id(4), "uuids": [an_id(1), an_id(2)]}},
    ],
    ids=["segment", "messages"],
)
def test_a_compaction_that_preserves_messages(kept: dict[str, Any]) -> None:
    """The next line, which hangs on the last preserved message, follows the summary."""
    boundary = {"type": "system", "subtype": "compact_boundary", "message": None, "logicalParentUuid": an_id(2)}
    data = jsonl([
        claude_line(1, None, "user", "One"),
        claude_line(2, 1, "assistant", "Yes"),
        claude_line(3, None, "user", "") | boundary | {"compactMetadata": {"trigger": "auto", **kept}},
        claude_line(4, 3, "user", "Summary", isCompactSummary=True),
        claude_line(5, 2, "user", "Next"),
    ])  # fmt: skip
    found = messages(read(SOURCE, data))
    assert path(found, an_id(5)) == [an_id(4), an_id(5)]
    assert found[an_id(4)].derived == an_id(2)


def test_a_subagent_of_a_workflow_and_its_facts(tmp_path: Path) -> None:
    """The owner is the session above subagents/; type, description and call come from the file beside the trace."""
    trace = tmp_path / SESSION / "subagents" / "workflows" / an_id(5) / "agent-a7.jsonl"
    trace.parent.mkdir(parents=True)
    trace.write_bytes(jsonl([claude_line(1, None, "user", "Search", isSidechain=True, agentId="a7")]))
    facts = {"agentType": "Explore", "description": "Find the bug", "toolUseId": "toolu_1"}
    trace.with_suffix(".meta.json").write_text(json.dumps(facts))
    parts = list(SOURCE.read(Item(str(trace), 0, 0)))
    assert [about(parts, name) for name in ("agent", "owner", "title")] == [["Explore"], [SESSION], ["Find the bug"]]
    (entry,) = messages(parts).values()
    assert isinstance(entry.message, Native)
    assert (entry.conversation, (entry.message.extra or {})["called_by"]) == (f"{SESSION}/a7", "toolu_1")


def test_a_result_that_is_kept_beside_the_log(tmp_path: Path) -> None:
    """A result too large for the log is an attachment of the message that names it."""
    kept = tmp_path / SESSION / "tool-results" / "toolu_1.txt"
    kept.parent.mkdir(parents=True)
    kept.write_text("all of it")
    log = tmp_path / f"{SESSION}.jsonl"
    words = f"<persisted-output>Full output saved to: /elsewhere/{SESSION}/tool-results/toolu_1.txt</persisted-output>"
    gone = words.replace("toolu_1", "gone")
    log.write_bytes(jsonl([claude_line(1, None, "user", words), claude_line(2, 1, "user", gone)]))
    first, second = messages(SOURCE.read(Item(str(log), 0, 0))).values()
    (file,) = first.attachments
    with file.open() as opened:
        assert (file.name, opened.read()) == ("toolu_1.txt", b"all of it")
    assert second.attachments == ()


def test_requests_are_records_and_no_messages() -> None:
    """Blobs of requests repeat what was said; they are kept as they are."""
    lines = [
        {"type": "api-request-blob", "hash": "h", "content": {"role": "user", "content": "Hello"}},
        claude_line(1, None, "user", "Hello"),
        claude_line(2, 1, "user", "")
        | {"type": "attachment", "message": None, "attachment": {"type": "prompt_snapshot"}},
        {"type": "cost-state", "total": 3, "sessionId": SESSION},
    ]
    parts = read(SOURCE, jsonl(lines))
    assert list(messages(parts)) == [an_id(1)]
    assert b"".join(entry.raw for entry in entries(parts)) == jsonl(lines)


def test_a_cycle_and_a_missing_parent() -> None:
    """Neither ends the reading, and every message is given."""
    data = jsonl([
        claude_line(1, 2, "user", "One"),
        claude_line(2, 1, "assistant", "Two"),
        claude_line(3, 77, "user", "Three"),
        claude_line(4, 4, "user", "Four"),
    ])  # fmt: skip
    found = messages(read(SOURCE, data))
    assert len(found) == 4
    assert (found[an_id(4)].parent, found[an_id(4)].note) == (None, "it names itself as its parent")


def test_a_last_line_that_is_cut_anywhere() -> None:
    """An unfinished last line is left for the next time, wherever it is cut."""
    whole = jsonl([claude_line(1, None, "user", "Hello"), claude_line(2, 1, "assistant", "Höhe")])
    start = whole.index(b"\n") + 1
    for cut in range(start, len(whole)):
        parts = read(SOURCE, whole[:cut])
        assert [entry.id for entry in entries(parts)] == [an_id(1)]
        assert skips(parts) == []


@pytest.mark.parametrize(
    "line",
    [b"not json", b'{"type":"user"', b"[" * 100_000, b'{"uuid":"\xff"}', b"[1]", b'"x"', b"1"],
    ids=["words", "cut", "deep", "not UTF-8", "list", "text", "number"],
)
def test_a_line_that_cannot_be_read(line: bytes) -> None:
    """It is skipped with its number, and the lines around it are read."""
    good = jsonl([claude_line(1, None, "user", "Hello")])
    parts = read(SOURCE, good + line + b"\n" + jsonl([claude_line(2, 1, "assistant", "Hi")]))
    assert [entry.id for entry in entries(parts)] == [an_id(1), an_id(2)]
    assert [skip.line for skip in skips(parts)] == [2]


def test_fields_of_another_type_are_left_out() -> None:
    """A field that is not of its usual type does not make the message unreadable."""
    odd = claude_line(1, None, "user", "Hello") | {"cwd": 7, "isSidechain": "no", "summary": {"a": 1}}
    found = messages(read(SOURCE, jsonl([odd])))
    assert list(found) == [an_id(1)]


def test_what_it_recognises() -> None:
    """A log is known by its first lines, not by its name."""
    assert SOURCE.recognise("x", jsonl([claude_line(1, None, "user", "Hello")]))
    assert SOURCE.recognise("x", jsonl([{"type": "summary", "summary": "A", "leafUuid": an_id(2)}]))
    assert not SOURCE.recognise("x.jsonl", b'{"role": "user", "content": "x"}\n')


def test_what_it_recognises_by_its_name_as_well() -> None:
    """Records of the program in a file that is named after a session; elsewhere they say nothing."""
    record = jsonl([{"type": "file-history-snapshot", "messageId": an_id(1), "snapshot": {}}])
    assert SOURCE.recognise(f"projects/p/{SESSION}.jsonl", record)
    assert SOURCE.recognise(f"projects/p/{SESSION}.jsonl", b'{"type":"api-request-blob","content":"' + b"x" * 70_000)
    assert not SOURCE.recognise("projects/p/notes.jsonl", record)
