"""Files of snapshots: what is in them, what happens to them, and what a hostile one can do."""

import json
import logging
import multiprocessing
import os
import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

import clew
from clew.base import files
from clew.errors import Corrupted, Invalid, NotFound, ReadOnly, SchemaTooNew, Sealed, StorageFull, Unavailable, WrongKey
from clew.snapshots import FileStore, Snapshot, generate_key, new_snapshot, validate_snapshot_id
from clew.snapshots.file_format import HEAD
from clew.snapshots.file_store import LocalFiles, MemoryFiles
from clew.testing.snapshots import ODD, sample

KEY = bytes(range(32))
ID = "7d444840-9dc0-41d1-b245-5ffdce74fad2"
ORIGINAL = b"""{
  "id": "7d444840-9dc0-41d1-b245-5ffdce74fad2",
  "provider": "claude",
  "model": "claude-sonnet-4-5",
  "system_prompt": "",
  "messages": [
    {
      "content": [
        {
          "text": "Hello",
          "type": "text"
        }
      ],
      "role": "user"
    }
  ],
  "tools": [
    {
      "name": "look",
      "description": "Looks.",
      "parameters": null
    }
  ],
  "created_at": "2026-03-26T10:00:00.123456789+01:00",
  "version": 1
}"""
"""As Go's json.MarshalIndent writes it."""
PICTURE = "iVBORw0KGgoAAAAN" * 8_000


def pictures(*data: str) -> bytes:
    return json.dumps([{"role": "user", "content": [{"data": one}]} for one in data]).encode()


# -- the original's files


def test_plain_files_of_the_original_are_read(tmp_path: Path) -> None:
    """Also with nanoseconds, another time zone and no parameters; and they are listed."""
    (tmp_path / f"{ID}.json").write_bytes(ORIGINAL)
    store = FileStore(tmp_path)
    snapshot = store.load(ID)
    assert snapshot.provider == "claude"
    assert snapshot.system_prompt == ""
    assert snapshot.tools[0].parameters is None
    assert snapshot.created_at == datetime(2026, 3, 26, 9, 0, 0, 123457, tzinfo=UTC)
    assert snapshot.messages.startswith(b"[\n    {") and snapshot.messages in ORIGINAL
    (one,) = store.list()
    assert (one.id, one.message_count) == (ID, 1)


@pytest.mark.checklist("A26")
def test_encrypted_files_of_the_original_are_read(tmp_path: Path) -> None:
    """A file that plain AES-GCM made, nonce first and bound to nothing, opens; with another key it does not."""
    nonce = bytes(range(12))
    (tmp_path / f"{ID}.json").write_bytes(nonce + AESGCM(KEY).encrypt(nonce, ORIGINAL, None))
    store = FileStore(tmp_path, KEY)
    assert store.load(ID).model == "claude-sonnet-4-5"
    assert store.list()[0].message_count == 1
    with pytest.raises(WrongKey):
        FileStore(tmp_path, bytes(32)).load(ID)


def test_an_original_may_begin_with_a_brace(tmp_path: Path) -> None:
    """The first byte of an encrypted file is random: it may be that of a JSON object."""
    nonce = b'{\n  "clew": '
    (tmp_path / f"{ID}.json").write_bytes(nonce + AESGCM(KEY).encrypt(nonce, ORIGINAL, None))
    assert FileStore(tmp_path, KEY).load(ID).provider == "claude"
    assert len(FileStore(tmp_path, KEY).list()) == 1


@pytest.mark.checklist("A26")
def test_the_original_can_read_what_is_compatible(tmp_path: Path) -> None:
    """With `compatible`, files have the original format: only the document, or nonce and ciphertext."""
    snapshot = sample(messages=pictures(PICTURE))
    FileStore(tmp_path, compatible=True).save(snapshot)
    plain = (tmp_path / f"{snapshot.id}.json").read_bytes()
    assert plain.startswith(b'{\n  "id": ')
    FileStore(tmp_path, KEY, compatible=True).save(snapshot)
    data = (tmp_path / f"{snapshot.id}.json").read_bytes()
    assert AESGCM(KEY).decrypt(data[:12], data[12:], None) == plain
    document = json.loads(plain)
    assert document["messages"][0]["content"][0]["data"] == PICTURE
    assert set(document) == {
        "id", "provider", "model", "system_prompt", "messages", "tools", "metadata", "created_at", "version",
    }  # fmt: skip
    assert not (tmp_path / "media").exists()


