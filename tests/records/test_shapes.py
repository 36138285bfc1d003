"""The shapes: what goes in is checked, and what comes out is what a consumer of the schema expects."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import clew
from clew import records
from clew.errors import Invalid
from clew.records import RecordService, to_json
from clew.records.schema import time_micros, time_text
from clew.testing import FakeClock
from tests.records.talk import AT, CLEAN, frame, given, made, snapshot, stored, summary

GOLDEN = Path(__file__).parents[1] / "fixtures/record.json"
DIGEST = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


def golden(tmp_path: Path) -> bytes:
    """The record of the fixture, as it leaves a service that it went into piece by piece."""
    wanted = json.loads(GOLDEN.read_text())
    with clew.open(tmp_path / "s.db", clock=FakeClock(time_micros("2025-10-21T12:00:00.000Z"))) as store:
        service = RecordService(store, exportable=True)
        service.initialize()
        first, second = wanted["messages"]
        given = {name: wanted[name] for name in ("conversationId", "title", "createdAt", "participants")}
        service.create({**given, "messages": [first], "metrics": {"averageLatencyMs": 12.5, "durationMs": 1}})
        id = given["conversationId"]
        service.attach(id, b"test", type="audio", attachment_id="a-1")
        service.update(id, {"appendMessages": [second], "summary": wanted["summary"], "metrics": {"durationMs": 3500}})
        retention = {"retentionExpiresAt": wanted["retention"]["retentionExpiresAt"], "manualHold": True}
        service.update(id, {"retention": retention})
        service.set_privacy(id, consent_capture="spoken")
        record = service.get(id)
        service.dispose()
    assert record is not None
    return to_json(record)


@pytest.mark.checklist("C7", "C8")
def test_a_record_is_what_its_consumers_expect(tmp_path: Path) -> None:
    """Every field of the schema, optional ones included, under its name and in its form; size and checksum computed."""
    wanted, record = json.loads(GOLDEN.read_text()), json.loads(golden(tmp_path))
    storage = record["storage"]
    assert storage["sizeBytes"] > 500
    assert len(storage["checksum"]) == 64
    wanted["storage"] |= {"sizeBytes": storage["sizeBytes"], "checksum": storage["checksum"]}
    assert record == wanted


CONSUMER = """
const record = JSON.parse(require("fs").readFileSync(0, "utf8"));
const { createHash } = require("crypto");
const times = [];
(function walk(value, name) {
  if (value === null) throw new Error("null at " + name);
  if (typeof value === "object") for (const [key, inner] of Object.entries(value)) walk(inner, key);
  else if (/(At|createdAt)$/.test(name)) times.push(value);
})(record, "");
if (times.length < 7 || !times.every(time => new Date(time).toISOString() === time)) throw new Error("times " + times);
const checksum = createHash("sha256").update(JSON.stringify(record.messages)).digest("hex");
if (checksum !== record.storage.checksum) throw new Error("checksum");
console.log("ok");
"""


def test_javascript_reads_it(tmp_path: Path) -> None:
    """Times are as JavaScript writes them, nothing is null, and the checksum is that of what JavaScript would write."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")  # also where tools are required: a JavaScript runtime is not one of them
    done = subprocess.run(["node", "-e", CONSUMER], input=golden(tmp_path), capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"ok\n"), done.stderr


def test_what_leaves_comes_back() -> None:
    """A record as JSON, as what JSON decodes to, and as itself is the same record."""
    with clew.open(":memory:") as store, RecordService(store) as service:
        record = made(service, None, frame(1), frame(2, "assistant"), summary=summary())
        assert records.validate_record(to_json(record)) == record
        assert records.validate_record(json.loads(to_json(record))) == record
        assert records.validate_record(record) == record
        item = service.list().items[0]
        assert records.validate_record_summary(to_json(item)) == item


def test_what_is_optional_is_left_out() -> None:
    """No field is null: absent values are omitted."""
    with clew.open(":memory:") as store, RecordService(store) as service:
        written = json.loads(to_json(made(service)))
    assert set(written) == {
        "conversationId", "version", "title", "createdAt", "lastInteractionAt", "participants", "messages", "metrics",
        "retention", "privacy", "storage",
    }  # fmt: skip
    assert set(written["messages"][0]) == {"frameId", "sequence", "role", "content", "createdAt", "privacy"}
    assert written["messages"][0]["privacy"] == CLEAN
    assert set(written["storage"]) == {"blobUri", "blobVersion", "sizeBytes", "checksum"}
    assert set(written["retention"]) == {"retentionExpiresAt", "retentionPolicy"}


ATTACHMENT = {"attachmentId": "a", "type": "code", "uri": f"blobs/{DIGEST}", "checksum": DIGEST, "byteLength": 4}
RETENTION = {"retentionExpiresAt": AT, "retentionPolicy": "custom"}
METRICS = {"userUtteranceCount": 1, "assistantUtteranceCount": 0, "durationMs": 1.5, "averageLatencyMs": 0}
REPORT = {"reason": "user-requested", "startedAt": AT, "completedAt": AT, "purgedCount": 1, "failures": []}
STORAGE = {"blobUri": "sessions/x", "blobVersion": 1, "sizeBytes": 1, "checksum": DIGEST}
PRIVACY = {"classification": "Confidential", "exportable": False}

