"""The ids of records in a sealed store: hashed in its files, and found however the store was written."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

import clew
from clew.errors import Conflict
from clew.records import RecordService
from clew.store.store import Store
from tests.records.conftest import KEY
from tests.records.talk import AT, frame, given, made, snapshot, stored, texts


def traces(folder: Path, id: str) -> list[str]:
    """The files that have the id as text, as hexadecimal digits or as bytes in either order."""
    value = uuid.UUID(id)
    forms = [id.encode(), value.hex.encode(), value.bytes, value.bytes[::-1], value.bytes_le]
    return [path.name for path in folder.rglob("*") if path.is_file() and any(f in path.read_bytes() for f in forms)]


@pytest.mark.checklist("C15")
def test_no_file_of_a_sealed_store_has_a_records_ids(service: RecordService, path: Path) -> None:
    """UUIDs of conversations and frames, committed or pending, are in no file of a sealed store."""
    conversation, other, first, second, third = (str(uuid.uuid4()) for _ in range(5))
    made(service, conversation, frame(frameId=first))
    service.update(conversation, {"appendMessages": [frame(2, "assistant", "Lint.", frameId=second)]})
    service.commit_snapshot(snapshot(other, frame(frameId=third)))
    record = service.get(conversation)
    assert record is not None
    assert record.conversation_id == conversation
    assert [one.frame_id for one in record.messages] == [first, second]
    assert service.recoverable() == (other,)
    assert {one.conversation_id for one in service.list().items} == {conversation, other}
    assert not [name for id in (conversation, other, first, second, third) for name in traces(path.parent, id)]


@pytest.mark.parametrize("change", ["seal", "unseal"])
@pytest.mark.checklist("C15")
def test_records_are_found_after_the_store_was_sealed_or_unsealed(path: Path, change: str) -> None:
    """A record is found under its id, whether its ids were stored in clear or hashed; it is not stored again."""
    conversation, first, second = (str(uuid.uuid4()) for _ in range(3))
    message = frame(frameId=first)
    with clew.open(path, key=None if change == "seal" else KEY) as store, RecordService(store) as service:
        made(service, conversation, message)
    with clew.open(path, key=None if change == "seal" else KEY) as store:
        store.seal(KEY) if change == "seal" else store.unseal()
    with clew.open(path, key=KEY if change == "seal" else None) as store, RecordService(store) as service:
        assert [one.conversation_id for one in service.list().items] == [conversation]
        with pytest.raises(Conflict):
            service.create(given(conversation))
        added = {"appendMessages": [message, frame(2, "assistant", "Lint.", frameId=second)]}
        record = stored(service.update(conversation, added))
        assert [one.frame_id for one in record.messages] == [first, second]
        service.commit_snapshot(snapshot(conversation, frame(3, content="Fix it.")))
        pending = service.get_snapshot(conversation)
        assert pending is not None
        assert [one.content for one in pending.pending_messages] == ["Fix it."]
        assert len(texts(stored(service.commit_conversation(conversation, {})))) == 3
        assert service.delete(conversation, "user-requested").purged_count == 1
        assert service.get(conversation) is None
        assert service.list().total_count == 0


def test_an_id_in_another_case_is_the_same_conversation(service: RecordService) -> None:
    """The letters of a UUID may be upper or lower case."""
    id = str(uuid.uuid4())
    made(service, id)
    assert service.get(id.upper()) is not None


def test_sessions_of_other_programs_are_records_of_a_sealed_store(sealed: Store, service: RecordService) -> None:
    """A session that was not written by a service has its own id as the id of its record."""
    session = sealed.sessions.create(title="Other")
    session.append(clew.user("Why?"))
    record = service.get(session.id)
    assert record is not None
    assert (record.conversation_id, texts(record)) == (session.id, ["Why?"])
    service.update(session.id, {"appendMessages": [frame(2, "assistant", "Lint.", createdAt=AT)]})
    assert len(list(session.messages())) == 2
    with pytest.raises(Conflict):
        service.create(given(session.id))
