"""Blobs in object storage: where they go, what is told when they cannot be had, and what is removed."""

from __future__ import annotations

import sqlite3
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

import pytest

import clew
from clew.base.buckets import OVER, Bucket
from clew.engine.blobs import CHUNK
from clew.errors import Corrupted, Invalid, NotFound, Unavailable
from clew.store.session import delete_session
from clew.store.store import Store
from clew.testing import FakeClock
from tests.engine.objects.proxy import Proxy
from tests.engine.objects.server import NodeLocation

KEY = bytes(range(32))
each_key = pytest.mark.parametrize("key", [None, KEY], ids=["plain", "sealed"])
LARGE = b"what was said in confidence " * 25_000  # three pieces


def attached(store: Store, content: bytes = LARGE, title: str = "t") -> tuple[clew.Session, str]:
    """A session that shows a blob."""
    session = store.sessions.create(title=title)
    media = session.attach(content, mime_type="application/pdf", modality="document")
    session.append(clew.user("look", media))
    return session, media.blob or ""


def rows(path: Path) -> dict[str, int]:
    with closing(sqlite3.connect(path)) as conn:
        return {
            table: conn.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("blobs", "chunks", "objects")
        }


@pytest.mark.parametrize(("size", "outside"), [(OVER - 1, 0), (OVER, 1), (OVER + CHUNK + 1, 1)])
def test_from_a_size_on(path: Path, place: NodeLocation, size: int, outside: int) -> None:
    """From 1 MiB on a blob is an object, and no row has any of it; below, it is rows, and there is no object."""
    content = bytes(size)
    with clew.open(path, blobs=place.open(over=OVER)) as store:
        session, digest = attached(store, content)
        assert session.blobs.get(digest) == content
        assert session.blobs.stat(digest).size == size
        assert store.verify().ok
    assert len(place.names()) == rows(path)["objects"] == outside
    assert bool(rows(path)["chunks"]) == (not outside)