def test_a_plain_file_is_a_document_with_one_field_more(tmp_path: Path) -> None:
    """The original can read it, too: it passes over what it does not know."""
    snapshot = sample(messages=b"[1]")
    FileStore(tmp_path).save(snapshot)
    document = json.loads((tmp_path / f"{snapshot.id}.json").read_bytes())
    assert document.pop("clew")["form"] == 1
    assert Snapshot.from_json(json.dumps(document).encode()) == snapshot


# -- attacks


@pytest.mark.checklist("A36")
@pytest.mark.parametrize("compatible", [False, True])
@pytest.mark.parametrize("key", [None, KEY])
def test_a_file_under_another_name(tmp_path: Path, key: bytes | None, compatible: bool) -> None:
    """A snapshot that was renamed, or copied over another, is not believed, and not listed."""
    store, victim = FileStore(tmp_path, key, compatible=compatible), sample()
    planted = sample(system_prompt="Do as I say.")
    store.save(victim)
    store.save(planted)
    os.replace(tmp_path / f"{planted.id}.json", tmp_path / f"{victim.id}.json")
    with pytest.raises(Corrupted):
        store.load(victim.id)
    assert store.list() == []


def test_a_sealed_head_and_body_belong_together(tmp_path: Path) -> None:
    """The head of one save with the body of another does not open, though both are of the same snapshot."""
    store, path = FileStore(tmp_path, KEY), tmp_path / f"{ID}.json"
    saves = []
    for text in (b"one", b"two"):
        store.save(new_snapshot(provider="claude", messages=b'["%s"]' % text).replace(id=ID))
        saves.append(path.read_bytes())
    cut = 21 + int.from_bytes(saves[0][17:21], "big")
    path.write_bytes(saves[0][:cut] + saves[1][cut:])
    with pytest.raises(Corrupted):
        store.load(ID)


@pytest.mark.parametrize("messages", [ODD, pictures(PICTURE)])
@pytest.mark.parametrize("key", [None, KEY])
def test_flipped_bits(tmp_path: Path, key: bytes | None, messages: bytes) -> None:
    """Any flipped bit shows: the snapshot does not load, or loads as it was."""
    store, snapshot = FileStore(tmp_path, key), sample(messages=messages)
    store.save(snapshot)
    path = tmp_path / f"{snapshot.id}.json"
    data = path.read_bytes()
    for bit in range(0, 8 * len(data), 13):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        try:
            assert store.load(snapshot.id) == snapshot, bit
        except clew.ClewError:
            pass
        store_list(store)


def store_list(store: FileStore) -> None:
    try:
        store.list()
    except Sealed:
        pass


@pytest.mark.checklist("A27")
@pytest.mark.parametrize("key", [None, KEY])
def test_cut_short(tmp_path: Path, key: bytes | None) -> None:
    """A file that was cut short does not load."""
    store, snapshot = FileStore(tmp_path, key), sample()
    store.save(snapshot)
    path = tmp_path / f"{snapshot.id}.json"
    data = path.read_bytes()
    for length in range(0, len(data), 3):
        path.write_bytes(data[:length])
        with pytest.raises(clew.ClewError):
            store.load(snapshot.id)


def test_a_plain_file_in_a_store_with_a_key(tmp_path: Path) -> None:
    """A store with a key refuses plain files, which anyone could have written."""
    snapshot = sample()
    FileStore(tmp_path).save(snapshot)
    with pytest.raises(Corrupted, match="not encrypted"):
        FileStore(tmp_path, KEY).load(snapshot.id)
    FileStore(tmp_path, KEY).save(FileStore(tmp_path).load(snapshot.id))
    assert FileStore(tmp_path, KEY).load(snapshot.id) == snapshot


def test_links_are_not_followed(tmp_path: Path) -> None:
    """A link in the place of a snapshot is not read, and saving puts a file in its place."""
    store, snapshot = FileStore(tmp_path / "store"), sample()
    store.save(snapshot)
    path, outside = tmp_path / "store" / f"{snapshot.id}.json", tmp_path / "outside.json"
    path.rename(outside)
    path.symlink_to(outside)
    with pytest.raises(Unavailable):
        store.load(snapshot.id)
    assert store.list() == []
    store.save(snapshot.replace(model="other"))
    assert not path.is_symlink()
    assert b"other" not in outside.read_bytes()


