"""The folders that `clew.open` creates: those of the namespace of records, and no others."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

import clew
from clew.errors import Invalid, NotFound, ReadOnly
from clew.records import RecordService
from clew.snapshots import FileStore, new_snapshot
from tests.records.talk import made

NAMESPACE = Path("agentvoice/conversations")


@pytest.mark.checklist("C1", "C40")
def test_the_namespace_of_records_is_created(tmp_path: Path) -> None:
    """Below an existing folder, both folders of the namespace are made, private and marked for sync tools."""
    folder = tmp_path / NAMESPACE
    with clew.open(folder / "records.db") as store, RecordService(store) as service:
        made(service, "talk")
    for one in (folder, folder.parent):
        assert stat.S_IMODE(one.stat().st_mode) == 0o700
    assert {".nosync", ".stignore", "records.db"} <= {file.name for file in folder.iterdir()}
    snapshots = FileStore(tmp_path / "agentvoice" / "snapshots")
    snapshots.save(new_snapshot(provider="claude"))
    assert len(list((tmp_path / "agentvoice" / "snapshots").glob("*.json"))) == 1
    with clew.open(folder / "records.db", create=False) as store, RecordService(store) as service:
        assert service.get("talk") is not None


@pytest.mark.parametrize("name", ["typo/chats.db", "typo/agentvoice/conversations/records.db", "agentvoice/chats.db"])
def test_other_folders_are_not_created(tmp_path: Path, name: str) -> None:
    """A folder that does not exist elsewhere is an error: it may be a typing error."""
    with pytest.raises(Invalid, match="there is no folder"):
        clew.open(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_must_exist_creates_nothing(tmp_path: Path) -> None:
    """With ``create=False``, no folder is made."""
    with pytest.raises(NotFound):
        clew.open(tmp_path / NAMESPACE / "records.db", create=False)
    assert list(tmp_path.iterdir()) == []


def test_a_namespace_that_cannot_be_created_says_so(tmp_path: Path) -> None:
    """A file in place of a folder is an error that names the folder."""
    (tmp_path / "agentvoice").write_text("")
    with pytest.raises(ReadOnly, match="cannot create"):
        clew.open(tmp_path / NAMESPACE / "records.db")
