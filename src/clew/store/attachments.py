"""What lies beside the messages, for the whole store: blobs of any tree, and the log of any session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from clew.engine import blob_objects
from clew.engine.blob_objects import Cleared
from clew.engine.blobs import Blob, Blobs, Source
from clew.engine.engine import Engine
from clew.engine.log import Entry, Log
from clew.engine.node import Node, run_info
from clew.errors import Invalid
from clew.store.session import Session
from clew.store.sessions import Sessions

WEEK = timedelta(days=7)
"""How old an object must be at least that the store does not know, before it is removed."""


class StoreBlobs:
    """The blobs of a store. Each belongs to a tree, named by a session (or its id or handle) or a message of it."""

    def __init__(self, engine: Engine, sessions: Sessions) -> None:
        self._engine = engine
        self._sessions = sessions

    def put(self, within: Session | Node | str, source: Source) -> Blob:
        """Stores bytes, a binary file, or pieces of bytes, as a stream. Content the tree has is not stored twice."""
        return self._of(within).put(source)

    def get(self, within: Session | Node | str, digest: str) -> bytes:
        """The whole content. NotFound; Corrupted if it is not what was stored."""
        return self._of(within).get(digest)

    def open(self, within: Session | Node | str, digest: str) -> Iterator[bytes]:
        """The content in pieces; no transaction is held between them. NotFound at once; Corrupted where it is."""
        return self._of(within).open(digest)

    def stat(self, within: Session | Node | str, digest: str) -> Blob:
        """Address and size of a blob. NotFound."""
        return self._of(within).stat(digest)

    def sweep(self, *, older: timedelta | None = None, dry_run: bool = False) -> Cleared:
        """Removes objects from object storage that nothing in the store needs, and counts them.

        What the store knows to be unneeded goes by itself, sooner or later. This also finds what it has never heard of,
        or began and did not finish, if it is `older`, by default than a week: what was put by a store that was lost, or
        replaced by an older copy. So it is not for a copy that is used beside the original, with the same bucket and
        prefix.
        """
        older = WEEK if older is None else older
        if not isinstance(older, timedelta) or older < timedelta(0):
            raise Invalid("older is a time span", hint="Like timedelta(days=7).")
        return blob_objects.sweep(self._engine, older, dry_run=dry_run)

    def _of(self, within: Session | Node | str) -> Blobs:
        if isinstance(within, Node):
            tree = run_info(within).tree
            return Blobs(self._engine, lambda: tree)
        return _session(self._sessions, within).blobs


class StoreLog:
    """The logs of a store. Each belongs to a session, named by itself, its id or its handle."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def append(
        self, owner: Session | str, data: bytes | Sequence[bytes], *, id: str | Sequence[str] | None = None
    ) -> list[Entry]:
        """Adds entries, all or none, durable when this returns. The same id and bytes again change nothing."""
        return self._of(owner).append(data, id=id)

    def read(self, owner: Session | str, start: int = 0, stop: int | None = None) -> Iterator[Entry]:
        """Entries from number `start` up to and without `stop`, in order; no transaction is held between pages."""
        return self._of(owner).read(start, stop)

    def count(self, owner: Session | str) -> int:
        """How many entries there are."""
        return len(self._of(owner))

    def _of(self, owner: Session | str) -> Log:
        return _session(self._sessions, owner).log


def _session(sessions: Sessions, key: Session | str) -> Session:
    if isinstance(key, Session):
        return key
    if isinstance(key, str):
        return sessions.get(key)
    raise Invalid(f"a session is named by itself, its id or its handle, not by {type(key).__name__}")
