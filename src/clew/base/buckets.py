"""Object storage: buckets of S3, Google Cloud Storage and Azure, what speaks like them, and folders.

obstore does the talking. It looks for credentials where the tools of the provider look, in the environment too
(``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT_URL``, ``AWS_ALLOW_HTTP``, …); clew itself reads none of that, and keeps none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

from clew.base import files
from clew.errors import Invalid, MissingPackage, NotFound, Unavailable

if TYPE_CHECKING:
    from obstore.store import ObjectStore

__all__ = ["OVER", "Bucket"]

SCHEMES = ("s3", "s3a", "gs", "az", "adl", "azure", "abfs", "abfss", "file", "memory")
OVER = 1 << 20
"""Blobs of at least this many bytes go to the bucket, by default. Smaller ones are faster in the store."""
PART = 8 << 20
"""Bytes sent at a time, …"""
PARTS = 10_000
"""… and how often at most: S3 takes no more. So an object may have 78 GiB."""
_AT_ONCE = 2
_PATIENCE = {"max_retries": 3, "retry_timeout": timedelta(seconds=20)}
"""For one request. After that the caller gets an error, and may make the same call again."""

T = TypeVar("T")


class ListedObject(NamedTuple):
    """An object in a list."""

    path: str
    size: int
    modified: datetime


class Bucket:
    """Where large blobs go, for `clew.open`: ``s3://bucket/prefix``, and likewise gs, az and file.

    Blobs of at least `over` bytes go there; smaller ones stay in the store. `options` go to obstore: ``config`` with
    endpoint, region and credentials, ``client_options``, ``retry_config``. Without credentials in them, obstore looks
    where the tools of the provider look. Nothing is asked of it before the first blob is put or read.
    """

    largest = PART * PARTS
    """Bytes that an object may have."""

    def __init__(self, url: str, *, over: int = OVER, **options: Any) -> None:
        if isinstance(over, bool) or not isinstance(over, int) or over < 1:
            raise Invalid("over must be a number of bytes greater than 0", hint="Leave it out for 1 MiB.")
        self.over = over
        self.name = display_url(url)
        """The URL, without anything that might be a secret."""
        parts = urlsplit(url)
        if parts.username is not None or parts.query or parts.fragment:
            hint = "Credentials and options are given apart from it."
            raise Invalid("the URL of a bucket has a scheme, a bucket and a prefix, and nothing else", hint=hint)
        if parts.scheme == "memory":
            raise Invalid("blobs cannot be kept in memory alone", hint="Name a bucket, or a folder: file:///…")
        self.marked: bytes | None = None
        """The store that is known to have its mark there: see `clew.engine.blob_objects`."""
        self._folder = folder(url)
        self._url, self._options = url, {"retry_config": _PATIENCE, **options}
        require_obstore()

    @cached_property
    def _store(self) -> ObjectStore:
        return connect(self._url, self._options)

    def put(self, path: str, parts: Iterable[bytes]) -> None:
        """Makes an object of what comes, as a stream; it is there whole and durable, or not at all. Unavailable.

        What `parts` raises is raised.
        """
        if self._folder is not None:
            _write(os.path.join(self._folder, path), parts)
            return
        from concurrent.futures import ThreadPoolExecutor
        from queue import Full, Queue

        import obstore

        handed: Queue[bytes | _Broken | None] = Queue(1)

        def taken() -> Iterator[bytes]:
            while (part := handed.get()) is not None:
                if isinstance(part, _Broken):
                    raise part
                yield part

        # obstore cannot be waited for inside of itself, and what is sent may come from there, too: so it has a thread.
        with ThreadPoolExecutor(1) as pool:
            sending = pool.submit(obstore.put, self._store, path, taken(), chunk_size=PART, max_concurrency=_AT_ONCE)

            def hand(part: bytes | _Broken | None) -> bool:
                while not sending.done():
                    with suppress(Full):
                        handed.put(part, timeout=0.1)
                        return True
                return False

            try:
                for part in parts:
                    if not hand(part):
                        break
            except BaseException:
                hand(_Broken())  # the bucket discards the parts it got
                raise
            hand(None)
            try:
                self._ask(sending.result)
            except NotFound as error:
                raise Unavailable(f"{self.name} is not there", hint="Check the name of the bucket.") from error

    def size(self, path: str) -> int | None:
        """How many bytes an object has; None if there is none. Unavailable."""
        import obstore

        try:
            return int(self._ask(lambda: obstore.head(self._store, path))["size"])
        except NotFound:
            return None

    def read(self, path: str, start: int, length: int) -> bytes | None:
        """Some bytes of an object, fewer at its end; None if there is none. Unavailable."""
        import obstore

        try:
            return bytes(self._ask(lambda: obstore.get_range(self._store, path, start=start, length=length)))
        except NotFound:
            return None

    def delete(self, path: str) -> None:
        """Removes an object; one that is gone already is no error. Unavailable."""
        import obstore

        with suppress(NotFound):
            self._ask(lambda: obstore.delete(self._store, path))
        if self._folder is not None:
            files.sync_folder(os.path.dirname(os.path.join(self._folder, path)))

    def list(self, prefix: str) -> Iterator[ListedObject]:
        """The objects in a folder of the bucket. Unavailable."""
        import obstore

        pages = iter(obstore.list(self._store, prefix))
        with suppress(NotFound):
            while (page := self._ask(lambda: next(pages, None))) is not None:
                for meta in page:
                    yield ListedObject(meta["path"], meta["size"], meta["last_modified"])

    def __repr__(self) -> str:
        return f"<Bucket {self.name}>"

    def _ask(self, work: Callable[[], T]) -> T:
        """The bucket's response. NotFound, Unavailable."""
        try:
            return ask(self.name, work)
        except FileNotFoundError as error:
            raise NotFound("object", "in the bucket") from error


