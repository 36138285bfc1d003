"""Records as encrypted blobs: the documented shape, known answers, and changed blobs."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.errors import Conflict, Corrupted, Invalid, NotFound
from clew.records import EncryptedBlob, RecordService, encrypted_blob, events, to_json, validate_blob
from tests.records.talk import frame, made, stored, summary

VECTORS = json.loads((Path(__file__).parents[1] / "fixtures/blobs.json").read_text(encoding="utf-8"))
KEY = bytes(range(32, 64))
SHAPE = ["authTag", "checksum", "cipherText", "conversationId", "createdAt", "iv", "schemaVersion"]


@pytest.fixture
def other(tmp_path: Path) -> Iterator[RecordService]:
    """A service on another store."""
    with clew.open(tmp_path / "other.db") as store, RecordService(store) as service:
        yield service


@pytest.mark.checklist("C14")
@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_known_answers(vector: dict[str, Any]) -> None:
    """A blob that foreign code made from the document is read, and is made again byte by byte."""
    key, blob = bytes.fromhex(vector["key"]), validate_blob(vector["blob"])
    record = encrypted_blob.decrypt(blob, key)
    assert to_json(record) == vector["record"].encode()
    assert (
        encrypted_blob.encrypt(blob.conversation_id, vector["record"].encode(), key, blob.created_at, blob.iv) == blob
    )
    assert json.loads(to_json(blob)) == vector["blob"]


@pytest.mark.checklist("C14")
@pytest.mark.parametrize("field", SHAPE)
def test_a_change_of_any_field_is_found(field: str) -> None:
    """A blob in which one field was changed is refused, whichever it is; nothing of it is returned."""
    vector = VECTORS[0]
    key, blob = bytes.fromhex(vector["key"]), dict(vector["blob"])
    if field in ("authTag", "cipherText", "iv"):
        raw = b64decode(blob[field])
        changed: Any = [raw[:n] + bytes([raw[n] ^ 1]) + raw[n + 1 :] for n in (0, len(raw) // 2, len(raw) - 1)]
        changed = [b64encode(one).decode() for one in (*changed, raw[:-1], raw + b"\0", b"")]
    else:
        changed = {"schemaVersion": [0, 2], "createdAt": ["2025-10-23T08:30:00.000Z"], "conversationId": ["x"]}.get(
            field, ["0" * 64]
        )
    for value in changed:
        with pytest.raises((Corrupted, Invalid)):
            encrypted_blob.decrypt(validate_blob(blob | {field: value}), key)
    with pytest.raises(Invalid):
        validate_blob({name: value for name, value in blob.items() if name != field})


def test_another_key_opens_nothing() -> None:
    """A wrong key is an error that names the record, and a key of another size is Invalid."""
    blob = validate_blob(VECTORS[0]["blob"])
    with pytest.raises(Corrupted, match="another key"):
        encrypted_blob.decrypt(blob, bytes(32))
    for key in (b"short", "text"):
        with pytest.raises(Invalid, match="32 bytes"):
            encrypted_blob.decrypt(blob, key)  # type: ignore[arg-type]


@pytest.mark.checklist("C14")
def test_a_record_moves_to_another_store(service: RecordService, other: RecordService) -> None:
    """An exported blob has the documented fields and no content in clear; importing it creates the record."""
    made(service, "talk", frame(1, frameId="1"), summary=summary("A canary"), metrics={"averageLatencyMs": 7})
    service.update("talk", {"appendMessages": [frame(3, "assistant", "Another canary", frameId="3")]})
    record = stored(service.update("talk", {"title": "The third canary"}))
    with pytest.raises(Conflict, match="not to be exported"):
        service.export_blob("talk", KEY)
    service.set_privacy("talk", exportable=True)
    blob = service.export_blob("talk", KEY)
    written = to_json(blob)
    assert sorted(json.loads(written)) == SHAPE
    assert (len(blob.iv), len(blob.auth_tag)) == (12, 16)
    assert b"canary" not in written
    assert b"canary" not in blob.cipher_text
    assert service.export_blob("talk", KEY).iv != blob.iv
    imported = stored(other.import_blob(written, KEY))
    for name in ("conversation_id", "title", "created_at", "participants", "messages", "summary", "metrics"):
        assert getattr(imported, name) == getattr(record, name), name
    assert other.get("talk") == imported
    with pytest.raises(Conflict):
        other.import_blob(blob, KEY)


def test_an_export_as_a_blob_is_an_export(service: RecordService, heard: list[events.RecordEvent]) -> None:
    """It emits the event, and an unknown record is NotFound."""
    made(service, "talk")
    service.set_privacy("talk", exportable=True)
    heard.clear()
    assert isinstance(service.export_blob("talk", KEY), EncryptedBlob)
    assert heard == [events.ConversationExported(conversation_id="talk")]
    id = made(service, "3f0c8f6e-6a58-4d0e-9d0a-1f2b7c9d4e5f").conversation_id
    service.set_privacy(id, exportable=True)
    assert encrypted_blob.decrypt(service.export_blob(id.upper(), KEY), KEY).conversation_id == id
    heard.clear()
    with pytest.raises(NotFound):
        service.export_blob("other", KEY)
    with pytest.raises(Invalid):
        service.export_blob("talk", b"short")
    assert heard == []


def test_a_record_with_attachments_is_not_imported_without_them(service: RecordService, other: RecordService) -> None:
    """A blob has no attachments, so importing such a record is refused and stores nothing."""
    made(service, "talk")
    kept = service.attach("talk", b"the log", type="document")
    service.update("talk", {"appendMessages": [frame(2, attachments=[kept])]})
    service.set_privacy("talk", exportable=True)
    with pytest.raises(Invalid, match="attachments"):
        other.import_blob(service.export_blob("talk", KEY), KEY)
    assert other.list().total_count == 0


def test_a_blob_with_something_else_in_it_is_refused() -> None:
    """A blob that was made with the right key, but of something that is not this record, is Corrupted."""
    record, at = VECTORS[1]["record"].encode(), "2025-10-22T08:30:00.000Z"
    for wrong in (b"{}", b"\xff", record.replace(b'"version":1', b'"version":2'), record):
        with pytest.raises(Corrupted):
            encrypted_blob.decrypt(encrypted_blob.encrypt("talk", wrong, KEY, at, bytes(12)), KEY)
