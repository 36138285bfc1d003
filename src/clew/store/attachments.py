"""Attachments and logs for the whole store: blobs of any tree, and the log of any session."""

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
"""The minimum age at which `sweep` removes an object that the store does not know."""


class StoreBlobs:
    """The blobs of a store. Each belongs to a tree; `within` is a session of it, its id or handle, or a message."""

    def __init__(self, engine: Engine, sessions: Sessions) -> None:
        self._engine = engine
        self._sessions = sessions

    def put(self, within: Session | Node | str, source: Source) -> Blob:
        """Stores bytes, a binary file, or an iterable of bytes. Content that the tree has is not stored twice."""
        return self._of(within).put(source)

    def get(self, within: Session | Node | str, digest: str) -> bytes:
        """The whole content. NotFound; Corrupted if it is not what was stored."""
        return self._of(within).get(digest)

    def open(self, within: Session | Node | str, digest: str) -> Iterator[bytes]:
        """The content in chunks, without an open transaction in between. NotFound at once; Corrupted on reaching it."""
        return self._of(within).open(digest)

    def stat(self, within: Session | Node | str, digest: str) -> Blob:
        """Address and size of a blob. NotFound."""
        return self._of(within).stat(digest)

    def sweep(self, *, older: timedelta | None = None, dry_run: bool = False) -> Cleared:
        """Removes objects from object storage that nothing in the store needs, and counts them.

        The store removes objects that it knows to be unneeded on its own. This also removes unknown and unfinished
        objects that are `older` than this, by default a week: a store that was lost or replaced by an older copy left
        them. Do not call it on a copy that is used beside the original with the same bucket and prefix.
        """
        older = WEEK if older is None else older
        if not isinstance(older, timedelta) or older < timedelta(0):
            raise Invalid("older must be a timedelta of 0 or more", hint="For example timedelta(days=7).")
        return blob_objects.sweep(self._engine, older, dry_run=dry_run)

    @property
    def bucket(self) -> str | None:
        """The name of the object storage; None if the store was opened without one."""
        where = self._engine.bucket
        return None if where is None else where.name

    def objects(self) -> int:
        """The number of attachments in object storage."""
        return self._engine.read(lambda tx: tx.maintenance.sizes())["objects"]

    def check_bucket(self) -> None:
        """Unavailable if the object storage cannot be reached, or has no objects of this store."""
        blob_objects.reachable(blob_objects.bucket(self._engine), self._engine.store_id)

    def _of(self, within: Session | Node | str) -> Blobs:
        if isinstance(within, Node):
            tree = run_info(within).tree
            return Blobs(self._engine, lambda: tree)
        return _session(self._sessions, within).blobs


class StoreLog:
    """The logs of a store. Each belongs to a session; `owner` is the session, its id or its handle."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def append(
        self, owner: Session | str, data: bytes | Sequence[bytes], *, id: str | Sequence[str] | None = None
    ) -> list[Entry]:
        """Adds entries, all or none, durable on return. Adding the same id and bytes again changes nothing."""
        return self._of(owner).append(data, id=id)

    def read(self, owner: Session | str, start: int = 0, stop: int | None = None) -> Iterator[Entry]:
        """Entries from number `start` up to but not including `stop`, in order, without an open transaction between
        pages.
        """
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
    raise Invalid(f"this takes a Session, an id or a handle, not {type(key).__name__}")
