"""Snapshots as files in a directory, and the file system that they are on: the real one, or one in memory.

Each snapshot is one file, and so is each large medium.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

from clew.base import files
from clew.base.files import unwritten
from clew.base.outside import close_fd, open_fd
from clew.errors import ClewError, Corrupted, Invalid, NotFound, Unavailable, clip
from clew.snapshots.file_format import HEAD, Form, Head, errors_of, summaries
from clew.snapshots.types import Snapshot, SnapshotSummary, a_snapshot, is_snapshot_id, validate_snapshot_id

if TYPE_CHECKING:
    import logging

LOCK = ".lock"
"""The name of the lock file. It is empty and is never removed."""
LARGEST = 2**31 - 1
"""Maximum size of a file in bytes: more cannot be decrypted at once."""
PATIENCE = 60.0
"""Seconds to wait for another process that cleans up the same folder."""


class Files(Protocol):
    """The file system of a `FileStore`. Paths are absolute; failures are OSErrors."""

    def read(self, path: str, limit: int | None = None) -> bytes:
        """A file, or its first `limit` bytes. Does not follow a link."""

    def size(self, path: str) -> int:
        """The bytes of a file. Does not follow a link."""

    def replace(self, path: str, data: bytes) -> None:
        """Writes or replaces a file atomically, with mode 0600. Durable on return."""

    def remove(self, path: str) -> None:
        """Removes a file, durably."""

    def names(self, directory: str, *, follow: bool = True) -> list[str]:
        """The names in a directory; with `follow` also if it is a link to one."""

    def make_directory(self, path: str) -> None:
        """Creates a directory with mode 0700, and its parents, unless it exists."""

    def lock(self, directory: str) -> AbstractContextManager[None]:
        """An exclusive lock among all processes that use the directory."""


class LocalFiles:
    """The real file system."""

    def read(self, path: str, limit: int | None = None) -> bytes:
        fd = open_fd(path, _READ)
        try:
            if limit is not None:
                return os.read(fd, limit)
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "it is not a regular file", path)
            if status.st_size > LARGEST:
                raise OSError(errno.EFBIG, "it is larger than any snapshot", path)
            with os.fdopen(fd, "rb", closefd=False) as file:
                return file.read()
        finally:
            close_fd(fd)

    def size(self, path: str) -> int:
        return os.lstat(path).st_size

    def replace(self, path: str, data: bytes) -> None:
        files.replace_private(path, data)

    def remove(self, path: str) -> None:
        os.unlink(path)
        files.sync_folder(os.path.dirname(path))

    def names(self, directory: str, *, follow: bool = True) -> list[str]:
        if not follow and os.path.islink(directory):
            raise OSError(errno.ENOTDIR, "it is a link", directory)
        return os.listdir(directory)

    def make_directory(self, path: str) -> None:
        files.make_folder(path)

    def lock(self, directory: str) -> AbstractContextManager[None]:
        path = os.path.join(directory, LOCK)
        if not os.path.lexists(path):
            files.make_private(path, b"")
        return files.lock(path, PATIENCE)


_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


class MemoryFiles:
    """A file system in memory, for tests."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.directories: set[str] = set()
        self._lock = threading.RLock()

    def read(self, path: str, limit: int | None = None) -> bytes:
        if path not in self.files:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return self.files[path][:limit]

    def size(self, path: str) -> int:
        if path not in self.files:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return len(self.files[path])

    def replace(self, path: str, data: bytes) -> None:
        if os.path.dirname(path) not in self.directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        self.files[path] = bytes(data)

    def remove(self, path: str) -> None:
        if self.files.pop(path, None) is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)

    def names(self, directory: str, *, follow: bool = True) -> list[str]:
        if directory not in self.directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", directory)
        return sorted(
            os.path.basename(path)
            for path in (*self.files, *self.directories)
            if os.path.dirname(path) == directory != path
        )

    def make_directory(self, path: str) -> None:
        while path not in self.directories:
            self.directories.add(path)
            path = os.path.dirname(path)

    @contextmanager
    def lock(self, directory: str) -> Iterator[None]:
        with self._lock:
            yield


