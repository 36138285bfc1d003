"""Attachments."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.engine.blobs import BATCH, CHUNK, STALE
from clew.store.parts import Parts
from clew.store.session import delete_session
from clew.store.store import Store
from clew.testing import FakeClock


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, CHUNK * (BATCH + 1) + 7])
def test_every_size_comes_back(path: Path, size: int) -> None:
    """Bytes around the size of a piece, and of a batch of pieces, come back, addressed by their SHA-256."""
    content = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    with clew.open(path, durability="relaxed") as store:
        blobs = store.sessions.create().blobs
        blob = blobs.put(content)
        assert (blob.digest, blob.size) == (sha256(content).hexdigest(), size)
        assert blobs.get(blob.digest) == content
        assert blobs.stat(blob.digest) == blob


def test_files_and_streams(store: Store, tmp_path: Path) -> None:
    """A file, a stream and pieces of any length are the same content, stored once."""
    content = bytes(range(256)) * 40
    (tmp_path / "f").write_bytes(content)
    blobs = store.sessions.create().blobs
    with (tmp_path / "f").open("rb") as file:
        made = {
            blobs.put(file),
            blobs.put(io.BytesIO(content)),
            blobs.put(content[at : at + 7] for at in range(0, len(content), 7)),
        }
    odd: list[Any] = [bytearray(content), memoryview(content)]
    made |= {blobs.put(source) for source in odd}
    assert len(made) == 1
    assert store.verify().counts["blobs"] == 1


def test_a_source_that_fails_leaves_nothing(store: Store, sound: Callable[[Store], None]) -> None:
    """If reading the source fails half-way, or it is not made of bytes, nothing of it stays."""
    blobs = store.sessions.create().blobs

    def broken() -> Iterator[bytes]:
        yield b"x" * CHUNK * (BATCH + 1)
        raise OSError("unplugged")

    with pytest.raises(OSError, match="unplugged"):
        blobs.put(broken())
    for bad in ("text", [1, 2], ["a"], 5):
        with pytest.raises(clew.Invalid):
            blobs.put(bad)  # type: ignore[arg-type]
    counts = store.verify().counts
    assert (counts["blobs"], counts["chunks"]) == (0, 0)
    sound(store)


def test_a_blob_goes_with_the_last_message_that_shows_it(store: Store, sound: Callable[[Store], None]) -> None:
    """Shown twice in a tree, a blob stays until both messages are gone."""
    session = store.sessions.create()
    shown = session.attach(b"picture", mime_type="image/png", modality="image", name="p.png")
    assert shown.blob is not None
    first = session.append(clew.user("look", shown))
    fork = session.fork()
    answer = fork.append(clew.Message("tool", (clew.ToolResult(call_id="c", content=(shown,)),)))
    delete_session(session)
    assert fork.blobs.get(shown.blob) == b"picture"
    store.nodes.delete(answer.id)
    assert fork.blobs.get(shown.blob) == b"picture"
    store.nodes.delete(first.id)
    with pytest.raises(clew.NotFound):
        fork.blobs.get(shown.blob)
    sound(store)


def test_a_message_cannot_show_what_is_not_there(store: Store) -> None:
    """A message that shows an unknown blob, or one with two sources or none, is not stored, nor are those beside it."""
    session = store.sessions.create()
    media = [
        clew.Media(mime_type="a/b", modality="image", blob="0" * 64),
        clew.Media(mime_type="a/b", modality="image", blob="0" * 64, url="x:y"),
        clew.Media(mime_type="a/b", modality="image"),
    ]
    for one, error in zip(media, (clew.NotFound, clew.Invalid, clew.Invalid), strict=True):
        with pytest.raises(error):
            session.append([clew.user("first"), clew.user(one)])
    assert session.path() == []


def test_what_a_crash_left_half_written_is_removed_later(path: Path) -> None:
    """A blob that was begun a day ago and never finished goes when the next one comes."""
    clock = FakeClock()
    with clew.open(path, clock=clock) as store:
        blobs = store.sessions.create().blobs
        Parts.of(store).engine.write(lambda tx: blobs._stage(tx, blobs._tree()))
        blobs.put(b"a")
        assert store.verify().counts["blobs"] == 2
        clock.advance(STALE + 1)
        blobs.put(b"b")
        assert store.verify().counts["blobs"] == 2


def test_reading_holds_no_transaction(store: Store) -> None:
    """A blob that is being read does not keep others from writing, and an odd digest is an error at once."""
    session = store.sessions.create()
    blob = session.blobs.put(b"x" * (CHUNK * 3))
    pieces = session.blobs.open(blob.digest)
    assert len(next(pieces)) == CHUNK
    session.append(clew.user("meanwhile"))
    assert sum(map(len, pieces)) == CHUNK * 2
    for bad, error in (("0" * 64, clew.NotFound), ("", clew.NotFound), ("\ud800", clew.Invalid), (5, clew.Invalid)):
        with pytest.raises(error):
            session.blobs.open(bad)  # type: ignore[arg-type]


def test_the_store_reaches_the_blobs_of_any_tree(tmp_path):
    """A blob is put and read by session, handle or message; another tree does not have it."""
    with clew.open(tmp_path / "s.db") as store:
        session, other = store.sessions.create(), store.sessions.create()
        node = session.append(clew.user("see"))
        blob = store.blobs.put(session.handle, b"x" * 300_000)
        assert store.blobs.stat(node, blob.digest) == blob == session.blobs.stat(blob.digest)
        assert store.blobs.get(session, blob.digest) == b"".join(store.blobs.open(node, blob.digest)) == b"x" * 300_000
        with pytest.raises(clew.NotFound):
            store.blobs.get(other, blob.digest)
        with pytest.raises(clew.Invalid):
            store.blobs.get(5, blob.digest)  # type: ignore[arg-type]


def test_a_blob_deleted_while_it_is_read_is_not_damage(tmp_path):
    """A reader whose blob is deleted between two pieces is told that it is gone."""
    with clew.open(tmp_path / "s.db") as store:
        session = store.sessions.create()
        media = session.attach(b"x" * 600_000, mime_type="image/png")
        session.append(clew.user(media))
        pieces = session.blobs.open(media.blob or "")
        next(pieces)
        delete_session(session)
        with pytest.raises(clew.NotFound, match="deleted while"):
            list(pieces)
