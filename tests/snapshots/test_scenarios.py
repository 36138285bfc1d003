"""The scenarios of the snapshot specification, each under its own name."""

import json
import os
import stat
from pathlib import Path

import pytest

import clew
from clew.errors import Corrupted, Invalid, NotFound, WrongKey
from clew.snapshots import FileStore, Snapshot, ToolSnapshot, generate_key, new_snapshot
from clew.snapshots.file_store import MemoryFiles
from clew.testing.snapshots import sample

MESSAGES = b'[{"role":"user","content":"Hello"},{"role":"assistant","content":"Hi"}]'


@pytest.fixture
def fs() -> MemoryFiles:
    return MemoryFiles()


@pytest.mark.checklist("A12", "A14")
def test_snapshot_serialization() -> None:
    """A snapshot is the same after JSON; names are in snake case, empty fields are omitted."""
    snapshot = sample()
    assert Snapshot.from_json(snapshot.to_json()) == snapshot
    assert list(json.loads(new_snapshot(provider="claude", model="m", messages=MESSAGES).to_json())) == [
        "id", "provider", "model", "messages", "created_at", "version",
    ]  # fmt: skip
    whole = json.loads(sample(messages=MESSAGES).to_json())
    assert list(whole) == [
        "id", "provider", "model", "system_prompt", "messages", "tools", "metadata", "created_at", "version",
    ]  # fmt: skip
    assert whole["created_at"].endswith("Z")


@pytest.mark.checklist("A13")
def test_snapshot_tools_exclude_handlers() -> None:
    """A tool has a name, a description and parameters, and no place for what it runs."""
    tool = ToolSnapshot("look", "Looks.", {"type": "object"})
    document = json.loads(new_snapshot(provider="claude", messages=b"[]", tools=[tool]).to_json())
    assert document["tools"] == [{"name": "look", "description": "Looks.", "parameters": {"type": "object"}}]
    with pytest.raises(TypeError):
        ToolSnapshot("look", "Looks.", {}, print)  # type: ignore[call-arg]
    with pytest.raises(Invalid):
        new_snapshot(provider="claude", tools=[ToolSnapshot("look", "", {"handler": print})]).to_json()
    assert "tools" not in json.loads(new_snapshot(provider="claude", tools=[]).to_json())


@pytest.mark.checklist("A14")
def test_snapshot_version() -> None:
    """A new snapshot has version 1, a new random id and the time in UTC."""
    one, other = new_snapshot(provider="claude"), new_snapshot(provider="claude")
    assert one.version == other.version == 1
    assert one.id != other.id
    assert one.id[14] == "4"
    assert one.created_at.utcoffset().total_seconds() == 0  # type: ignore[union-attr]


@pytest.mark.checklist("A17")
def test_file_store_save_load(fs: MemoryFiles) -> None:
    """A saved snapshot can be loaded."""
    store, snapshot = FileStore("/conversations", fs=fs), sample()
    store.save(snapshot)
    assert store.load(snapshot.id) == snapshot
    assert list(fs.files) == [f"/conversations/{snapshot.id}.json"]


@pytest.mark.checklist("A16")
def test_file_store_list(fs: MemoryFiles) -> None:
    """A list has a summary of each."""
    store = FileStore("/conversations", fs=fs)
    saved = [sample(messages=MESSAGES) for _ in range(3)]
    for snapshot in saved:
        store.save(snapshot)
    assert {one.id for one in store.list()} == {one.id for one in saved}
    assert {one.message_count for one in store.list()} == {2}


@pytest.mark.checklist("A18")
def test_file_store_delete(fs: MemoryFiles) -> None:
    """A deleted snapshot is not found; deleting it again is an error."""
    store, snapshot = FileStore("/conversations", fs=fs), sample()
    store.save(snapshot)
    store.delete(snapshot.id)
    with pytest.raises(NotFound, match=snapshot.id):
        store.load(snapshot.id)
    with pytest.raises(NotFound):
        store.delete(snapshot.id)
    assert fs.files == {}


@pytest.mark.checklist("A17")
def test_file_store_overwrite(fs: MemoryFiles) -> None:
    """The same id overwrites."""
    store, snapshot = FileStore("/conversations", fs=fs), sample()
    store.save(snapshot)
    store.save(snapshot.replace(messages=MESSAGES))
    assert store.load(snapshot.id).messages == MESSAGES
    assert len(fs.files) == 1


