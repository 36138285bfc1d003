"""Copying: a store is the same in a file and on a server, plain and sealed, also after having been cut short."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.base.buckets import Bucket
from clew.errors import Conflict, Corrupted, Invalid, NotFound
from clew.testing import FakeClock
from clew.upkeep import copy_store
from tests.backends.postgres.server import Server
from tests.reliability import sample

KEY = bytes(range(32))
each_key = pytest.mark.parametrize("key", [None, KEY], ids=["plain", "sealed"])


def made(place: str, key: bytes | None) -> dict[str, Any]:
    with clew.open(place, key=key, durability="relaxed", clock=FakeClock(), ids=sample.id_source()) as store:
        sample.fill(store, words=4, blob=50_000)
        return sample.readings(store)


def read(place: str, key: bytes | None) -> dict[str, Any]:
    with clew.open(place, key=key, create=False) as store:
        report = store.verify()
        assert report.ok, report.damage
        found = sample.readings(store)
        # It is not only read: numbers go on where they were.
        session = store.sessions.create(title="more")
        session.append(clew.user("more"))
        session.fork().append(clew.user("and more"))
        assert store.verify().ok
        assert [hit.node.text for hit in store.search("more")]
        return found


@each_key
def test_there_and_back(tmp_path: Path, server: Server, key: bytes | None) -> None:
    """From a file to a server, to another server, and to a file again: everything reads the same, and goes on."""
    places = [str(tmp_path / "one.db"), server.url(), server.url(), str(tmp_path / "two.db")]
    was = made(places[0], key)
    seen: list[tuple[int, int]] = []
    for source, target in pairwise(places):
        copy_store.copy(source, target, progress=lambda done, total: seen.append((done, total)))
    assert seen
    assert all(0 <= done <= total for done, total in seen)
    for place in places[1:]:
        assert read(place, key) == was


@each_key
def test_with_object_storage(tmp_path: Path, server: Server, key: bytes | None) -> None:
    """What lies in object storage goes to that of the server's store, and from there into the rows of a file."""
    one, two = tmp_path / "one", tmp_path / "two"
    places = [f"{one}.db", server.url(), f"{two}.db"]
    content = bytes(range(256)) * 3000
    with clew.open(places[0], key=key, blobs=Bucket(one.as_uri(), over=1000)) as store:
        session = store.sessions.create()
        blob = session.blobs.put(content)
    copy_store.copy(places[0], places[1], blobs=one.as_uri(), target_blobs=two.as_uri())
    copy_store.copy(places[1], places[2], blobs=two.as_uri())
    for place, where in ((places[1], two.as_uri()), (places[2], None)):
        with clew.open(place, key=key, blobs=where) as store:
            assert store.sessions.get(session.id).blobs.get(blob.digest) == content
            assert store.verify().ok


def test_what_was_copied_goes_on(tmp_path: Path, url: str) -> None:
    """The numbers of a file are small; a server takes them as it takes its own: one message, several, a search."""
    source = str(tmp_path / "one.db")
    with clew.open(source) as store:
        session = store.sessions.create()
        session.append(clew.user("first"))
    copy_store.copy(source, url)
    with clew.open(url) as store:
        session = store.sessions.get(session.id)
        session.append([clew.user("second"), clew.user("third")])
        session.append([clew.user("fourth"), clew.user("fifth")])
        assert [node.text for node in session.path(last=2)] == ["fourth", "fifth"]
        assert [hit.node.text for hit in store.search("first")] == ["first"]
        assert [hit.node.text for hit in store.search("fifth", session=session)] == ["fifth"]


def test_a_copy_that_was_cut_short(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not open as a store; copied again it goes on; and if the source has changed it begins anew."""
    source = str(tmp_path / "one.db")
    made(source, None)
    monkeypatch.setattr(copy_store, "BATCH", 7)

    class Cut(Exception):
        pass

    def cut_after(rows: int) -> Any:
        def progress(done: int, total: int) -> None:
            if done >= rows:
                raise Cut

        return progress

    for rows in (10, 60, 100):
        with pytest.raises(Cut):
            copy_store.copy(source, url, progress=cut_after(rows))
        with pytest.raises(Invalid, match="incomplete copy"):
            clew.open(url)
    with clew.open(source) as store:
        store.sessions.create(title="late").append(clew.user("late"))
        was = sample.readings(store)
    with pytest.raises(Cut):
        copy_store.copy(source, url, progress=cut_after(50))
    copy_store.copy(source, url)
    assert read(url, None) == was


def test_what_is_not_copied(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is copied over a store, from nothing, or onto itself; and a copy that differs is found out."""
    source = str(tmp_path / "one.db")
    made(source, None)
    with clew.open(url) as store:
        store.sessions.create()
    with pytest.raises(Conflict):
        copy_store.copy(source, url)
    with pytest.raises(NotFound):
        copy_store.copy(str(tmp_path / "nothing.db"), str(tmp_path / "two.db"))
    with pytest.raises(Invalid):
        copy_store.copy(source, source)
    from clew.backends.sqlite.tx import SQLiteTx

    insert = SQLiteTx.insert_rows

    def wrong(self: Any, table: Any, rows: Any) -> None:
        insert(self, table, rows[:-1] if table.name == "nodes" else rows)

    monkeypatch.setattr(SQLiteTx, "insert_rows", wrong)
    with pytest.raises(Corrupted, match="nodes"):
        copy_store.copy(source, str(tmp_path / "two.db"))
