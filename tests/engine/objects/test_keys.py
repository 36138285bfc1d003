"""Sealing, unsealing and exchanging keys of a store whose blobs lie in object storage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

import clew
from clew.engine import blob_objects
from clew.errors import Corrupted, Unavailable
from clew.store.store import Store
from tests.engine.objects.server import NodeLocation
from tests.engine.objects.test_outside import KEY, LARGE, attached

OTHER = bytes(range(1, 33))


def seal(store: Store) -> object:
    return store.seal(KEY)


def unseal(store: Store) -> object:
    return store.unseal()


def rotate(store: Store) -> object:
    return store.rotate(OTHER)


def deep(store: Store) -> object:
    return store.rotate(OTHER, deep=True)


WALKS: list[tuple[Callable[[Store], object], bytes | None, bytes | None]] = [
    (seal, None, KEY), (unseal, KEY, None), (rotate, KEY, OTHER), (deep, KEY, OTHER),
]  # fmt: skip
each_walk = pytest.mark.parametrize(
    ("walk", "before", "after"), WALKS, ids=lambda value: getattr(value, "__name__", "")
)


@each_walk
def test_objects_are_closed_anew(
    path: Path, place: NodeLocation, walk: Callable[[Store], object], before: bytes | None, after: bytes | None
) -> None:
    """Afterwards each blob is what it was, under the new key alone, and what had it before is gone from the bucket."""
    with clew.open(path, key=before, blobs=place.open()) as store:
        made = [attached(store, LARGE[at:]) for at in range(3)]
        old = {name: place.get(name) for name in place.names()}
        walk(store)
        now = {name: place.get(name) for name in place.names()}
        assert (now == old) == (walk is rotate)  # which wraps data keys anew, and they open what is there
        assert len(now) == 3
        assert all((b"confidence" in body) == (after is None) for body in now.values())
        assert not store.key_status().unclean
    with clew.open(path, key=after, blobs=place.open()) as store:
        for at, (session, digest) in enumerate(made):
            assert store.sessions.get(session.id).blobs.get(digest) == LARGE[at:]
        assert store.verify().ok


@each_walk
def test_a_key_that_is_exchanged_in_the_middle_of_an_upload(
    path: Path, place: NodeLocation, walk: Callable[[Store], object], before: bytes | None, after: bytes | None
) -> None:
    """A blob that was half sent when others changed how the store is kept is kept the new way, too."""
    with (
        clew.open(path, key=before, blobs=place.open()) as store,
        clew.open(path, key=before, blobs=place.open()) as other,
    ):
        session = store.sessions.create()

        def stream() -> Iterator[bytes]:
            yield LARGE
            store._engine.key = after  # who writes on has the key
            walk(other)
            yield LARGE

        blob = session.blobs.put(stream())
        assert session.blobs.get(blob.digest) == LARGE * 2
        (name,) = place.names()
        assert (b"confidence" in place.get(name)) == (after is None)
    with clew.open(path, key=after, blobs=place.open()) as store:
        assert store.sessions.get(session.id).blobs.get(blob.digest) == LARGE * 2
        assert store.verify().ok


def test_an_exchange_that_was_cut_short(path: Path, place: NodeLocation, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stops where the bucket cannot be reached, with both keys good, and goes on when it is asked again."""
    with clew.open(path, key=KEY, blobs=place.open()) as store:
        made = [attached(store, LARGE[at:]) for at in range(3)]
        reencrypt, calls = blob_objects.reencrypt, 0

        def cut(*args: object) -> bool:
            nonlocal calls
            calls += 1
            if calls == 2:
                raise Unavailable("cut")
            return reencrypt(*args)  # type: ignore[arg-type]

        monkeypatch.setattr(blob_objects, "reencrypt", cut)
        with pytest.raises(Unavailable, match="cut"):
            deep(store)
    for key in (KEY, OTHER):
        with clew.open(path, key=key, blobs=place.open()) as store:
            assert store.key_status().state == "rotating"
            for at, (session, digest) in enumerate(made):
                assert store.sessions.get(session.id).blobs.get(digest) == LARGE[at:]
    with clew.open(path, key=KEY, blobs=place.open()) as store:
        calls = 10
        deep(store)
        assert calls == 12
        assert store.verify().ok
    assert len(place.names()) == 3


def test_a_damaged_object_keeps_the_old_key(path: Path, place: NodeLocation) -> None:
    """What does not open is not closed anew, and both keys stay good."""
    with clew.open(path, key=KEY, blobs=place.open()) as store:
        session, digest = attached(store)
        (name,) = place.names()
        body = place.get(name)
        place.put(name, body[:-1] + bytes([body[-1] ^ 1]))
        with pytest.raises(Corrupted):
            deep(store)
        place.put(name, body)
        deep(store)
        assert session.blobs.get(digest) == LARGE


def test_a_reader_goes_on(path: Path, place: NodeLocation) -> None:
    """Somebody who reads a blob while keys are exchanged gets all of it."""
    with clew.open(path, key=KEY, blobs=place.open()) as store, clew.open(path, key=KEY, blobs=place.open()) as other:
        session, digest = attached(store, LARGE * 5)
        pieces = session.blobs.open(digest)
        first = next(pieces)
        store._engine.key = OTHER
        deep(other)
        assert first + b"".join(pieces) == LARGE * 5


def test_an_exchange_whose_upload_is_taken_for_abandoned(
    path: Path, place: NodeLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody sweeps while an object is closed anew: it is closed once more before the old key goes."""
    with clew.open(path, key=KEY, blobs=place.open()) as store, clew.open(path, key=KEY, blobs=place.open()) as other:
        session, digest = attached(store)
        send, swept = blob_objects.send, 0

        def meanwhile(*args: object) -> blob_objects.Sent:
            nonlocal swept
            sent = send(*args)  # type: ignore[arg-type]
            if not swept:
                other._engine.key = OTHER
                swept = other.blobs.sweep(older=timedelta()).objects
            return sent

        monkeypatch.setattr(blob_objects, "send", meanwhile)
        deep(store)
        assert swept == 1
        assert session.blobs.get(digest) == LARGE
        assert store.verify().ok
    with clew.open(path, key=OTHER, blobs=place.open()) as store:
        assert store.sessions.get(session.id).blobs.get(digest) == LARGE
    assert len(place.names()) == 1