@pytest.mark.checklist("A27")
def test_file_store_with_encryption(fs: MemoryFiles) -> None:
    """A snapshot saved with a key loads only with it, and its ciphertext differs each time."""
    store, snapshot = FileStore("/conversations", generate_key(), fs=fs), sample(system_prompt="a canary")
    store.save(snapshot)
    (first,) = fs.files.values()
    assert store.load(snapshot.id) == snapshot
    assert b"canary" not in first
    assert b"claude" not in first
    store.save(snapshot)
    (second,) = fs.files.values()
    assert len(first) == len(second)
    assert first[21:] != second[21:]


@pytest.mark.checklist("A27")
@pytest.mark.parametrize("compatible", [False, True])
def test_file_store_encryption_key_mismatch(fs: MemoryFiles, compatible: bool) -> None:
    """With another key there is an error, the file stays as it is, and a list does not look empty."""
    snapshot = sample()
    FileStore("/conversations", generate_key(), fs=fs, compatible=compatible).save(snapshot)
    before = dict(fs.files)
    other = FileStore("/conversations", generate_key(), fs=fs)
    for call in (lambda: other.load(snapshot.id), other.list):
        with pytest.raises(WrongKey, match=r"not with key|does not open with key"):
            call()
    assert fs.files == before
    with pytest.raises(Corrupted if compatible else clew.Sealed):
        FileStore("/conversations", fs=fs).load(snapshot.id)


@pytest.mark.checklist("A20")
def test_file_store_directory_creation(tmp_path: Path) -> None:
    """The first save creates the directory and its parents, private to the owner under any umask."""
    folder = tmp_path / "a" / "b" / "conversations"
    store = FileStore(folder)
    assert store.list() == []
    assert not folder.exists()
    before = os.umask(0o777)
    try:
        store.save(sample())
    finally:
        os.umask(before)
    for path in (folder, folder.parent, folder.parent.parent):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


@pytest.mark.checklist("A20")
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o277])
def test_file_store_permissions(tmp_path: Path, umask: int) -> None:
    """Files, also those of media, are private to the owner under any umask."""
    store = FileStore(tmp_path)
    snapshot = sample(messages=json.dumps([{"data": "QUJD" * 50_000}]))
    before = os.umask(umask)
    try:
        store.save(snapshot)
        store.save(snapshot)
    finally:
        os.umask(before)
    made = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(made) == 3
    assert {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o600}


@pytest.mark.checklist("A22")
def test_round_trip_on_a_real_file_system(tmp_path: Path) -> None:
    """The bytes of the messages are the same after a round trip through a real file."""
    snapshot = sample()
    FileStore(tmp_path).save(snapshot)
    assert FileStore(tmp_path).load(snapshot.id).messages == snapshot.messages
    assert [path.name for path in tmp_path.iterdir()] == [f"{snapshot.id}.json"]
    assert json.loads((tmp_path / f"{snapshot.id}.json").read_bytes())["metadata"] == {"ticket": "17"}


@pytest.mark.checklist("A27")
def test_encrypted_round_trip(tmp_path: Path) -> None:
    """The raw bytes of an encrypted file show nothing of what is in it."""
    key, snapshot = generate_key(), sample(model="canary-model", metadata={"canary": "canary"})
    FileStore(tmp_path, key).save(snapshot)
    assert b"canary" not in (tmp_path / f"{snapshot.id}.json").read_bytes()
    assert FileStore(tmp_path, key).load(snapshot.id) == snapshot


@pytest.mark.checklist("A19")
def test_multi_provider(tmp_path: Path) -> None:
    """Snapshots of several providers live in one store, each with its own."""
    store = FileStore(tmp_path)
    saved = {name: sample(provider=name) for name in ("claude", "openai", "openai-compatible", "gemini")}
    for snapshot in saved.values():
        store.save(snapshot)
    assert {one.provider: one.id for one in store.list()} == {name: one.id for name, one in saved.items()}
    assert all(store.load(one.id).provider == name for name, one in saved.items())


@pytest.mark.parametrize("key", [None, bytes(32)])
@pytest.mark.parametrize(
    "garbage", [b"", b"\0", b"\xff" * 100, b"{", b"[]", b"{}", b'{"version":1}', b"CLEWSNAP", b"x" * 12]
)
def test_corrupted_file_handling(tmp_path: Path, garbage: bytes, key: bytes | None) -> None:
    """Garbage in the place of a snapshot is an error that says so, and a list passes it over."""
    store, snapshot = FileStore(tmp_path, key), sample()
    store.save(snapshot)
    bad = new_snapshot(provider="claude").id
    (tmp_path / f"{bad}.json").write_bytes(garbage)
    with pytest.raises(Corrupted, match=bad):
        store.load(bad)
    assert [one.id for one in store.list()] == [snapshot.id]
    store.delete(snapshot.id)
    assert store.list() == []
