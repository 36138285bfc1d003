"""Damaged snapshots in a folder or a bucket: not loaded, passed over by a list, and named."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import pytest

from clew.errors import Corrupted
from clew.snapshots import FileStore, ObjectStore, Snapshot, new_snapshot

KEY = bytes(range(32))
CUT: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "garbage": lambda data: b"garbage" * 1000,
    "half": lambda data: data[: len(data) // 2],
    "last byte gone": lambda data: data[:-1],
    "trailing byte": lambda data: data + b"\n",
    "trailing block": lambda data: data + bytes(4096),
}
"""Damage that changes the size, or the beginning."""


def large() -> Snapshot:
    """A snapshot whose file is larger than what a list reads."""
    return new_snapshot(provider="claude", messages=b'[{"role":"user","content":"%s"}]' % (b"x" * 20_000))


def damaged(store: FileStore | ObjectStore) -> set[str]:
    """What verify says is damaged."""
    return {error.where for error in store.verify() if isinstance(error, Corrupted)}


@pytest.mark.checklist("A23")
@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "sealed"])
@pytest.mark.parametrize("damage", CUT)
def test_a_list_passes_over_what_cannot_be_loaded(
    tmp_path: Path, damage: str, key: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    """A file that is cut short, has bytes too many, or is garbage, is not listed; the log and the error name it."""
    store = FileStore(tmp_path, key, logging.getLogger("snapshots"))
    good, bad = large(), large()
    for one in (good, bad):
        store.save(one)
    path = tmp_path / f"{bad.id}.json"
    path.write_bytes(CUT[damage](path.read_bytes()))
    with pytest.raises(Corrupted) as caught:
        store.load(bad.id)
    assert str(path) in str(caught.value)
    assert "verify" not in str(caught.value)
    assert [one.id for one in store.list()] == [good.id]
    assert [bad.id in record.getMessage() for record in caplog.records] == [True]
    assert damaged(store) == {f"snapshot {bad.id}"}


@pytest.mark.checklist("A23")
@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "sealed"])
def test_verify_finds_a_changed_bit(tmp_path: Path, key: bytes | None) -> None:
    """A list does not read the messages, so a bit that changed in them is found by verify, which names the file."""
    store = FileStore(tmp_path, key)
    snapshot = large()
    store.save(snapshot)
    assert store.verify() == []
    path = tmp_path / f"{snapshot.id}.json"
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)
    assert [one.id for one in store.list()] == [snapshot.id]
    (error,) = store.verify()
    assert isinstance(error, Corrupted)
    assert str(path) in error.hint


@pytest.mark.checklist("A23")
def test_the_same_holds_in_a_bucket(tmp_path: Path) -> None:
    """An object with the wrong size is not listed, and verify returns the error of each damaged object."""
    store = ObjectStore(tmp_path.as_uri())
    good, bad, changed = large(), large(), large()
    for one in (good, bad, changed):
        store.save(one)
    path = tmp_path / f"{bad.id}.json"
    path.write_bytes(path.read_bytes()[:-1])
    other = tmp_path / f"{changed.id}.json"
    other.write_bytes(other.read_bytes().replace(b"xxxxxx", b"xxyxxx"))
    assert {one.id for one in store.list()} == {good.id, changed.id}
    assert damaged(store) == {f"snapshot {bad.id}", f"snapshot {changed.id}"}


def test_files_of_before_are_listed(tmp_path: Path) -> None:
    """A file whose head does not say the size of its document is listed and loaded."""
    from clew.snapshots import file_format

    store, snapshot = FileStore(tmp_path), large()
    store.save(snapshot)
    path = tmp_path / f"{snapshot.id}.json"
    data = path.read_bytes()
    start, _, rest = data.partition(b',"body":')
    rest = rest[rest.index(b"}") :]
    checked = (start + rest).removeprefix(file_format.CHECKED)[8:]
    path.write_bytes(b"%s%08x%s" % (file_format.CHECKED, crc32(checked), checked))
    assert b'"body"' not in path.read_bytes()
    assert [one.id for one in store.list()] == [snapshot.id]
    assert store.load(snapshot.id) == snapshot
    assert store.verify() == []