@each_key
def test_a_stream_in_parts(path: Path, place: NodeLocation, key: bytes | None) -> None:
    """A blob of many parts is sent and read as a stream, in little memory, and leaves no upload open."""
    pieces, size = 160, 300_000

    def stream() -> Iterator[bytes]:
        for number in range(pieces):
            yield number.to_bytes(4, "big") * (size // 4)

    with clew.open(path, key=key, blobs=place.open()) as store:
        session = store.sessions.create()
        session.blobs.put(b"\1" * 2000)  # what is loaded once
        tracemalloc.start()
        blob = session.blobs.put(stream())
        read = sha256()
        for piece in session.blobs.open(blob.digest):
            read.update(piece)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert (blob.size, blob.digest) == (pieces * size, read.hexdigest())
    assert place.unfinished() == 0
    assert peak < 24 << 20  # parts on their way, and nothing that grows


def test_in_a_transaction_it_stays_inside(path: Path, place: NodeLocation) -> None:
    """What is put in a transaction is rows: nobody waits for a network meanwhile, and it can be undone."""
    with clew.open(path, blobs=place.open()) as store, store.transaction():
        attached(store)
    assert place.names() == []
    assert rows(path)["objects"] == 0


@each_key
def test_a_store_opened_without(path: Path, place: NodeLocation, key: bytes | None) -> None:
    """Without object storage everything else works; what lies there is told apart from what is damaged."""
    with clew.open(path, key=key, blobs=place.open()) as store:
        session, digest = attached(store)
    with clew.open(path, key=key) as store:
        again = store.sessions.get(session.id)
        with pytest.raises(Unavailable, match="opened without") as error:
            again.blobs.open(digest)
        assert "CLEW_BLOBS" in error.value.hint
        assert again.blobs.stat(digest).size == len(LARGE)
        again.append(clew.user("and on"))
        small = again.blobs.put(b"x" * 5000)
        assert again.blobs.get(small.digest) == b"x" * 5000
        report = store.verify()
        assert (report.ok, report.counts["unread"]) == (True, 1)
        if key is not None:
            with pytest.raises(Unavailable):
                store.rotate(bytes(32), deep=True)
            assert store.key_status().state == "sealed"
    with clew.open(path, key=key, blobs=place.open()) as store:
        assert store.sessions.get(session.id).blobs.get(digest) == LARGE
        assert "unread" not in store.verify().counts


@each_key
def test_what_is_changed_or_missing(path: Path, place: NodeLocation, key: bytes | None) -> None:
    """An object that is changed anywhere, cut, longer, of another blob, or missing is Corrupted; verify names it."""
    with clew.open(path, key=key, blobs=place.open()) as store:
        session, digest = attached(store)
        other, _ = attached(store, LARGE[::-1], "other")
        one, two = place.names()
        kept = {name: place.get(name) for name in (one, two)}
        whole = kept[one]
        damages = [whole[:-1], whole[:300_000], b"", whole + b"\0", kept[two]]
        for at in (0, 9, 12, 16, 60, 300_000, len(whole) - 1):
            damages.append(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        for damage in damages:
            place.put(one, damage)
            assert find(store) is not None
        place.delete(one)
        assert "missing" in str(find(store))
        place.put(one, whole)
        assert store.verify().ok
        assert session.blobs.get(digest) == LARGE
        assert other.path()[0].text == "look"


@each_key
@pytest.mark.parametrize(
    "change",
    ["DELETE FROM objects", "UPDATE objects SET name = randomblob(32)", "UPDATE objects SET name = x'00'",
     "UPDATE objects SET blob = NULL", "UPDATE objects SET blob = 99", "UPDATE objects SET size = size - 1",
     "UPDATE objects SET size = 0", "UPDATE objects SET size = 'many'",
     "INSERT INTO objects SELECT randomblob(32), blob, size, created_at FROM objects",
     "INSERT INTO chunks SELECT blob << 24, x'00' FROM objects"],
)  # fmt: skip
def test_a_note_that_was_changed(path: Path, place: NodeLocation, key: bytes | None, change: str) -> None:
    """What the store says of an object can be changed behind its back, and verify says so."""
    with clew.open(path, key=key, blobs=place.open()) as store:
        session, digest = attached(store)
    with closing(sqlite3.connect(path)) as conn:
        conn.execute(change)
        conn.commit()
    with clew.open(path, key=key, blobs=place.open(), tidy=False) as store:
        assert {one.what for one in store.verify().damage} & {"blob", "object"}
        if "INSERT" not in change:
            with pytest.raises(Corrupted):
                store.sessions.get(session.id).blobs.get(digest)


def find(store: Store) -> str | None:
    """What verify and reading say of the damaged one of two blobs; None if either says nothing."""
    damage = store.verify().damage
    read = []
    for session in store.sessions.list().items:
        media = session.path()[0].message.blocks[1]
        assert isinstance(media, clew.Media)
        try:
            session.blobs.get(media.blob or "")
        except Corrupted as error:
            read.append(error.message)
    assert len(read) == 1, read
    return damage[0].why if [one.what for one in damage] == ["blob"] and damage[0].session else None


def test_a_wrong_place_is_not_damage(path: Path, place: NodeLocation) -> None:
    """Another bucket or prefix, in which the store has nothing, is Unavailable: nothing is said to be damaged."""
    with clew.open(path, blobs=place.open()) as store:
        session, digest = attached(store)
    nowhere = NodeLocation(place.server, "no-such-bucket").open()
    for wrong in (place.open(prefix="elsewhere"), nowhere):
        with clew.open(path, blobs=wrong) as store:
            with pytest.raises(Unavailable, match="no objects of this store"):
                store.sessions.get(session.id).blobs.get(digest)
            with pytest.raises(Unavailable):
                store.verify()
    with clew.open(path, blobs=nowhere) as store, pytest.raises(Unavailable, match="no-such-bucket"):
        store.sessions.create().blobs.put(LARGE)


@pytest.mark.parametrize(("up", "down"), [(100, None), (400_000, None), (None, 10)])
def test_a_link_that_breaks(path: Path, place: NodeLocation, up: int | None, down: int | None) -> None:
    """While the link breaks, a put or a read is Unavailable, and nothing is half there; then the same call works."""
    proxy = Proxy(place.server.port)
    try:
        with clew.open(path, blobs=place.open(port=proxy.port)) as store:
            session, digest = attached(store)
            proxy.up, proxy.down = up, down
            for content in (LARGE[::-1], LARGE * 15):  # at once, and in parts
                with pytest.raises(Unavailable):
                    session.blobs.put(content)
            assert proxy.cuts
            if down is not None:
                with pytest.raises(Unavailable):
                    session.blobs.get(digest)
                with pytest.raises(Unavailable):
                    store.verify()
            proxy.up = proxy.down = None
            assert store.verify().counts["blobs"] == 1
            blob = session.blobs.put(LARGE[::-1])
            assert session.blobs.get(blob.digest) == LARGE[::-1]
            assert session.blobs.get(digest) == LARGE
            assert len(place.names()) == 2  # what the broken ones may have left is gone
            assert store.verify().ok
    finally:
        proxy.close()


def test_a_source_that_fails(path: Path, place: NodeLocation) -> None:
    """An error of the source is what the caller gets, and nothing of the blob stays."""

    def broken(error: Exception) -> Iterator[bytes]:
        yield LARGE
        raise error

    with clew.open(path, blobs=place.open()) as store:
        session = store.sessions.create()
        for error in (FileNotFoundError("unplugged"), NotFound("page", "7"), ZeroDivisionError()):
            with pytest.raises(type(error)) as raised:
                session.blobs.put(broken(error))
            assert raised.value is error
        with pytest.raises(Invalid):
            session.blobs.put([LARGE, "text"])  # type: ignore[list-item]
    assert (place.names(), rows(path)) == ([], {"blobs": 0, "chunks": 0, "objects": 0})


def test_what_the_bucket_shows_of_a_sealed_store(path: Path, place: NodeLocation) -> None:
    """No word, no digest and no equality: the same file in two sessions is two objects with nothing in common."""
    with clew.open(path, key=KEY, blobs=place.open()) as store:
        _, digest = attached(store)
        attached(store)
        first, second = (place.get(name) for name in place.names())
        assert len(first) == len(second)
        for one in (first, second):
            assert b"confidence" not in one
            assert one[:10] == b"clew blob\x01"
        assert {first[at : at + 16] for at in range(40, 2000)}.isdisjoint(
            {second[at : at + 16] for at in range(40, 2000)}
        )
        shown = " ".join(place.names())
        assert digest not in shown
        assert store._engine.lookup_hash("blob", digest.encode()).hex() not in shown


def test_deleted_and_purged(path: Path, place: NodeLocation) -> None:
    """A purge removes objects at once, and says what a bucket may keep; a deletion does at the close."""
    with clew.open(path, blobs=place.open()) as store:
        session, digest = attached(store)
        fork = session.fork()
        receipt = store.sessions.purge(session.id)
        assert (receipt.outside, receipt.beyond, len(place.names())) == (0, (), 1)
        assert fork.blobs.get(digest) == LARGE
        would = store.sessions.purge(fork.id, dry_run=True)
        assert len(place.names()) == 1
        receipt = store.sessions.purge(fork.id)
        assert would.outside == receipt.outside > len(LARGE)
        assert (receipt.blobs, receipt.pending, receipt.beyond) == (1, (), ("versions", "replicas"))
        assert place.names() == []
        delete_session(attached(store)[0])
        assert len(place.names()) == 1
    assert place.names() == []
    assert rows(path)["objects"] == 0


def test_a_purge_without_the_bucket_is_finished_later(path: Path, place: NodeLocation) -> None:
    """Rows go, and the receipt says that objects are pending; whoever opens the store with them finishes it."""
    with clew.open(path, blobs=place.open()) as store:
        session, _ = attached(store)
    with clew.open(path) as store:
        receipt = store.sessions.purge(session.id)
        assert (receipt.sessions, receipt.pending, receipt.finished_at) == ((session.id,), ("objects",), None)
        assert store.key_status().unclean
        assert not store._engine.cleanup.pending  # writes do not wait for a bucket
    with clew.open(path, blobs=place.open(port=1)) as store:
        store.sessions.create()
    assert len(place.names()) == 1
    with clew.open(path, blobs=place.open()) as store:
        assert store.sessions.receipts()[0].pending == ("objects",)
        attached(store, LARGE[::-1])  # which removes what is left, too
        assert len(place.names()) == 1
    assert len(place.names()) == 1
    with clew.open(path) as store:
        (receipt,) = store.sessions.receipts()
        assert (receipt.pending, receipt.outside > len(LARGE)) == ((), True)
        assert receipt.finished_at is not None
        assert not store.key_status().unclean


def test_a_deletion_that_is_undone_removes_nothing(path: Path, place: NodeLocation) -> None:
    """What a transaction deletes and takes back stays, whatever else is cleared meanwhile."""
    with clew.open(path, blobs=place.open()) as store:
        session, digest = attached(store)
        with pytest.raises(ZeroDivisionError), store.transaction():
            delete_session(session)
            with pytest.raises(Invalid):
                store.blobs.sweep()
            raise ZeroDivisionError
        attached(store, LARGE[::-1])
        assert session.blobs.get(digest) == LARGE


def test_a_blob_deleted_while_it_is_read(path: Path, place: NodeLocation) -> None:
    """The reader is told that it is gone, and not that it is damaged."""
    with clew.open(path, blobs=place.open()) as store:
        session, digest = attached(store, LARGE * 5)
        pieces = session.blobs.open(digest)
        next(pieces)
        store.sessions.purge(session.id)
        with pytest.raises(NotFound, match="deleted while"):
            list(pieces)


def test_strays(path: Path, place: NodeLocation) -> None:
    """A sweep finds objects of this store that it does not know, if they are old enough, and touches nothing else."""
    with clew.open(path, blobs=place.open()) as store:
        session, digest = attached(store)
        (known,) = place.names()
        folder = known.rpartition("/")[0]
        strange = [
            f"{folder}/notes.txt",
            "team/blobs/other/thing",
            f"{folder.rpartition('/')[0]}/{'ab' * 16}/{'cd' * 16}",
        ]
        for name in (f"{folder}/{'ab' * 16}", *strange):
            place.put(name, b"x" * 10)
        assert store.blobs.sweep() == (0, 0)
        assert store.blobs.sweep(older=timedelta(0), dry_run=True) == (1, 10)
        assert len(place.names()) == 5
        assert store.blobs.sweep(older=timedelta(0)) == (1, 10)
        assert sorted(place.names()) == sorted([known, *strange])
        assert session.blobs.get(digest) == LARGE
        with pytest.raises(Invalid):
            store.blobs.sweep(older=timedelta(-1))
    with clew.open(path) as store, pytest.raises(Unavailable):
        store.blobs.sweep()


def test_an_upload_that_was_never_finished(path: Path, place: NodeLocation) -> None:
    """What a crash left goes a day later, with the next blob that is put; until then it may be somebody's upload."""
    clock = FakeClock()
    with clew.open(path, blobs=place.open(), clock=clock) as store:
        session, _ = attached(store)
        blobs, name = session.blobs, b"n" * 32
        store._engine.write(lambda tx: blobs._stage(tx, blobs._tree(), name))
        place.put(f"team/blobs/{store._engine.store_id.hex()}/{name[:16].hex()}/{name[16:].hex()}", b"half of it")
        blobs.put(LARGE[::-1])
        assert (len(place.names()), store.blobs.sweep(dry_run=True).objects) == (3, 0)
        clock.advance(25 * 3600 * 1_000_000)
        blobs.put(LARGE[1:])
        assert len(place.names()) == 3
        assert rows(path)["objects"] == 3


@pytest.mark.parametrize(
    "url", ["bucket", "ftp://b/x", "s3://key:secret@bucket/x", "s3://bucket/x?token=secret", "memory:///", 5]
)  # fmt: skip
def test_what_is_no_bucket(path: Path, url: str) -> None:
    """A bucket is a URL with nothing but scheme, name and prefix; what might be a secret is not repeated."""
    with pytest.raises(Invalid) as error:
        clew.open(path, blobs=url)
    assert "secret" not in str(error.value)
    assert not path.exists()


def test_a_size_is_a_number(tmp_path: Path) -> None:
    """From how many bytes on is a whole number."""
    for over in (0, -1, True, 1.5, "1"):
        with pytest.raises(Invalid):
            Bucket(tmp_path.as_uri(), over=over)  # type: ignore[arg-type]


@pytest.mark.parametrize("url", ["file://objects", "file://objects/of/mine", "file:", "file://"])
def test_a_folder_is_named_whole(url: str) -> None:
    """What looks like a name beside this folder would be one right under the root, or this folder itself."""
    with pytest.raises(Invalid, match="absolute path"):
        Bucket(url)
