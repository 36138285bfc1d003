"""The id of a snapshot: what is one, what is not, and that nothing is touched before that is known."""

import random
import re
import uuid
from typing import Any

import pytest

import clew
from clew.errors import Invalid
from clew.snapshots import FileStore, validate_snapshot_id
from clew.snapshots.errors import InvalidSnapshotID
from clew.snapshots.file_store import MemoryFiles
from clew.testing.snapshots import NO_IDS, sample

CANONICAL = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Watched:
    """A file system that must not be asked anything."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was called")


@pytest.mark.checklist("A29", "A34")
@pytest.mark.parametrize(
    "id",
    [
        "f47ac10b-58cc-4372-a567-0e02b2c3d479",
        "00000000-0000-0000-0000-000000000000",
        *(f"a0eebc99-9c0b-{n:x}ef8-bb6d-6bb9bd380a11" for n in range(16)),
    ],
)
def test_ids(id: str) -> None:
    """UUIDs of every version in canonical form are accepted."""
    assert validate_snapshot_id(id) == id


@pytest.mark.checklist("A29", "A34")
@pytest.mark.parametrize("id", [*NO_IDS, None, 7, b"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"])
def test_no_ids(id: Any) -> None:
    """Anything else is not, and the error is one of its own kind."""
    with pytest.raises(InvalidSnapshotID) as caught:
        validate_snapshot_id(id)
    assert isinstance(caught.value, Invalid)
    assert isinstance(caught.value, clew.ClewError)
    assert not isinstance(caught.value, OSError)


@pytest.mark.checklist("A33")
def test_the_error_shows_little() -> None:
    """At most 32 letters of what was given are in the error, quoted, without control characters."""
    with pytest.raises(InvalidSnapshotID) as caught:
        validate_snapshot_id("x" * 33 + "SECRET")
    assert "'" + "x" * 32 + "…'" in str(caught.value)
    assert "SECRET" not in str(caught.value)
    with pytest.raises(InvalidSnapshotID) as caught:
        validate_snapshot_id("one\nFAKE LOG LINE\x1b[2J")
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)
    with pytest.raises(InvalidSnapshotID) as caught:
        validate_snapshot_id("x" * 32)
    assert "…" not in str(caught.value)


@pytest.mark.checklist("A30")
@pytest.mark.parametrize("id", NO_IDS)
def test_nothing_is_touched(id: str) -> None:
    """The id is validated before any call to the file system."""
    store, smuggled = FileStore("/conversations", fs=Watched()), sample()
    object.__setattr__(smuggled, "id", id)
    for call in (lambda: store.load(id), lambda: store.delete(id), lambda: store.save(smuggled)):
        with pytest.raises(InvalidSnapshotID):
            call()


@pytest.mark.checklist("A31")
@pytest.mark.parametrize("directory", ["", "/", ".", "a", "/a/b/../c"])
def test_the_way_stays_inside(directory: str) -> None:
    """A path that leads out of the directory is refused, even if the id were let through."""
    store = FileStore(directory, fs=MemoryFiles())
    out = ("/etc/passwd", "a/b", "..", "", *(["../x"] if directory != "/" else []))
    for name in out:
        with pytest.raises(Invalid, match="leads out"):
            store._inside(store._directory, name)
    snapshot = sample()
    store.save(snapshot)
    assert store.load(snapshot.id) == snapshot


def fuzzed(count: int, seed: int) -> None:
    """Half of the strings are ids with something done to them."""
    chance = random.Random(seed)
    letters = "0123456789abcdefABCDEFg-_/\\.\0\n\r\t \u2028\u0430\u0660\uff10\ud800\U0001f600{}%"
    for _ in range(count):
        if chance.random() < 0.5:
            text = list(str(uuid.UUID(int=chance.getrandbits(128))))
            for _ in range(chance.randrange(3)):
                text[chance.randrange(len(text))] = chance.choice(letters)
            given = "".join(text) + (chance.choice(letters) if chance.random() < 0.1 else "")
        else:
            given = "".join(chance.choices(letters, k=chance.randrange(48)))
        try:
            accepted = validate_snapshot_id(given)
        except InvalidSnapshotID:
            accepted = None
        assert (accepted is not None) == (CANONICAL.fullmatch(given) is not None)
        assert accepted in (None, given)


@pytest.mark.checklist("A35", "A42")
def test_fuzz() -> None:
    """Every value is accepted as a canonical id or raises InvalidSnapshotID, and no other error."""
    fuzzed(100_000, seed=34)
    assert all(validate_snapshot_id(str(uuid.uuid4())) for _ in range(1_000))
