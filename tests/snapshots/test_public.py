"""Snapshots from outside: hints, names and limits that a caller meets."""

from __future__ import annotations

import json

import pytest

import clew.snapshots
from clew import chat
from clew.chat import recording
from clew.errors import Invalid, SchemaTooNew
from clew.snapshots import FileStore, MemoryFiles, Snapshot, SnapshotStore, SnapshotSummary, new_snapshot


@pytest.mark.checklist("A15")
@pytest.mark.parametrize("version", [2, 3, 4])
def test_a_newer_snapshot_needs_a_newer_clew(version: int) -> None:
    """The hint for every newer version of a snapshot is to upgrade, not to convert a store."""
    document = json.loads(new_snapshot(provider="claude").to_json()) | {"version": version}
    with pytest.raises(SchemaTooNew) as caught:
        Snapshot.from_json(json.dumps(document).encode())
    assert caught.value.hint == "Upgrade clew to open it."


@pytest.mark.checklist("A17")
def test_any_class_with_the_methods_is_a_store() -> None:
    """A class of one's own is a `SnapshotStore`, and clients save to it; one that lacks a method is none."""

    class Own:
        def __init__(self) -> None:
            self.kept = dict[str, Snapshot]()

        def save(self, snapshot: Snapshot) -> None:
            self.kept[snapshot.id] = snapshot

        def load(self, id: str) -> Snapshot:
            return self.kept[id]

        def list(self) -> list[SnapshotSummary]:
            fields = ("id", "provider", "model", "created_at", "message_count")
            return [SnapshotSummary(**{name: getattr(one, name) for name in fields}) for one in self.kept.values()]

        def delete(self, id: str) -> None:
            del self.kept[id]

    store = Own()
    assert isinstance(store, SnapshotStore)
    assert not isinstance(store.kept, SnapshotStore)
    client = chat.connect("offline")
    assert isinstance(client, chat.Client)
    client = recording.autosave(client, store)
    client.chat("One")
    client.chat("Two")
    ((id, snapshot),) = store.kept.items()
    assert (id, snapshot.message_count) == (client.id, 4)


@pytest.mark.checklist("A21")
def test_the_file_system_in_memory_is_public() -> None:
    """A store in memory saves, loads, lists and deletes, by public names alone."""
    assert {"Files", "MemoryFiles"} <= set(clew.snapshots.__all__)
    store, snapshot = FileStore("nowhere", fs=MemoryFiles()), new_snapshot(provider="claude")
    store.save(snapshot)
    assert store.load(snapshot.id) == snapshot
    store.delete(snapshot.id)
    assert store.list() == []


def test_a_system_prompt_that_cannot_be_saved_is_refused() -> None:
    """A NUL in a system prompt is refused when the client is made, not when its conversation is saved."""
    with pytest.raises(Invalid, match="NUL"):
        chat.connect(provider="offline", system="Be\0brief")
