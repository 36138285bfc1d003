"""Copying a store whose blobs lie in object storage: into that of the copy, or into its rows; also without the key."""

from __future__ import annotations

from pathlib import Path

import pytest

import clew
from clew.base.buckets import Bucket
from clew.errors import Conflict, Corrupted, Invalid, Unavailable
from clew.store.session import delete_session
from clew.upkeep import copy_store
from tests.engine.objects.server import NodeLocation
from tests.engine.objects.test_outside import LARGE, attached, each_key, rows


def read(path: Path, key: bytes | None, where: Bucket | None) -> dict[str, bytes]:
    found = {}
    with clew.open(path, key=key, blobs=where) as store:
        report = store.verify()
        assert (report.damage, report.counts.get("unread")) == ([], None)
        for session in store.sessions.list().items:
            media = session.path()[0].message.blocks[1]
            assert isinstance(media, clew.Media)
            found[session.title or ""] = session.blobs.get(media.blob or "")
        attached(store, LARGE[:-1])  # it is not only read
        assert store.verify().ok
    return found


@each_key
def test_there_and_back(tmp_path: Path, place: NodeLocation, key: bytes | None) -> None:
    """To another bucket, from there into rows, and no key is needed; each store has its own objects."""
    one, two, three = (tmp_path / f"{name}.db" for name in ("one", "two", "three"))
    there = place.open(prefix="copy")
    with clew.open(one, key=key, blobs=place.open()) as store:
        for at in range(3):
            attached(store, LARGE[at:], f"large {at}")
        attached(store, b"small", "small")
        delete_session(attached(store)[0])
        was = {f"large {at}": LARGE[at:] for at in range(3)} | {"small": b"small"}
    copy_store.copy(one, two, blobs=place.open(), target_blobs=there)
    assert rows(two) == {"blobs": 4, "chunks": 1, "objects": 3}
    assert len(place.names()) == 6
    seen: list[tuple[int, int]] = []
    copy_store.copy(two, three, blobs=there, progress=lambda done, total: seen.append((done, total)))
    assert rows(three) == {"blobs": 4, "chunks": 10, "objects": 0}
    assert all(0 <= done <= total for done, total in seen)
    assert read(two, key, there) == read(three, key, None) == read(one, key, place.open()) == was
    with clew.open(one, key=key, blobs=place.open()) as store:
        store.sessions.purge(everything=True)
    assert read(two, key, there).keys() >= was.keys()


def test_a_copy_that_was_cut_short(tmp_path: Path, place: NodeLocation) -> None:
    """It goes on where it was, in the middle of what lies in object storage; a bucket that fails loses nothing."""
    one, two = tmp_path / "one.db", tmp_path / "two.db"
    with clew.open(one, blobs=place.open()) as store:
        for at in range(8):
            attached(store, LARGE[at:], f"large {at}")

    class Cut(Exception):
        pass

    def cut(done: int, total: int) -> None:
        if done > total // 2 - 20:
            raise Cut

    with pytest.raises(Cut):
        copy_store.copy(one, two, blobs=place.open(), progress=cut)
    copy_store.copy(one, two, blobs=place.open())
    there, third = place.open(prefix="copy"), tmp_path / "three.db"
    with pytest.raises(Unavailable):
        copy_store.copy(one, third, blobs=place.open(), target_blobs=place.open(port=1, prefix="copy"))
    with pytest.raises(Invalid, match="incomplete copy"):
        clew.open(third)
    copy_store.copy(one, third, blobs=place.open(), target_blobs=there)
    assert read(two, None, None) == read(third, None, there)


def test_what_is_not_copied(tmp_path: Path, place: NodeLocation) -> None:
    """Not without the bucket, not into the same one, not over a store, and not what is missing or changed."""
    one, two = tmp_path / "one.db", tmp_path / "two.db"
    with clew.open(one, blobs=place.open()) as store:
        attached(store)
    with pytest.raises(Unavailable, match="object storage"):
        copy_store.copy(one, two)
    with pytest.raises(Invalid, match="the same object storage"):
        copy_store.copy(one, two, blobs=place.open(), target_blobs=place.open(prefix="team/blobs/"))
    (name,) = place.names()
    body = place.get(name)
    place.put(name, body[:-1])
    for target_blobs in (None, place.open(prefix="copy")):
        with pytest.raises(Corrupted):
            copy_store.copy(one, two, blobs=place.open(), target_blobs=target_blobs)
        with pytest.raises(Invalid, match="incomplete copy"):
            clew.open(two)
    place.put(name, body)
    copy_store.copy(one, two, blobs=place.open())
    with pytest.raises(Conflict):
        copy_store.copy(one, two, blobs=place.open())


def test_a_copy_that_is_not_the_same(tmp_path: Path, place: NodeLocation, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another bucket has kept is read again and compared."""
    one, two = tmp_path / "one.db", tmp_path / "two.db"
    with clew.open(one, blobs=place.open()) as store:
        attached(store)
    put = Bucket.put

    def wrong(self: Bucket, path: str, parts: object) -> None:
        body = b"".join(parts)  # type: ignore[arg-type]
        put(self, path, [body[:-1] + bytes([body[-1] ^ 1])])

    monkeypatch.setattr(Bucket, "put", wrong)
    with pytest.raises(Corrupted, match="chunks"):
        copy_store.copy(one, two, blobs=place.open(), target_blobs=place.open(prefix="copy"))


def test_a_backup_has_rows_alone(path: Path, tmp_path: Path, place: NodeLocation) -> None:
    """A backup finds its objects where the store has them, for as long as they are there."""
    with clew.open(path, blobs=place.open()) as store:
        session, digest = attached(store)
        store.backup(tmp_path / "backup.db")
    with clew.open(tmp_path / "backup.db", blobs=place.open()) as copy:
        assert copy.sessions.get(session.id).blobs.get(digest) == LARGE
        assert copy.verify().ok


def test_an_attachment_that_is_deleted_before_its_turn(
    tmp_path: Path, place: NodeLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its row is copied as it was, and its object is gone: that is no damage, and another copy succeeds."""
    one, two = tmp_path / "one.db", tmp_path / "two.db"
    with clew.open(one, blobs=place.open()) as store:
        made = [attached(store, LARGE[at:], f"large {at}")[0] for at in range(2)]
        begin = copy_store._begin

        def meanwhile(*args: object) -> object:
            store.sessions.purge(made[0].id)
            return begin(*args)  # type: ignore[arg-type]

        with monkeypatch.context() as patch, pytest.raises(Unavailable, match="before it was copied"):
            patch.setattr(copy_store, "_begin", meanwhile)
            copy_store.copy(one, two, blobs=place.open())
    copy_store.copy(one, two, blobs=place.open())
    assert read(two, None, None) == {"large 1": LARGE[1:]}
