"""Traces: those of Hugging Face, and model calls in OpenTelemetry."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clew.base.messages import Text, Thinking, ToolCall, ToolResult, Usage
from clew.sources.contract import Part
from clew.sources.hf_traces import HFTraces
from clew.sources.otel import OTel
from tests.sources.made import about, entries, jsonl, messages, path, read, skips, view
from tests.sources.samples import hf_traces, otel

HF, OTEL = HFTraces(), OTel()


def test_a_trace_of_hugging_face() -> None:
    """Messages follow each other, with reasoning, calls, results, models and times."""
    parts = read(HF, hf_traces.DATA, "a/trace.jsonl")
    found = messages(parts)
    told = [view(found[id]) for id in path(found, list(found)[-1])]
    assert [one.role for one in told] == ["system", "user", "assistant", "tool", "assistant"]
    assert told[2].blocks == (Thinking(text="I look."), ToolCall(id="c1", name="ls", arguments={"path": "."}))
    assert told[3].blocks == (ToolResult(call_id="c1", content=(Text(text="a.py"),)),)
    assert told[4].model == "qwen4"
    assert (about(parts, "title"), about(parts, "version")) == (["List it"], ["my-agent"])
    assert {entry.conversation for entry in entries(parts)} == {hf_traces.SESSION}
    times = [str(entry.created_at) for entry in found.values()]
    assert times == ["2026-10-26 07:33:20+00:00", *["2026-10-26 07:33:21+00:00"] * 4], (
        "a missing time is its neighbour's"
    )


def test_a_trace_that_is_not_of_hugging_face() -> None:
    """A header without a harness is another program's."""
    assert not HF.recognise("a.jsonl", jsonl([{"type": "session", "version": 3, "id": "x", "cwd": "/"}]))


def calls(*lines: dict[str, Any], name: str = "a/traces.jsonl") -> list[Part]:
    return read(OTEL, jsonl(lines), name)


def test_model_calls_of_one_conversation() -> None:
    """What a later call repeats is there once; tokens are counted once; an agent's span adds nothing."""
    parts = read(OTEL, otel.DATA, "a/traces.jsonl")
    found = messages(parts)
    told = [view(found[id]) for id in path(found, about(parts, "head")[-1])]
    assert [(one.role, one.text) for one in told] == [
        ("system", "Be short."), ("user", "List it"), ("assistant", ""), ("tool", "a.py"), ("assistant", "It is a.py."),
    ]  # fmt: skip
    assert len(found) == 5
    assert told[2].blocks == (Thinking(text="I look."), ToolCall(id="c1", name="ls", arguments={"path": "."}))
    assert [one.usage for one in told if one.usage] == [Usage(input=20, output=6), Usage(input=30, output=5)]
    assert told[4].model == "gpt-6-sol"
    assert {entry.conversation for entry in entries(parts)} == {"conv_1"}
    assert str(next(iter(found.values())).created_at) == "2026-10-26 07:33:22+00:00"


def test_a_conversation_that_begins_again() -> None:
    """A call whose input is not the conversation so far is a root that stands for what came before."""
    parts = calls(
        otel.LINES[1], otel.span(5, **otel.ABOUT, **{"gen_ai_input.messages": [otel.text("user", "Summary")]})
    )
    found = messages(parts)
    again = found[about(parts, "head")[-1]]
    assert (again.parent, view(again).text) == (None, "Summary")
    assert again.derived == about(parts, "head")[0]


def test_a_call_without_a_conversation() -> None:
    """It belongs to its trace."""
    parts = calls(otel.span(2, **{"gen_ai_input.messages": [otel.text("user", "Hi")]}))
    assert {entry.conversation for entry in entries(parts)} == {"trace 5b8efff798038103d269b633813fc60c"}


def test_a_log_record_and_an_event() -> None:
    """Messages are found in log records and in events of spans."""
    attributes = [{"key": "gen_ai.input.messages", "value": {"stringValue": json.dumps([otel.text("user", "Hi")])}}]
    log = {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"traceId": "1", "attributes": attributes}]}]}]}
    event = {"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "1", "events": [{"attributes": attributes}]}]}]}]}
    assert [view(one).text for one in messages(calls(log)).values()] == ["Hi"]
    assert [view(one).text for one in messages(calls(event)).values()] == ["Hi"]


@pytest.mark.parametrize("indent", [None, 2])
def test_one_request_as_a_document(indent: int | None) -> None:
    """A file with one request is read, however it is written."""
    data = json.dumps(otel.LINES[1], indent=indent).encode()
    parts = read(OTEL, data, "a/trace.json")
    assert len(messages(parts)) == 3
    assert b"".join(entry.raw for entry in entries(parts)) == data


def test_lines_in_a_file_with_another_name() -> None:
    """The collector writes lines to files that end in .json."""
    assert len(messages(calls(*otel.LINES, name="a/traces.json"))) == 5


def test_nothing_to_import() -> None:
    """A file without a model call is named."""
    assert skips(calls(otel.LINES[0]))
    assert skips(read(OTEL, json.dumps(otel.LINES[0]).encode(), "a/trace.json"))
