"""Snapshots in buckets: the contract, and what happens when several programs save the same one."""

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.errors import ClewError, Conflict, Corrupted, Invalid, NotFound, Unavailable, WrongKey
from clew.snapshots import FileStore, ObjectStore, SnapshotStore, new_snapshot
from clew.snapshots.file_format import HEAD
from clew.testing.snapshots import SnapshotConformance, sample
from tests.snapshots.bucket import Bucket, served

KEY = bytes(range(32))
ID = "7d444840-9dc0-41d1-b245-5ffdce74fad2"


def on(bucket: Bucket, key: bytes | None = None, **more: Any) -> ObjectStore:
    config = {"endpoint": bucket.url, "access_key_id": "a", "secret_access_key": "b", "region": "us-east-1"}
    options = {"allow_http": True}
    return ObjectStore(
        "s3://bucket/team/talks", key, config=config, client_options=options, retry_config={"max_retries": 0}, **more
    )


@pytest.fixture
def bucket() -> Iterator[Bucket]:
    with served() as made:
        yield made


class TestMemory(SnapshotConformance):
    def store(self, tmp_path: Path) -> SnapshotStore:
        return ObjectStore("memory:///")


class TestFolder(SnapshotConformance):
    def store(self, tmp_path: Path) -> SnapshotStore:
        return ObjectStore(f"file://{tmp_path}/a%20folder/deep", KEY)


class TestS3(SnapshotConformance):
    @pytest.fixture(autouse=True)
    def serving(self, bucket: Bucket) -> None:
        self.bucket = bucket

    def store(self, tmp_path: Path) -> SnapshotStore:
        return on(self.bucket, KEY)


def test_keys_of_objects(bucket: Bucket) -> None:
    """An object is named by the prefix and the id, and holds what a file would."""
    store, snapshot = on(bucket, KEY), sample()
    store.save(snapshot)
    assert list(bucket.objects) == [f"team/talks/{snapshot.id}.json"]
    assert b"claude" not in bucket.objects[f"team/talks/{snapshot.id}.json"]


def test_the_second_to_save_is_told(bucket: Bucket) -> None:
    """Two programs have loaded a snapshot; the one that saves later gets a Conflict, and nothing is lost."""
    mine, theirs, snapshot = on(bucket), on(bucket), sample()
    mine.save(snapshot)
    theirs.load(snapshot.id)
    theirs.save(snapshot.replace(model="theirs"))
    for _ in range(2):
        with pytest.raises(Conflict, match=snapshot.id):
            mine.save(snapshot.replace(model="mine"))
    assert mine.load(snapshot.id).model == "theirs"
    mine.save(snapshot.replace(model="mine"))
    assert theirs.list()[0].model == "mine"
    theirs.delete(snapshot.id)
    with pytest.raises(Conflict):
        mine.save(snapshot)


def test_the_second_to_save_in_a_folder_is_told(tmp_path: Path) -> None:
    """A folder is a bucket like others: the later save gets a Conflict, also if another program deleted the file."""
    mine, theirs, snapshot = ObjectStore(tmp_path.as_uri()), ObjectStore(tmp_path.as_uri(), KEY), sample()
    mine.save(snapshot)
    mine.save(snapshot.replace(model="again"))
    theirs.save(snapshot.replace(model="theirs"))  # never loaded: overwritten
    with pytest.raises(Conflict, match=snapshot.id):
        mine.save(snapshot.replace(model="mine"))
    assert theirs.load(snapshot.id).model == "theirs"
    theirs.delete(snapshot.id)
    with pytest.raises(Conflict):
        mine.save(snapshot)
    assert theirs.list() == []