def test_what_is_not_a_file(tmp_path: Path) -> None:
    """A folder or a pipe with the name of a snapshot is skipped without waiting."""
    (tmp_path / f"{ID}.json").mkdir()
    pipe = tmp_path / f"{ID[:-1]}3.json"
    os.mkfifo(pipe)
    store = FileStore(tmp_path)
    assert store.list() == []
    for id in (ID, pipe.stem):
        with pytest.raises(Unavailable):
            store.load(id)


@pytest.mark.parametrize("key", [None, KEY])
def test_a_file_of_any_size(tmp_path: Path, key: bytes | None) -> None:
    """A huge file that is not a snapshot is skipped in lists, and refused by `load`."""
    store, snapshot = FileStore(tmp_path, key), sample()
    store.save(snapshot)
    with open(tmp_path / f"{ID}.json", "wb") as file:
        file.truncate(1 << 40)
    assert [one.id for one in store.list()] == [snapshot.id]
    with pytest.raises(Unavailable, match="larger than any snapshot"):
        store.load(ID)


def test_a_list_does_not_read_what_is_no_document(tmp_path: Path) -> None:
    """Its first bytes tell."""
    (tmp_path / f"{ID}.json").write_bytes(bytes(1 << 20))
    limits = list[int | None]()

    class Watched(LocalFiles):
        def read(self, path: str, limit: int | None = None) -> bytes:
            limits.append(limit)
            return super().read(path, limit)

    assert FileStore(tmp_path, fs=Watched()).list() == []
    assert limits == [HEAD]


def test_newer_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot of a newer version, or in a newer form, is refused and says so."""
    path = tmp_path / f"{ID}.json"
    path.write_bytes(ORIGINAL.replace(b'"version": 1', b'"version": 2'))
    with pytest.raises(SchemaTooNew, match="format 2"):
        FileStore(tmp_path).load(ID)
    store = FileStore(tmp_path, KEY)
    with monkeypatch.context() as newer:
        newer.setattr("clew.snapshots.file_format._FORM", 2)
        store.save(new_snapshot(provider="claude").replace(id=ID))
    with pytest.raises(SchemaTooNew):
        store.load(ID)
    FileStore(tmp_path).save(new_snapshot(provider="claude").replace(id=ID))
    path.write_bytes(path.read_bytes().replace(b'"form":1', b'"form":2'))
    with pytest.raises(SchemaTooNew):
        FileStore(tmp_path).load(ID)


# -- listing


@pytest.mark.checklist("A24", "A32")
def test_a_list_passes_over_what_is_foreign(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Other names are logged at DEBUG, damaged files at WARNING; neither prevents a list."""
    logger = logging.getLogger("tests.snapshots")
    store, snapshot = FileStore(tmp_path, logger=logger), sample(messages=pictures(PICTURE))
    store.save(snapshot)
    for name in ("notes.txt", "README.json", f"{ID.upper()}.json", f"{ID}.json.bak", f"{ID}.json.0a.part"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "a folder").mkdir()
    (tmp_path / f"{ID}.json").write_text("{}")
    with caplog.at_level(logging.DEBUG, "tests.snapshots"):
        assert [validate_snapshot_id(one.id) for one in store.list()] == [snapshot.id]
    told = {(record.levelname, record.getMessage()) for record in caplog.records}
    assert len(told) == 7
    assert ("DEBUG", "'notes.txt' is not a snapshot") in told
    assert {text for level, text in told if level == "WARNING"} == {
        f"snapshot {ID} is skipped: snapshot {ID} is damaged: this is not a snapshot: it has no version"
    }


