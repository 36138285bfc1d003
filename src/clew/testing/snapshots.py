"""Conformance tests for snapshot stores.

Subclass `SnapshotConformance` in a test module; `store` returns an empty store::

    class TestMyStore(SnapshotConformance):
        def store(self, tmp_path):
            return MyStore(tmp_path)
"""

from __future__ import annotations

import json
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from clew.errors import NotFound
from clew.snapshots import Messages, Snapshot, SnapshotStore, ToolSnapshot, new_snapshot
from clew.snapshots.errors import InvalidSnapshotID

NO_IDS = [
    "", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "g0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a111",
    "a0eebc999c0b-4ef8-bb6d-6bb9bd380a11-", "a0eebc999c0b4ef8bb6d6bb9bd380a11", "..", "../../etc/passwd",
    "/etc/passwd", "/", "\\", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1\0", " a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11 ", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11\n",
    "\u0430" + "0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "\u0660" * 8 + "-9c0b-4ef8-bb6d-6bb9bd380a11",
    "../a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11/..", "{uuid}", "\ud800",
]  # fmt: skip
"""Invalid ids, each for another reason."""

ODD = (
    b'[ {"role" : "user","content":[{"type":"text","text":"caf\xc3\xa9 \\u00e9 \\ud83d"}], "n":'
    b' 123456789012345678901234567890,\n   "x":1.0, "x":1.00 , "e":1E400,"b":"data:media/0"} ,{"z":0,"a":1}\t]'
)
"""An array that no encoder reproduces: spaces, a duplicate key, numbers out of range, escapes."""


def sample(**changes: Any) -> Snapshot:
    """A snapshot with a value in every field."""
    fields: dict[str, Any] = {
        "provider": "claude", "model": "a-model", "system_prompt": "Be brief.", "messages": ODD,
        "tools": [ToolSnapshot("look", "Looks.", {"type": "object", "properties": {"at": {"type": "string"}}})],
        "metadata": {"ticket": "17"},
    }  # fmt: skip
    return new_snapshot(**{**fields, **changes})