def test_a_save_in_a_folder_that_failed_late_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a file was replaced and only the sync of its folder failed, saving again is no conflict."""
    store, snapshot = ObjectStore(tmp_path.as_uri()), sample()
    store.save(snapshot)
    with monkeypatch.context() as patch:
        patch.setattr("clew.base.files.sync_folder", lambda _: (_ for _ in ()).throw(OSError(5, "no sync")))
        with pytest.raises(ClewError):
            store.save(snapshot.replace(model="second"))
    assert store.list()[0].model == "second"
    store.save(snapshot.replace(model="third"))
    assert store.load(snapshot.id).model == "third"


@pytest.mark.parametrize("key", [None, KEY])
def test_an_answer_that_was_lost(bucket: Bucket, key: bytes | None) -> None:
    """Saving again after an error does not conflict with the own upload, but with any other."""
    mine, theirs, snapshot = on(bucket, key), on(bucket, key), sample()
    mine.save(snapshot)
    bucket.lose = 2
    for model in ("second", "third"):
        with pytest.raises(Unavailable):
            mine.save(snapshot.replace(model=model))
    mine.save(snapshot.replace(model="fourth"))
    assert theirs.load(snapshot.id).model == "fourth"
    bucket.lose = 1
    with pytest.raises(Unavailable):
        mine.save(snapshot.replace(model="fifth"))
    theirs.load(snapshot.id)
    theirs.save(snapshot.replace(model="theirs"))
    with pytest.raises(Conflict):
        mine.save(snapshot.replace(model="sixth"))
    assert theirs.load(snapshot.id).model == "theirs"


def test_in_memory_writes_are_conditional(bucket: Bucket) -> None:
    """The condition is sent from the second save on."""
    store, snapshot = on(bucket), sample()
    store.save(snapshot)
    store.save(snapshot.replace(model="again"))
    puts = [condition for verb, _, condition in bucket.asked if verb == "PUT"]
    assert puts[0] == ""
    assert puts[1].startswith('if-match "')


def test_a_list_reads_the_beginning(bucket: Bucket) -> None:
    """Of each object no more than the beginning is asked for."""
    store = on(bucket)
    for _ in range(3):
        store.save(sample(messages=b"[" + b",".join([b'"word"'] * 10_000) + b"]"))
    bucket.asked.clear()
    assert [one.message_count for one in store.list()] == [10_000] * 3
    assert [asked for verb, key, asked in bucket.asked if key.endswith(".json")] == [f"bytes=0-{HEAD - 1}"] * 3


def test_a_list_passes_over_what_is_foreign(bucket: Bucket, caplog: pytest.LogCaptureFixture) -> None:
    """Other names, empty and damaged objects are logged and skipped; with a wrong key the list is not empty."""
    logger = logging.getLogger("tests.snapshots")
    store, snapshot = on(bucket, KEY, logger=logger), sample()
    store.save(snapshot)
    bucket.objects |= {
        "team/talks/readme.txt": b"x",
        f"team/talks/deep/{ID}.json": b"{}",
        f"team/talks/{ID}.json": b"",
        f"team/talks/{ID[:-1]}0.json": b"garbage",
        f"team/talks/{ID[:-1]}1.json": bucket.objects[f"team/talks/{snapshot.id}.json"],
    }
    with caplog.at_level(logging.DEBUG, "tests.snapshots"):
        assert [one.id for one in store.list()] == [snapshot.id]
    assert sorted(record.levelname for record in caplog.records) == ["DEBUG"] * 2 + ["WARNING"] * 3
    with pytest.raises(WrongKey):
        on(bucket, bytes(32)).list()


def test_what_the_original_wrote(bucket: Bucket) -> None:
    """Objects in the original's form are read, and written if asked for."""
    snapshot = sample()
    on(bucket, KEY, compatible=True).save(snapshot)
    assert on(bucket, KEY).load(snapshot.id) == snapshot
    assert on(bucket, KEY).list()[0].message_count == 2


def test_a_file_with_media_is_not_whole_without_them(bucket: Bucket, tmp_path: Path) -> None:
    """A file that was copied from a folder without its media does not load as if there were none."""
    snapshot = sample(messages=b'["' + b"QUJD" * 50_000 + b'"]')
    FileStore(tmp_path).save(snapshot)
    bucket.objects[f"team/talks/{snapshot.id}.json"] = (tmp_path / f"{snapshot.id}.json").read_bytes()
    with pytest.raises(Corrupted):
        on(bucket).load(snapshot.id)


@pytest.mark.parametrize(
    ("status", "words"), [(403, "denied access"), (401, "denied access"), (500, "cannot be reached")]
)
def test_refusals(bucket: Bucket, status: int, words: str) -> None:
    """Errors of the bucket are Unavailable with a hint, never an empty result."""
    store, snapshot = on(bucket), sample()
    store.save(snapshot)
    bucket.refuse = status
    with pytest.raises(Unavailable):
        store.list()
    for call in (
        lambda: store.load(snapshot.id),
        lambda: store.delete(snapshot.id),
        lambda: store.save(snapshot),
    ):
        with pytest.raises(Unavailable, match=words):
            call()


def test_nobody_there() -> None:
    """A bucket that cannot be reached is Unavailable."""
    with served() as bucket:
        store = on(bucket)
    with pytest.raises(Unavailable):
        store.load(ID)


def test_a_folder_is_private_and_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bucket that is a folder keeps others out, and what it has saved is on the disk."""
    synced: list[int] = []
    monkeypatch.setattr("clew.base.files.sync", synced.append)
    store, snapshot = ObjectStore(f"file://{tmp_path}/talks"), sample()
    before = os.umask(0)
    try:
        store.save(snapshot)
    finally:
        os.umask(before)
    assert len(synced) == 1
    assert stat.S_IMODE((tmp_path / "talks").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "talks" / f"{snapshot.id}.json").stat().st_mode) == 0o600
    assert FileStore(tmp_path / "talks").load(snapshot.id) == snapshot


@pytest.mark.parametrize("url", ["", "bucket", "ftp://a/b", "https://example.org/x", "s3://", None, "az://"])
def test_urls(url: Any) -> None:
    """Anything else than a bucket's URL is refused."""
    with pytest.raises(Invalid):
        ObjectStore(url)


def test_other_clouds() -> None:
    """Google's and Azure's buckets are named likewise; nothing is asked of them until it is needed."""
    account = {"account_name": "a", "account_key": "YQ=="}
    assert "gs://b/p" in repr(ObjectStore("gs://b/p", config={"skip_signature": True}))
    assert "az://c/p" in repr(ObjectStore("az://c/p", config=account))


def test_the_repr_has_no_secret(bucket: Bucket) -> None:
    """Credentials and the key are not shown."""
    assert repr(on(bucket, KEY)) == "<ObjectStore s3://bucket/team/talks>"
    with pytest.raises(NotFound):
        on(bucket).load(new_snapshot(provider="x").id)