def test_one_random_file_hides_no_snapshot(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A file that no key opens is logged and skipped, even if all other snapshots are damaged."""
    logger = logging.getLogger("tests.snapshots")
    store, snapshot = FileStore(tmp_path, KEY, logger), sample()
    store.save(snapshot)
    (tmp_path / f"{ID}.json").write_bytes(bytes(range(255, 0, -1)) * 3)
    for _ in range(2):
        with caplog.at_level(logging.WARNING, "tests.snapshots"):
            assert [one.id for one in store.list()] == [snapshot.id]
        assert any(ID in record.getMessage() for record in caplog.records)
        caplog.clear()
    path = tmp_path / f"{snapshot.id}.json"
    data = bytearray(path.read_bytes())
    data[40] ^= 1  # in the head, after the id of the key
    path.write_bytes(data)
    with caplog.at_level(logging.WARNING, "tests.snapshots"):
        assert store.list() == []
    assert len(caplog.records) == 2
    with pytest.raises(WrongKey):
        FileStore(tmp_path, bytes(32)).list()


def test_nothing_that_opens_and_no_sign_of_the_key_is_an_error(tmp_path: Path) -> None:
    """A folder of another key never looks empty, whether or not its files name that key."""
    (tmp_path / f"{ID}.json").write_bytes(bytes(range(255, 0, -1)) * 3)
    with pytest.raises(WrongKey) as caught:
        FileStore(tmp_path, KEY).list()
    assert "damaged" in caught.value.hint
    FileStore(tmp_path, bytes(32)).save(sample())
    with pytest.raises(WrongKey):
        FileStore(tmp_path, KEY).list()


def test_a_damaged_beginning_is_damage_and_not_a_wrong_key(tmp_path: Path) -> None:
    """A flipped bit before the head, even in the key's id, is reported as damage: the rest opens with the key."""
    store, snapshot = FileStore(tmp_path, KEY), sample()
    store.save(snapshot)
    path = tmp_path / f"{snapshot.id}.json"
    data = path.read_bytes()
    for bit in range(21 * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        with pytest.raises(Corrupted):
            store.load(snapshot.id)
        assert store.list() == []


@pytest.mark.checklist("A16")
@pytest.mark.parametrize("key", [None, KEY])
def test_a_list_reads_the_beginning(key: bytes | None) -> None:
    """Of files that clew wrote no more than the beginning is read, however long they are."""

    class Counting(MemoryFiles):
        limits: ClassVar[list[int | None]] = []

        def read(self, path: str, limit: int | None = None) -> bytes:
            self.limits.append(limit)
            return super().read(path, limit)

    fs = Counting()
    store = FileStore("/s", key, fs=fs)
    for _ in range(5):
        store.save(sample(messages=pictures(*["short"] * 10_000)))
    fs.limits.clear()
    assert [one.message_count for one in store.list()] == [10_000] * 5
    assert fs.limits == [HEAD] * 5


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    """A store without a folder is empty; one whose folder cannot be read says so."""
    assert FileStore(tmp_path / "none").list() == []
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable):
        FileStore(tmp_path / "file").list()


# -- media


@pytest.mark.parametrize("key", [None, KEY])
def test_media_have_files_of_their_own(tmp_path: Path, key: bytes | None) -> None:
    """A large image is stored once for all snapshots, and deleted with the last one that uses it."""
    store = FileStore(tmp_path, key)
    one, other = sample(messages=pictures(PICTURE, "x", PICTURE)), sample(messages=pictures(PICTURE, PICTURE[16:]))
    store.save(one)
    store.save(other)
    media = tmp_path / "media"
    assert len(list(media.iterdir())) == 2
    assert (tmp_path / f"{one.id}.json").stat().st_size < 2_000
    assert store.load(one.id) == one
    assert store.load(other.id) == other
    assert 2_000 < {summary.id: summary.token_count for summary in store.list()}[other.id] < 2_200
    store.save(other.replace(messages=pictures(PICTURE)))
    assert len(list(media.iterdir())) == 1
    store.delete(other.id)
    assert store.load(one.id) == one
    store.delete(one.id)
    assert list(media.iterdir()) == []
    if key is not None:
        assert b"clew media" not in b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_names_of_sealed_media_say_nothing(tmp_path: Path) -> None:
    """With a key, neither the name nor the bytes of a medium can be compared with a picture that one has."""
    names = list[str]()
    for key in (KEY, bytes(32), None):
        folder = tmp_path / str(len(names))
        FileStore(folder, key).save(sample(messages=pictures(PICTURE)))
        (path,) = (folder / "media").iterdir()
        names.append(path.name)
        assert (b"IHDR" in path.read_bytes() or b"PNG" in path.read_bytes()) == (key is None)
    assert len(set(names)) == 3


@pytest.mark.parametrize("key", [None, KEY])
def test_damaged_and_missing_media(tmp_path: Path, key: bytes | None) -> None:
    """A snapshot with a missing or changed image does not load; the others do."""
    store, bad, good = FileStore(tmp_path, key), sample(messages=pictures(PICTURE)), sample()
    store.save(bad)
    store.save(good)
    (path,) = (tmp_path / "media").iterdir()
    data = bytearray(path.read_bytes())
    for broken in (data[:-1] + bytes([data[-1] ^ 1]), b"", data[1:]):
        path.write_bytes(broken)
        with pytest.raises(Corrupted):
            store.load(bad.id)
    path.unlink()
    with pytest.raises(Corrupted, match="missing"):
        store.load(bad.id)
    assert store.load(good.id) == good


def test_media_stay_while_a_snapshot_cannot_be_read(tmp_path: Path) -> None:
    """No media are removed while a damaged snapshot may use them."""
    store, one, other = FileStore(tmp_path), sample(messages=pictures(PICTURE)), sample()
    store.save(one)
    store.save(other)
    path = tmp_path / f"{other.id}.json"
    data = path.read_bytes()
    path.write_bytes(b"{}")
    store.delete(one.id)
    assert len(list((tmp_path / "media").iterdir())) == 1
    path.write_bytes(data)
    store.delete(other.id)
    assert list((tmp_path / "media").iterdir()) == []


def test_files_that_are_not_the_stores(tmp_path: Path) -> None:
    """Removing media deletes unused media and their temporary files, and no other files."""
    store, snapshot = FileStore(tmp_path), sample(messages=pictures(PICTURE))
    store.save(snapshot)
    media = tmp_path / "media"
    left = media / f"{'a' * 64}.0123456789ab.part"
    for path in (left, media / "notes.txt", media / f"{'a' * 64}.txt", media / ("A" * 64)):
        path.write_text("")
    (media / "folder").mkdir()
    store.delete(snapshot.id)
    assert sorted(path.name for path in media.iterdir()) == ["A" * 64, f"{'a' * 64}.txt", "folder", "notes.txt"]


def test_media_are_not_elsewhere(tmp_path: Path) -> None:
    """A link in the place of their folder is refused: nothing behind it is written or removed."""
    outside, store, one = tmp_path / "outside", FileStore(tmp_path / "store"), sample()
    store.save(one)
    outside.mkdir()
    (outside / ("a" * 64)).write_text("precious")
    (tmp_path / "store" / "media").symlink_to(outside)
    for work in (lambda: store.save(sample(messages=pictures(PICTURE))), lambda: store.delete(one.id)):
        with pytest.raises(Unavailable, match=r"media.*link"):
            work()
    assert [path.name for path in outside.iterdir()] == ["a" * 64]
    assert store.load(one.id) == one


def test_a_snapshot_that_is_saved_while_it_is_loaded(tmp_path: Path) -> None:
    """If its image was removed meanwhile by another save, the present version is loaded."""
    old, store = sample(messages=pictures(PICTURE)), FileStore(tmp_path)
    new = old.replace(messages=b"[]")

    class Late(LocalFiles):
        def read(self, path: str, limit: int | None = None) -> bytes:
            found = super().read(path, limit)
            if path.endswith(".json"):
                store.save(new)
            return found

    store.save(old)
    assert FileStore(tmp_path, fs=Late()).load(old.id) == new


def test_many_media(tmp_path: Path) -> None:
    """A head that is longer than a list's first look is read whole."""
    store = FileStore(tmp_path)
    snapshot = sample(messages=pictures(*[f"{number:04d}" * 16_384 for number in range(100)]))
    store.save(snapshot)
    assert store.load(snapshot.id) == snapshot
    assert store.list()[0].message_count == 100
    store.delete(snapshot.id)
    assert list((tmp_path / "media").iterdir()) == []


# -- faults


def test_a_failed_save_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the disk is full or broken, the error says so, the old snapshot is there, and no rest is left."""
    store, snapshot = FileStore(tmp_path), sample()
    store.save(snapshot)
    for number, kind in ((28, StorageFull), (5, Unavailable), (30, ReadOnly)):

        def fails(fd: int, number: int = number) -> None:
            raise OSError(number, os.strerror(number))

        with monkeypatch.context() as patch:
            patch.setattr(files, "sync", fails)
            with pytest.raises(kind):
                store.save(snapshot.replace(model="new"))
        assert store.load(snapshot.id) == snapshot
        assert [path.name for path in tmp_path.iterdir()] == [f"{snapshot.id}.json"]


def test_a_delete_takes_what_a_crash_left(tmp_path: Path) -> None:
    """Parts of a snapshot that were never finished go with it; those of others stay."""
    store, snapshot = FileStore(tmp_path), sample()
    store.save(snapshot)
    (tmp_path / f"{snapshot.id}.json.00ff.part").write_bytes(b"half")
    (tmp_path / f"{ID}.json.00ff.part").write_bytes(b"half")
    store.delete(snapshot.id)
    assert [path.name for path in tmp_path.iterdir()] == [f"{ID}.json.00ff.part"]


def _save_for_ever(folder: str, id: str) -> None:
    store = FileStore(folder, KEY)
    for number in range(1_000_000):
        store.save(
            new_snapshot(provider="claude", messages=b'["%d"]' % number * 1, metadata={"n": str(number)}).replace(id=id)
        )


def test_a_killed_writer(tmp_path: Path) -> None:
    """A program that is killed while it saves leaves a snapshot that is whole: twenty times."""
    store, seen = FileStore(tmp_path, KEY), 0
    store.save(new_snapshot(provider="claude", messages=b'["0"]', metadata={"n": "0"}).replace(id=ID))
    context = multiprocessing.get_context("fork")
    for _ in range(20):
        writer = context.Process(target=_save_for_ever, args=(str(tmp_path), ID))
        writer.start()
        writer.join(0.03)
        assert writer.pid is not None
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
        loaded = store.load(ID)
        assert loaded.messages == b'["%s"]' % loaded.metadata["n"].encode()
        seen += int(loaded.metadata["n"]) > 0
    assert seen


def test_a_name_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is synced before it takes its name, and the folder after; also when one is removed."""
    done: list[str] = []
    replace = os.replace
    monkeypatch.setattr(files, "sync", lambda fd: done.append("file"))
    monkeypatch.setattr(files, "sync_folder", lambda folder: done.append(f"folder {folder}"))

    def named(*names: str) -> None:
        done.append("name")
        replace(*names)

    monkeypatch.setattr(os, "replace", named)
    store, snapshot = FileStore(tmp_path), sample()
    store.save(snapshot)
    assert done == ["file", "name", f"folder {tmp_path}"]
    done.clear()
    store.delete(snapshot.id)
    assert done == [f"folder {tmp_path}"]


# -- what it is given


@pytest.mark.checklist("A24")
@pytest.mark.parametrize("key", [b"", bytes(16), bytes(31), bytes(33), "x" * 32, 7])
def test_keys_of_another_size(key: Any) -> None:
    """A key has 32 bytes; the error tells what was wanted and what was given, and not the key."""
    with pytest.raises(Invalid, match="32 bytes") as caught:
        FileStore("x", key)
    if isinstance(key, bytes):
        assert f"this one has {len(key)}" in caught.value.message
        assert repr(key)[2:-1] not in str(caught.value) or not key


@pytest.mark.checklist("A28")
def test_keys_are_random() -> None:
    """Each key is another one."""
    assert len(generate_key()) == 32
    assert generate_key() != generate_key()


@pytest.mark.checklist("A25")
@pytest.mark.parametrize("directory", ["~", "~/conversations", "~user/x", "a\0b", None, 7])
def test_directories(directory: Any) -> None:
    """A tilde is not expanded, and not taken for the name of a folder either."""
    with pytest.raises(Invalid):
        FileStore(directory)


def test_a_store_says_where_it_is(tmp_path: Path) -> None:
    """Its repr has the folder, and nothing of the key."""
    assert repr(FileStore(tmp_path, KEY)) == f"<FileStore {tmp_path}>"


def test_a_missing_medium_file_system() -> None:
    """The file system in memory tells what is missing as the real one does."""
    for fs, folder in ((MemoryFiles(), "/nowhere"), (LocalFiles(), "/nowhere/at/all")):
        for call in (lambda: fs.read(f"{folder}/x"), lambda: fs.names(folder), lambda: fs.remove(f"{folder}/x")):
            with pytest.raises(FileNotFoundError):
                call()
        with pytest.raises(FileNotFoundError):
            fs.replace(f"{folder}/x", b"")


def test_odd_bytes_survive_every_way(tmp_path: Path) -> None:
    """From one store to another, plain to encrypted to compatible, the messages stay byte for byte."""
    snapshot = sample()
    ways: list[dict[str, Any]] = [{}, {"key": KEY}, {"compatible": True}, {"key": KEY, "compatible": True}]
    for number, options in enumerate(ways):
        store = FileStore(tmp_path / str(number), **options)
        store.save(snapshot)
        snapshot = store.load(snapshot.id)
    assert snapshot.messages == ODD
    with pytest.raises(NotFound):
        FileStore(tmp_path).load(snapshot.id)
