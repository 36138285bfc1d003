"""Snapshots from outside: hints, names and limits that a caller meets."""

from __future__ import annotations

import json

import pytest

import clew.snapshots
from clew import chat
from clew.errors import Invalid, SchemaTooNew
from clew.snapshots import FileStore, MemoryFiles, Snapshot, new_snapshot


@pytest.mark.checklist("A15")
@pytest.mark.parametrize("version", [2, 3, 4])
def test_a_newer_snapshot_needs_a_newer_clew(version: int) -> None:
    """The hint for every newer version of a snapshot is to upgrade, not to convert a store."""
    document = json.loads(new_snapshot(provider="claude").to_json()) | {"version": version}
    with pytest.raises(SchemaTooNew) as caught:
        Snapshot.from_json(json.dumps(document).encode())
    assert caught.value.hint == "Upgrade clew to open it."


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