def bucket(place: str | Bucket) -> Bucket:
    """The bucket that is meant. Invalid, Unavailable."""
    return place if isinstance(place, Bucket) else Bucket(place)


def display_url(url: str) -> str:
    """A bucket's URL as it may be shown. Invalid if it is none."""
    if not isinstance(url, str) or urlsplit(url).scheme not in SCHEMES:
        raise Invalid("a bucket is named by a URL", hint="Like s3://bucket/prefix, gs://…, az://…, file:///…")
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}{parts.path}"


def folder(url: str) -> str | None:
    """The folder that a URL means; None if it is not on this machine. Invalid if it has no whole path."""
    parts = urlsplit(url)
    if parts.scheme == "file" and (parts.netloc or not parts.path):
        raise Invalid("a folder is named by its whole path", hint="Like file:///var/blobs, with three slashes.")
    return os.path.abspath(unquote(parts.path)) if parts.scheme == "file" else None


def require_obstore() -> None:
    """Unavailable if the library is missing."""
    if find_spec("obstore") is None:
        raise MissingPackage("buckets need a library", "objects")


def connect(url: str, options: dict[str, Any]) -> ObjectStore:
    """An obstore client for a bucket; creates the folder of a file URL. Invalid, Unavailable."""
    require_obstore()
    from obstore.store import from_url

    place = folder(url)
    if place is not None:
        options = {name: value for name, value in options.items() if name != "retry_config"}
        _make_folder(place)
    try:
        return from_url(url, **options)
    except Exception as error:
        hint = "Check the URL and the options; the chained error may say more."
        raise Invalid(f"{display_url(url)} cannot be used: {type(error).__name__}", hint=hint) from error


def ask(name: str, work: Callable[[], T]) -> T:
    """A bucket's response. FileNotFoundError, NotImplementedError, Unavailable."""
    from obstore.exceptions import BaseError, PermissionDeniedError, PreconditionError, UnauthenticatedError

    try:
        return work()
    except PreconditionError as error:
        raise FileNotFoundError from error  # it is not there any more, as it was
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise Unavailable(f"{name} denied access", hint="Check the credentials.") from error
    except BaseError as error:
        hint = "Check the network, the bucket's name and the credentials, then make the same call again."
        raise Unavailable(f"{name} cannot be reached: {type(error).__name__}", hint=hint) from error


def _make_folder(place: str) -> None:
    try:
        files.make_folder(place)
    except OSError as error:
        raise files.unwritten(error, place) from error


def _write(path: str, parts: Iterable[bytes]) -> None:
    """In a folder obstore does not wait for the disk: clew's own way does."""
    raised: list[BaseException] = []

    def noted() -> Iterator[bytes]:
        try:
            yield from parts
        except BaseException as error:
            raised.append(error)
            raise

    _make_folder(os.path.dirname(path))
    try:
        files.write_private(path, noted())
    except OSError as error:
        if raised:  # the source's own
            raise
        raise files.unwritten(error, path) from error


class _Broken(Exception):
    """The source of an upload has failed."""
