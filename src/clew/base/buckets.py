"""Object storage: buckets of S3, Google Cloud Storage, Azure and compatible services, and folders.

The library obstore does the requests. It finds credentials like the provider's own tools, including environment
variables (``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT_URL``, ``AWS_ALLOW_HTTP``, …). clew neither reads nor stores them.
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
"""Default minimum size of blobs that go to the bucket. Smaller ones are faster in the store."""
PART = 8 << 20
"""Bytes of one part of an upload, …"""
PARTS = 10_000
"""… and the maximum number of parts, which is the limit of S3: an object may have 78 GiB."""
_AT_ONCE = 2
_PATIENCE = {"max_retries": 3, "retry_timeout": timedelta(seconds=20)}
"""Retries of one request. After that the caller gets an error, and may repeat the call."""

T = TypeVar("T")


class ListedObject(NamedTuple):
    """An object in a list."""

    path: str
    size: int
    modified: datetime


class Bucket:
    """Where large blobs go, for `clew.open`: ``s3://bucket/prefix``, and likewise gs, az and file.

    Blobs of at least `over` bytes go there; smaller ones stay in the store. `options` go to obstore: ``config`` with
    endpoint, region and credentials, ``client_options``, ``retry_config``. Without credentials in them, obstore finds
    them like the provider's own tools. The first request is made when a blob is first stored or read.
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
            hint = "Pass credentials and options as keyword arguments."
            raise Invalid("a bucket URL may have only a scheme, a bucket and a prefix", hint=hint)
        if parts.scheme == "memory":
            raise Invalid("blobs cannot be stored in memory", hint="Use a bucket, or a folder: file:///…")
        self.marked: bytes | None = None
        """The id of the store whose mark is known to be there: see `clew.engine.blob_objects`."""
        self._folder = folder(url)
        self._url, self._options = url, {"retry_config": _PATIENCE, **options}
        require_obstore()

    @cached_property
    def _store(self) -> ObjectStore:
        return connect(self._url, self._options)

    def put(self, path: str, parts: Iterable[bytes]) -> None:
        """Uploads an object as a stream: complete and durable when this returns, or not at all. Unavailable.

        Exceptions of `parts` are raised unchanged.
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

        # A call of obstore must not run inside another one, and `parts` may use obstore: so it has its own thread.
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
                raise Unavailable(f"{self.name} does not exist", hint="Check the name of the bucket.") from error

    def size(self, path: str) -> int | None:
        """The size of an object; None if it does not exist. Unavailable."""
        import obstore

        try:
            return int(self._ask(lambda: obstore.head(self._store, path))["size"])
        except NotFound:
            return None

    def read(self, path: str, start: int, length: int) -> bytes | None:
        """A range of an object, shorter at its end; None if it does not exist. Unavailable."""
        import obstore

        try:
            return bytes(self._ask(lambda: obstore.get_range(self._store, path, start=start, length=length)))
        except NotFound:
            return None

    def delete(self, path: str) -> None:
        """Removes an object, if it exists. Unavailable."""
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
    """`place` as a Bucket. Invalid, Unavailable."""
    return place if isinstance(place, Bucket) else Bucket(place)


def display_url(url: str) -> str:
    """A bucket's URL without secrets. Invalid if it is not a URL of a bucket."""
    if not isinstance(url, str) or urlsplit(url).scheme not in SCHEMES:
        raise Invalid("a bucket must be given as a URL", hint="Use s3://bucket/prefix, gs://…, az://… or file:///….")
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}{parts.path}"


def folder(url: str) -> str | None:
    """The folder of a file URL; None for other URLs. Invalid if the path is not absolute."""
    parts = urlsplit(url)
    if parts.scheme == "file" and (parts.netloc or not parts.path):
        raise Invalid("a folder must be given as an absolute path", hint="Use three slashes: file:///var/blobs.")
    return os.path.abspath(unquote(parts.path)) if parts.scheme == "file" else None


def require_obstore() -> None:
    """MissingPackage if obstore is not installed."""
    if find_spec("obstore") is None:
        raise MissingPackage("buckets need the obstore package", "clew[objects]")


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
        raise FileNotFoundError from error  # it was changed or removed
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
    """Writes an object to a folder durably. obstore does not sync files to disk."""
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
        if raised:  # an error of `parts`
            raise
        raise files.unwritten(error, path) from error


class _Broken(Exception):
    """The source of an upload has failed."""