GOOD: dict[str, Any] = {
    "attachment": ATTACHMENT,
    "audio": {"uri": f"blobs/{DIGEST}", "format": "pcm16", "durationMs": 1},
    "frame": frame(),
    "input": given(),
    "metrics": METRICS,
    "mutation": {"title": "x"},
    "participant": {"id": "u", "role": "system"},
    "privacy": PRIVACY,
    "report": REPORT,
    "retention": RETENTION,
    "snapshot": snapshot("c", frame(1), frame(2)),
    "storage": STORAGE,
    "summary": summary(),
}


@pytest.mark.checklist("C12")
@pytest.mark.parametrize("shape", GOOD)
def test_every_shape_has_its_guard(shape: str) -> None:
    """Valid values pass; missing and unknown fields and other types are Invalid."""
    guard, good = getattr(records, f"validate_{shape}"), GOOD[shape]
    assert guard(guard(good)) == guard(json.dumps(good))
    wrong: tuple[object, ...] = (None, 5, "x", b"\xff", [], {**good, "unknown": 1})
    for bad in wrong:
        with pytest.raises(Invalid):
            guard(bad)
    if shape != "mutation":
        for name in good:
            with pytest.raises(Invalid):
                guard({key: value for key, value in good.items() if key != name})


BAD = [
    ("attachment", {"uri": "../secrets"}),
    ("attachment", {"uri": "/etc/passwd"}),
    ("attachment", {"uri": f"blobs/../{DIGEST}"}),
    ("attachment", {"uri": f"file://blobs/{DIGEST}"}),
    ("attachment", {"checksum": "abc"}),
    ("attachment", {"byteLength": -1}),
    ("attachment", {"type": "video"}),
    ("attachment", {"checksum": f"{DIGEST}\n"}),
    ("attachment", {"uri": f"blobs/{DIGEST}\n"}),
    ("audio", {"format": "mp3"}),
    ("audio", {"uri": "blobs/x"}),
    ("frame", {"role": "system"}),
    ("frame", {"sequence": -1}),
    ("frame", {"sequence": 1.5}),
    ("frame", {"sequence": 2**53}),
    ("frame", {"frameId": ""}),
    ("frame", {"content": b"bytes"}),
    ("frame", {"content": bytearray(b"bytes")}),
    ("frame", {"privacy": {**CLEAN, "piiTokens": ["0" * 32 + "\n"]}}),
    ("frame", {"createdAt": "2025-02-31T12:00:00.000Z"}),
    ("frame", {"createdAt": "2025-10-21T12:00:00"}),
    ("frame", {"createdAt": "2025-10-21"}),
    ("frame", {"createdAt": "9999-12-31T23:59:59-23:59"}),
    ("frame", {"privacy": {**CLEAN, "piiTokens": ["jane@example.com"]}}),
    ("frame", {"privacy": {**CLEAN, "piiTokens": ["4915112345678"]}}),
    ("input", {"messages": [frame(2), frame(1)]}),
    ("input", {"messages": [frame(1), frame(1)]}),
    ("input", {"messages": [frame(1, frameId="x"), frame(2, frameId="x")]}),
    ("metrics", {"durationMs": -1}),
    ("metrics", {"averageLatencyMs": float("nan")}),
    ("metrics", {"averageLatencyMs": float("inf")}),
    ("mutation", {"retention": {"retentionPolicy": "never"}}),
    ("participant", {"role": "tool"}),
    ("privacy", {"classification": "Public"}),
    ("report", {"reason": "because"}),
    ("summary", {"keywords": "lint"}),
]


@pytest.mark.checklist("C9")
@pytest.mark.parametrize(("shape", "wrong"), BAD)
def test_what_is_wrong_is_told(shape: str, wrong: dict[str, Any]) -> None:
    """Values outside of what the schema allows are Invalid, and say so without a traceback of the library below."""
    with pytest.raises(Invalid):
        getattr(records, f"validate_{shape}")({**GOOD[shape], **wrong})


def test_times_are_brought_into_one_form() -> None:
    """Any ISO 8601 time with a zone becomes UTC with milliseconds; other values are Invalid at once."""
    assert records.validate_frame(frame(createdAt="2025-10-21T14:00:00+02:00")).created_at == AT
    assert records.validate_frame(frame(createdAt="2025-10-21T12:00:00.123456Z")).created_at.endswith("00.123Z")
    assert records.validate_summary(summary() | {"lastUpdatedAt": "2025-10-21T12:00:00+00:00"}).last_updated_at == AT
    other = records.ConversationSummary(synopsis="", last_updated_at="2025-10-21 12:00:00.000Z", keywords=())
    assert other.last_updated_at == AT
    assert time_text(-1) == "1969-12-31T23:59:59.999Z"
    with pytest.raises(Invalid, match="is not a time"):
        records.ConversationSummary(synopsis="", last_updated_at=5, keywords=())  # type: ignore[arg-type]


def test_both_ways_of_giving_are_the_same() -> None:
    """Values built in Python are checked like JSON, and lists are accepted for tuples."""
    with clew.open(":memory:") as store, RecordService(store) as service:
        message = records.validate_frame(frame())
        made = records.ConversationRecordInput(
            conversation_id="talk", title="T", created_at=AT, participants=[], messages=[message],  # type: ignore[arg-type]
        )  # fmt: skip
        assert stored(service.create(made)).messages == (message,)
        wrong = records.ConversationRecordMutation(title=5)  # type: ignore[arg-type]
        with pytest.raises(Invalid):
            service.update("talk", wrong)
