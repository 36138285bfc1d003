"""Log, blobs and quarantine."""

from __future__ import annotations

from pathlib import Path

from clew.base.buckets import Bucket
from clew.base.messages import Media, user
from clew.errors import Conflict, NotFound
from clew.store.session import delete_session
from clew.testing.contract import Contract, OpenStore, an_id, raises, texts


class Beside(Contract):
    """Log, blobs and quarantine."""

    def test_log(self, open_store: OpenStore) -> None:
        """Log entries are numbered in order, read by range, and stored once per id; they are never parents."""
        with open_store() as store:
            session = store.sessions.create()
            session.log.append([b"a", b"b"])
            session.log.append(b"c", id=an_id(1))
            assert session.log.append(b"c", id=an_id(1))[0].number == 2
            for data, name in ((b"other", an_id(1)), ([b"d", b"c"], [an_id(2), an_id(1)])):
                with raises(Conflict):
                    session.log.append(data, id=name)
            assert [(entry.number, entry.data) for entry in session.log.read()] == [(0, b"a"), (1, b"b"), (2, b"c")]
            assert [entry.data for entry in session.log.read(1, 2)] == [b"b"]
            assert len(session.log) == 3
            assert list(store.sessions.create().log.read()) == session.path() == []

    def test_blobs(self, open_store: OpenStore) -> None:
        """A blob is addressed by its content, stored once per tree, streamed, and not found in other trees."""
        with open_store(durability="relaxed") as store:
            session = store.sessions.create()
            content = bytes(range(256)) * 3000
            blob = session.blobs.put(content[at : at + 1000] for at in range(0, len(content), 1000))
            assert session.blobs.put(content) == blob
            assert blob.size == len(content)
            assert b"".join(session.blobs.open(blob.digest)) == session.blobs.get(blob.digest) == content
            assert session.fork().blobs.get(blob.digest) == content
            with raises(NotFound):
                store.sessions.create().blobs.get(blob.digest)
            with raises(NotFound):
                store.sessions.create().append(user(Media(mime_type="a/b", modality="document", blob=blob.digest)))

    def test_blobs_outside(self, open_store: OpenStore, tmp_path: Path) -> None:
        """Large blobs are stored in object storage, and removed from there only after permanent deletion."""
        with open_store(blobs=Bucket((tmp_path / "outside").as_uri(), over=1000), durability="relaxed") as store:

            def outside() -> int:
                return sum(path.name != "clew" for path in (tmp_path / "outside").rglob("*") if path.is_file())

            session, content = store.sessions.create(), bytes(range(256)) * 3000
            blob, small = session.blobs.put(content), session.blobs.put(content[:999])
            session.append(user(Media(mime_type="a/b", modality="document", blob=blob.digest)))
            assert session.blobs.put(content) == blob
            assert (outside(), store.verify().counts["chunks"]) == (1, 1)
            assert b"".join(session.fork().blobs.open(blob.digest)) == session.blobs.get(blob.digest) == content
            assert session.blobs.get(small.digest) == content[:999]
            with raises(NotFound), store.transaction():
                delete_session(session)
                session.rewind(an_id(9))
            assert store.blobs.sweep().objects == 0
            assert session.blobs.get(blob.digest) == content
            assert store.verify().ok
            receipt = store.sessions.purge(everything=True)
            assert (receipt.blobs, receipt.pending, receipt.outside > len(content), outside()) == (2, (), True, 0)

    def test_a_sound_store_has_an_empty_quarantine(self, open_store: OpenStore) -> None:
        """A quarantine sweep of an intact store moves nothing; then nothing can be restored or purged."""
        with open_store() as store:
            session = store.sessions.create(title="t")
            session.append([user("a"), user("b", session.attach(b"bytes", mime_type="image/png", modality="image"))])
            session.log.append([b"one", b"two"])
            swept = store.quarantine.sweep(strict=True)
            assert (swept.bodies, swept.moved, swept.left, swept.receipt) == (6, (), (), None)
            assert store.quarantine.list() == []
            with raises(NotFound):
                store.quarantine.restore(session.path()[0].id)
            with raises(NotFound):
                store.quarantine.purge(session.path()[0].id)
            assert store.quarantine.purge(everything=True).messages == 0
            assert texts(session.path())[0] == "a"
