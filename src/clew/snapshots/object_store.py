"""Snapshots as objects in a bucket: S3, Google Cloud Storage, Azure, and compatible services."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar

from clew.base import buckets, files
from clew.errors import ClewError, Conflict, Corrupted, NotFound, clip
from clew.snapshots.file_format import HEAD, Form, Head, errors_of, summaries
from clew.snapshots.file_store import LOCK, PATIENCE
from clew.snapshots.types import Snapshot, SnapshotSummary, a_snapshot, is_snapshot_id, validate_snapshot_id

if TYPE_CHECKING:
    import logging

    from obstore import Bytes

AT_ONCE = 16
"""Number of objects whose heads are read at the same time."""
_ENDING = ".json"

T = TypeVar("T")
Summaries = list[SnapshotSummary]  # inside `ObjectStore`, list is its method
Errors = list[ClewError]


class ObjectStore:
    """A `SnapshotStore` in a bucket: ``s3://bucket/prefix``, and likewise gs, az, file, memory.

    A save replaces only the version that this store last loaded or saved: if another writer has saved the snapshot
    since, it raises Conflict and theirs stays. A snapshot that this store has never loaded is overwritten. `key` and
    `compatible` are those of `FileStore`. `options` are passed to obstore: ``config`` with endpoint, region and
    credentials, ``client_options``, ``retry_config``. By default obstore reads credentials from the provider's usual
    places.
    """

    def __init__(
        self,
        url: str,
        key: bytes | None = None,
        logger: logging.Logger | None = None,
        *,
        compatible: bool = False,
        **options: Any,
    ) -> None:
        self._name = buckets.display_url(url)
        self._form = Form(key, compatible=compatible)
        self._logger = logger
        self._folder = buckets.folder(url)
        self._bucket = buckets.connect(url, options)
        self._tags: dict[str, str] = {}
        """The version of each snapshot that this store saw last."""
        self._tried: dict[str, set[bytes]] = {}
        """Hashes of later uploads that may have been stored although the response was lost."""
        self._conditional = self._folder is None

    def save(self, snapshot: Snapshot) -> None:
        """Saves a snapshot and replaces the one with the same id, if any. Durable on return.

        Conflict if another writer has saved or deleted it since this store last loaded or saved it.
        """
        validate_snapshot_id(a_snapshot(snapshot).id)
        data = self._form.pack(snapshot).data
        self._tried.setdefault(snapshot.id, set()).add(sha256(data).digest())
        if self._folder is not None:
            self._place(snapshot.id, data)
        else:
            try:
                put = self._put_last(snapshot.id, data)
            except FileNotFoundError as error:
                put = self._put_again(snapshot.id, data, error)
            self._remember_tag(snapshot.id, put["e_tag"])
        self._tried.pop(snapshot.id, None)

    def load(self, id: str) -> Snapshot:
        """The snapshot. NotFound; Corrupted if it is not what was saved under this id; WrongKey, Sealed."""
        snapshot, tag = self._load(validate_snapshot_id(id))
        self._remember_tag(id, tag)
        return snapshot

    def list(self) -> Summaries:
        """All snapshots, newest first, by the size and the first 4 KiB of each object.

        Passes over damaged ones, with a warning to the logger. It does not read the messages: see `verify`.
        """
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(AT_ONCE) as pool:
            return summaries(pool.map(self._head_or_error, self._ids()), self._warn)

    def verify(self) -> Errors:
        """Loads every snapshot, and returns the errors of those that do not load."""
        return errors_of(self._load, (id for id, _ in self._ids()))

    def delete(self, id: str) -> None:
        """Deletes a snapshot. NotFound."""
        import obstore

        name = validate_snapshot_id(id) + _ENDING
        try:
            self._ask(lambda: obstore.head(self._bucket, name))  # some services report success for a missing object
            self._ask(lambda: obstore.delete(self._bucket, name))
        except FileNotFoundError:
            raise NotFound("snapshot", id) from None
        self._tags.pop(id, None)
        if self._folder is not None:
            files.sync_folder(self._folder)

    def __repr__(self) -> str:
        return f"<ObjectStore {self._name}>"

    # -- the bucket

    def _load(self, id: str) -> tuple[Snapshot, str | None]:
        data, tag = self._get(id)
        try:
            return self._form.unpack(id, data, _no_media), tag
        except Corrupted as error:
            hint = f"Restore {self._name}/{id}{_ENDING} from a backup, or delete the snapshot."
            raise type(error)(error.where, error.why, hint=hint) from None

    def _place(self, id: str, data: bytes) -> None:
        """For a local folder, uses clew's own file code: obstore neither syncs to disk nor sets private modes.

        A version is the hash of the file. The lock makes comparing and replacing one step.
        """
        assert self._folder is not None
        path = os.path.join(self._folder, id + _ENDING)
        try:
            with files.lock(os.path.join(self._folder, LOCK), PATIENCE):
                if id in self._tags and not self._is_ours(id):
                    raise _conflict(id)
                files.replace_private(path, data)
        except OSError as error:
            raise files.unwritten(error, path) from error
        self._tags[id] = sha256(data).hexdigest()

    def _is_ours(self, id: str) -> bool:
        """True if the folder has the version that this store saw last, or one that it has written since."""
        try:
            data, version = self._get(id)
        except NotFound:
            return False
        return version == self._tags[id] or sha256(data).digest() in self._tried[id]

    def _put_last(self, id: str, data: bytes) -> Any:
        """Replaces the version that was last seen. FileNotFoundError if the object no longer exists."""
        tag = self._tags.get(id) if self._conditional else None
        try:
            return self._ask(lambda: self._put(id + _ENDING, data, tag))
        except NotImplementedError:  # the server does not support conditional writes
            self._conditional = False
            return self._ask(lambda: self._put(id + _ENDING, data, None))

    def _put(self, name: str, data: bytes, tag: str | None) -> Any:
        import obstore

        return obstore.put(self._bucket, name, data, mode="overwrite" if tag is None else {"e_tag": tag})

    def _put_again(self, id: str, data: bytes, error: FileNotFoundError) -> Any:
        """Replaces an object that this store has uploaded itself, if only the response was lost. Conflict."""
        try:
            there, tag = self._get(id)
            if sha256(there).digest() in self._tried.get(id, ()):
                self._remember_tag(id, tag)
                return self._put_last(id, data)
        except (NotFound, FileNotFoundError):
            pass
        raise _conflict(id) from error

    def _get(self, id: str) -> tuple[bytes, str | None]:
        import obstore

        def work() -> tuple[Bytes, str | None]:
            found = obstore.get(self._bucket, id + _ENDING)
            return found.bytes(), found.meta["e_tag"]

        try:
            data, tag = self._ask(work)
        except FileNotFoundError:
            raise NotFound("snapshot", id) from None
        return bytes(data), tag if self._folder is None else sha256(data).hexdigest()

    def _ids(self) -> Iterator[tuple[str, int]]:
        """The snapshots in the bucket with their sizes; ignores other names."""
        import obstore

        for chunk in self._pages(obstore.list(self._bucket)):
            for meta in chunk:
                id = meta["path"].removesuffix(_ENDING)
                if id != meta["path"] and is_snapshot_id(id):
                    yield id, meta["size"]
                elif self._logger is not None and meta["path"] != LOCK:
                    self._logger.debug("%s is not a snapshot", clip(meta["path"]))

    def _pages(self, stream: Any) -> Iterator[Any]:
        pages = iter(stream)
        while True:
            try:
                page = self._ask(lambda: next(pages, None))
            except FileNotFoundError:
                return
            if page is None:
                return
            yield page

    def _head_or_error(self, found: tuple[str, int]) -> tuple[str, Head | ClewError]:
        """The head of an object, or the error of reading it."""
        id, size = found
        try:
            return id, self._head(id, size)
        except ClewError as error:
            return id, error

    def _head(self, id: str, size: int) -> Head:
        import obstore

        if size == 0:
            raise Corrupted(f"snapshot {id}", "it is empty")
        try:
            start = self._ask(lambda: obstore.get_range(self._bucket, id + _ENDING, start=0, length=min(size, HEAD)))
        except FileNotFoundError:
            raise NotFound("snapshot", id) from None
        head = self._form.head(id, bytes(start))
        if head is not None and self._form.has_size(head, bytes(start), size):
            return head
        return self._form.whole_head(id, self._get(id)[0])  # also if another save replaced it meanwhile

    def _ask(self, work: Callable[[], T]) -> T:
        """The response of the bucket. FileNotFoundError, NotImplementedError, Unavailable."""
        return buckets.ask(self._name, work)

    def _remember_tag(self, id: str, tag: str | None) -> None:
        if tag is not None:
            self._tags[id] = tag

    def _warn(self, text: str, *about: object) -> None:
        if self._logger is not None:
            self._logger.warning(text, *about)


def _conflict(id: str) -> Conflict:
    hint = "Load it to see theirs; save yours under another id, or again after loading."
    return Conflict(f"snapshot {id} was changed by someone else meanwhile", hint=hint)


def _no_media(name: str) -> bytes:
    raise Corrupted(f"medium {name[:8]}", "it is not in a bucket: the file comes from a folder")