MEDIA = "media"
"""The subfolder for large media, which are not written again with every snapshot."""
_ENDING = ".json"
_MEDIUM = re.compile(r"[0-9a-f]{64}(\.[0-9a-f]{12}\.part)?")
"""The name of a medium, or of a temporary file that a crash left; other files do not belong to the store."""

Summaries = list[SnapshotSummary]  # inside `FileStore`, list is its method
Errors = list[ClewError]


class FileStore:
    """A `SnapshotStore` in a directory, which the first save creates.

    With `key`, 32 bytes from `generate_key`, everything is encrypted and bound to its id: a renamed file cannot be
    opened. Reads files of the original program, plain and encrypted; writes them with `compatible`. `~` is not
    expanded. `logger` gets warnings about files that a list skips. `fs` is another file system, for tests.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        key: bytes | None = None,
        logger: logging.Logger | None = None,
        fs: Files | None = None,
        *,
        compatible: bool = False,
    ) -> None:
        name = os.fspath(directory) if isinstance(directory, str | os.PathLike) else None
        if not isinstance(name, str) or "\0" in name:
            raise Invalid("directory must be a path")
        if name.startswith("~"):
            raise Invalid("clew does not expand ~", hint="Use os.path.expanduser first, or write ./~ if you mean it.")
        self._directory = os.path.abspath(name)
        self._media = os.path.join(self._directory, MEDIA)
        self._form = Form(key, compatible=compatible)
        self._logger = logger
        self._fs = LocalFiles() if fs is None else fs
        self._split = not compatible

    def save(self, snapshot: Snapshot) -> None:
        """Saves a snapshot and replaces the one with the same id, if any. Durable on return."""
        path = self._path(a_snapshot(snapshot).id)
        packed = self._form.pack(snapshot, split=self._split)
        try:
            self._fs.make_directory(self._directory)
            with ExitStack() as stack:
                if packed.media or self._has_media():
                    stack.enter_context(self._fs.lock(self._directory))
                before = self._media_of(snapshot.id) if self._has_media() else set()
                self._add_media(packed.media)
                self._fs.replace(path, packed.data)
                if before - packed.media.keys():
                    self._collect()
        except OSError as error:
            raise unwritten(error, path) from error

    def load(self, id: str) -> Snapshot:
        """The snapshot. NotFound; Corrupted if it is not what was saved under this id; WrongKey, Sealed."""
        path = self._path(id)
        data = self._read(path, id)
        while True:
            try:
                return self._form.unpack(id, data, lambda name: self._medium(id, name))
            except Corrupted as error:
                before, data = data, self._read(path, id)
                if data == before:
                    hint = f"Restore {path} from a backup, or delete the snapshot."
                    raise type(error)(error.where, error.why, hint=hint) from None
                # Another save replaced it meanwhile and removed the media of the old version.

    def list(self) -> Summaries:
        """All snapshots, newest first, by the size and the first 4 KiB of each file.

        Passes over damaged ones, with a warning to the logger. It does not read the messages: see `verify`.
        """
        return summaries(map(self._head_or_error, self._ids()), self._warn)

    def verify(self) -> Errors:
        """Loads every snapshot, and returns the errors of those that do not load."""
        return errors_of(self.load, self._ids())

    def delete(self, id: str) -> None:
        """Deletes a snapshot and the media that only it uses. NotFound."""
        path = self._path(id)
        try:
            with ExitStack() as stack:
                media = self._has_media()
                if media:
                    stack.enter_context(self._fs.lock(self._directory))
                self._fs.remove(path)
                self._tidy(id)
                if media:
                    self._collect()
        except FileNotFoundError:
            raise NotFound("snapshot", id) from None
        except OSError as error:
            raise unwritten(error, path) from error

    def __repr__(self) -> str:
        return f"<FileStore {self._directory}>"

    # -- files

    def _path(self, id: str) -> str:
        """The path of a snapshot. Checks the id first, then that the path stays in the directory."""
        return self._inside(self._directory, validate_snapshot_id(id) + _ENDING)

    def _inside(self, directory: str, name: str) -> str:
        path = os.path.abspath(os.path.join(directory, name))
        if os.path.dirname(path) != directory or path == directory:
            raise Invalid(f"{clip(name, 32)} leads out of the directory")
        return path

    def _ids(self) -> Iterator[str]:
        """The ids of the snapshots in the directory; ignores other names."""
        try:
            names = self._fs.names(self._directory)
        except FileNotFoundError:
            return
        except OSError as error:
            raise _unread(error, self._directory) from error
        for name in names:
            id = name.removesuffix(_ENDING)
            if id != name and is_snapshot_id(id):
                yield id
            elif name not in (MEDIA, LOCK):
                self._debug("%s is not a snapshot", clip(name))

    def _head_or_error(self, id: str) -> tuple[str, Head | ClewError]:
        """The head of a file, or the error of reading it."""
        try:
            return id, self._head(id)
        except ClewError as error:
            return id, error

    def _head(self, id: str) -> Head:
        """The head of a file. Reads the whole file only if its beginning is not enough."""
        path = self._directory + os.sep + id + _ENDING  # the id is valid
        data = self._read(path, id, HEAD)
        head = self._form.head(id, data)
        if head is not None and self._form.has_size(
            head, data, len(data) if len(data) < HEAD else self._size(path, id)
        ):
            return head
        return self._form.whole_head(id, self._read(path, id))  # also if another save replaced it meanwhile

    def _size(self, path: str, id: str) -> int:
        try:
            return self._fs.size(path)
        except FileNotFoundError:
            raise NotFound("snapshot", id) from None
        except OSError as error:
            raise _unread(error, path) from error

    def _read(self, path: str, id: str, limit: int | None = None) -> bytes:
        try:
            return self._fs.read(path, limit)
        except FileNotFoundError:
            raise NotFound("snapshot", id) from None
        except OSError as error:
            raise _unread(error, path) from error

    def _tidy(self, id: str) -> None:
        """Removes temporary files that a crash during a save left."""
        for name in self._fs.names(self._directory):
            if name.startswith(f"{id}{_ENDING}.") and name.endswith(".part"):
                with suppress(FileNotFoundError):
                    self._fs.remove(os.path.join(self._directory, name))

    # -- media

    def _has_media(self) -> bool:
        return bool(self._media_names())

    def _media_names(self) -> set[str]:
        """The names in the media folder. Refuses a link: its files do not belong to the store."""
        try:
            return set(self._fs.names(self._media, follow=False))
        except FileNotFoundError:
            return set()
        except OSError as error:
            raise unwritten(error, self._media) from error

    def _media_of(self, id: str) -> set[str]:
        """The media of a snapshot; none if it does not exist or cannot be read."""
        try:
            return {span.name for span in self._head(id).media}
        except ClewError:
            return set()

    def _add_media(self, media: dict[str, bytes]) -> None:
        if media:
            self._fs.make_directory(self._media)
            for name in media.keys() - self._media_names():
                self._fs.replace(self._inside(self._media, name), media[name])

    def _medium(self, id: str, name: str) -> bytes:
        try:
            return self._fs.read(self._inside(self._media, name))
        except FileNotFoundError:
            raise Corrupted(f"snapshot {id}", "one of its media is missing") from None
        except OSError as error:
            raise _unread(error, self._media) from error

    def _collect(self) -> None:
        """Removes media that no snapshot uses; none if a snapshot cannot be read. The caller holds the lock."""
        used = set[str]()
        for id in self._ids():
            try:
                used |= {span.name for span in self._head(id).media}
            except NotFound:
                continue
            except ClewError as error:
                self._warn("no media removed: snapshot %s may use them: %s", id, error.message)
                return
        for name in filter(_MEDIUM.fullmatch, self._media_names() - used):
            self._fs.remove(os.path.join(self._media, name))

    # -- errors

    def _debug(self, text: str, *about: object) -> None:
        if self._logger is not None:
            self._logger.debug(text, *about)

    def _warn(self, text: str, *about: object) -> None:
        if self._logger is not None:
            self._logger.warning(text, *about)


def _unread(error: OSError, path: str) -> Unavailable:
    return Unavailable(f"{path} cannot be read: {error.strerror}", hint="Check its permissions and the disk.")