class SnapshotConformance(ABC):
    """The contract of a snapshot store. Each test gets a new store."""

    @abstractmethod
    def store(self, tmp_path: Path) -> SnapshotStore:
        """A new, empty store."""

    @pytest.fixture
    def made(self, tmp_path: Path) -> Iterator[SnapshotStore]:
        """The store of a test. Closed after the test if it has `close`."""
        store = self.store(tmp_path)
        yield store
        close: Callable[[], None] | None = getattr(store, "close", None)
        if close is not None:
            close()

    def test_it_is_a_store(self, made: SnapshotStore) -> None:
        """The store has the methods of a `SnapshotStore`."""
        assert isinstance(made, SnapshotStore)

    def test_what_is_saved_is_loaded(self, made: SnapshotStore) -> None:
        """`load` returns every field as saved, and the messages byte for byte."""
        snapshot = sample()
        made.save(snapshot)
        loaded = made.load(snapshot.id)
        assert loaded.messages == ODD
        assert loaded == snapshot
        assert loaded.created_at.tzinfo is UTC or loaded.created_at.utcoffset() == timedelta(0)

    @pytest.mark.parametrize("messages", [b"[]", b"null", b'{"history":[]}', b'["a", 1, null, [[]]]', b" [ ] ", b'""'])
    def test_messages_of_any_shape(self, made: SnapshotStore, messages: bytes) -> None:
        """The messages may be any JSON, not only an array of objects."""
        snapshot = new_snapshot(provider="other", messages=messages)
        made.save(snapshot)
        assert made.load(snapshot.id) == snapshot

    def test_text_like_a_mark(self, made: SnapshotStore) -> None:
        """Text that looks like a media reference, a checksum or a file header stays text."""
        marks = ["media:0", '"clew":{"form":1}', "CLEWSNAP", "\n", '{\n  "clew": {"form":1,"crc32":"', "A" * 200_000]
        snapshot = new_snapshot(provider="claude", messages=json.dumps(marks).encode())
        made.save(snapshot)
        assert made.load(snapshot.id).messages == snapshot.messages

    def test_media(self, made: SnapshotStore) -> None:
        """Large media are stored byte for byte, including non-canonical base64."""
        data, odd = "QUJD" * 50_000, "QUJ" + "D" * 100_000 + "="
        messages = json.dumps([{"data": data}, {"url": f"data:image/png;base64,{data}"}, {"data": odd}]).encode()
        snapshot = new_snapshot(provider="claude", messages=messages)
        made.save(snapshot)
        assert made.load(snapshot.id).messages == messages

    def test_overwrite(self, made: SnapshotStore) -> None:
        """Saving replaces the snapshot with the same id."""
        first = sample()
        made.save(first)
        second = first.replace(messages=b'[{"role":"user","content":"again"}]', model="another", tools=(), metadata={})
        made.save(second)
        assert made.load(first.id) == second
        assert len(made.list()) == 1

    def test_list(self, made: SnapshotStore) -> None:
        """`list` returns all snapshots of all providers, newest first, with counts and without messages."""
        assert made.list() == []
        start = datetime(2026, 3, 26, tzinfo=UTC)
        saved = [
            sample(provider=provider).replace(created_at=start + timedelta(days=day))
            for day, provider in enumerate(("claude", "openai", "openai-compatible", "gemini"))
        ]
        for snapshot in saved:
            made.save(snapshot)
        found = made.list()
        assert [one.id for one in found] == [one.id for one in reversed(saved)]
        for one, snapshot in zip(found, reversed(saved), strict=True):
            assert (one.provider, one.model) == (snapshot.provider, snapshot.model)
            assert one.created_at == snapshot.created_at
            assert one.message_count == 2
            assert 30 < one.token_count < 120

    def test_delete(self, made: SnapshotStore) -> None:
        """A deleted snapshot is not found; all others remain."""
        gone, kept = sample(), sample()
        made.save(gone)
        made.save(kept)
        made.delete(gone.id)
        with pytest.raises(NotFound):
            made.load(gone.id)
        assert [one.id for one in made.list()] == [kept.id]
        assert made.load(kept.id) == kept

    def test_missing(self, made: SnapshotStore) -> None:
        """`load` and `delete` raise NotFound for an unknown id."""
        for _ in range(2):
            with pytest.raises(NotFound):
                made.load(str(uuid.uuid4()))
            with pytest.raises(NotFound):
                made.delete(str(uuid.uuid4()))
            made.save(sample())

    @pytest.mark.parametrize("id", NO_IDS)
    def test_no_id(self, made: SnapshotStore, id: str) -> None:
        """`load`, `delete` and `Snapshot` refuse an invalid id."""
        for call in (made.load, made.delete):
            with pytest.raises(InvalidSnapshotID):
                call(id)
        with pytest.raises(InvalidSnapshotID):
            sample().replace(id=id)
        smuggled = sample()
        object.__setattr__(smuggled, "id", id)
        with pytest.raises(InvalidSnapshotID):
            made.save(smuggled)
        assert made.list() == []

    def test_a_conversation_that_grows(self, made: SnapshotStore) -> None:
        """Saving a growing conversation under one id stores all of its messages each time."""
        messages, id = Messages(), str(uuid.uuid4())
        for turn in range(20):
            messages.append(b'{"role":"user","content":"question %d"}' % turn)
            messages.append(b'{"role":"assistant","content":"answer %d"}' % turn)
            snapshot = new_snapshot(provider="claude", messages=messages).replace(id=id)
            made.save(snapshot)
            loaded = made.load(id)
            assert loaded.messages == b"[" + b",".join(messages) + b"]"
            assert loaded.message_count == made.list()[0].message_count == 2 * turn + 2
        shorter = Messages([*messages[:7], b'{"role":"user","content":"another"}'])
        made.save(new_snapshot(provider="claude", messages=shorter).replace(id=id))
        assert list(made.load(id).parts) == list(shorter)

    def test_a_snapshot_stands_still(self, made: SnapshotStore) -> None:
        """A snapshot does not contain messages that a client adds later."""
        messages = Messages([b'{"role":"user","content":"before"}'])
        snapshot = new_snapshot(provider="claude", messages=messages)
        messages.append(b'{"role":"assistant","content":"after"}')
        made.save(snapshot)
        assert made.load(snapshot.id).messages == b'[{"role":"user","content":"before"}]'
        other = snapshot.replace(id=str(uuid.uuid4()))
        made.save(other)
        made.delete(snapshot.id)
        assert made.load(other.id).message_count == 1

    def test_threads(self, made: SnapshotStore) -> None:
        """Threads may share a store: each can load what it saved."""

        def work(number: int) -> bool:
            snapshot = sample(metadata={"number": str(number)})
            made.save(snapshot)
            return made.load(snapshot.id) == snapshot

        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(work, range(24)))
        assert len(made.list()) == 24
