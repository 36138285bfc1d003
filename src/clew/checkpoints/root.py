"""The folder that checkpoints are about. Nothing outside it is read or written, whatever links are put in the way.

Every path is walked from the root's own descriptor, one name at a time, and no name may be a link. A file is replaced
by putting the new one beside it and giving it the name: whoever looks sees the old one or the new one, whole.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from clew import files
from clew.checkpoints import naming
from clew.checkpoints.states import MISSING, Stamp, State, hashed, packed, unpacked
from clew.errors import ClewError, Invalid, Unavailable, clip

PERMISSIONS = 0o7777
TRIES = 5
"""How often a file is read that changes meanwhile."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_LOCKS = frozenset({errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP})
_PAUSE = 0.02
_PART = ".clew-", ".part"


class Blocked(Exception):
    """A name on the way to a path is a link or a file, and not a folder."""

    def __init__(self, at: str) -> None:
        self.at = at
        super().__init__(at)


class Seen(NamedTuple):
    """What is at a path, a file's content, and a stamp that the state was taken under."""

    state: State
    data: bytes = b""
    stamp: Stamp | None = None


class Root:
    """A folder, and what may be done below it."""

    def __init__(self, path: str | os.PathLike[str], *, max_file: int) -> None:
        if os.open not in os.supports_dir_fd or not hasattr(os, "O_NOFOLLOW"):
            raise Unavailable("this system cannot keep file operations inside a folder", hint="Use Linux or macOS.")
        name = os.fspath(path) if isinstance(path, str | os.PathLike) else None
        if not isinstance(name, str) or not name or "\0" in name:
            raise Invalid("a root is named by a path")
        self.path = os.path.realpath(name)
        if not os.path.isdir(self.path):
            raise Invalid(f"there is no folder {clip(name, 4096)}", hint="Name the folder that the files are in.")
        self._given = os.path.abspath(name)
        self._max_file = max_file

    def named(self, path: str | os.PathLike[str]) -> list[str]:
        """The paths below the root that writing to `path` would touch: itself, and what it leads to if it is a link.

        Invalid if one of them is not below the root.
        """
        return naming.named(self.path, self._given, path)

    # -- looking

    @contextmanager
    def locked(self, patience: float) -> Iterator[None]:
        """Keeps rewinds and captures apart from each other, in all processes. Unavailable after `patience`.

        The lock is on the folder itself; where the file system has none, they are not kept apart.
        """
        from fcntl import LOCK_UN, flock

        fd, until = self.open(), time.monotonic() + patience
        try:
            while not self._lock(fd):
                if time.monotonic() >= until:
                    hint = "Wait for it, then ask again."
                    raise Unavailable(f"another process captures or rewinds {self.path}", hint=hint)
                time.sleep(_PAUSE)
            yield
        finally:
            with suppress(OSError):
                flock(fd, LOCK_UN)  # closing is not enough: a forked child has the descriptor too
            os.close(fd)

    def _lock(self, fd: int) -> bool:
        from fcntl import LOCK_EX, LOCK_NB, flock

        try:
            flock(fd, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise self.unread(error, ".") from error
        return True

    def look(self, path: str) -> Seen:
        """What is at a path. Blocked if a link or a file is in the way; Unavailable if it cannot be read."""
        try:
            with self.folder(path) as (fd, name):
                return self.look_in(fd, name, path)
        except FileNotFoundError:
            return Seen(MISSING)
        except OSError as error:
            raise self.unread(error, path) from error

    def look_in(self, fd: int, name: str, path: str) -> Seen:
        """`look` in a folder that is open. FileNotFoundError, and what else the system says."""
        for _ in range(TRIES):
            said = os.stat(name, dir_fd=fd, follow_symlinks=False)
            if stat.S_ISREG(said.st_mode):
                seen = self._read(fd, name, said)
            elif stat.S_ISLNK(said.st_mode):
                seen = Seen(State("link", target=packed(os.readlink(name, dir_fd=fd))), b"", stamp(said))
            elif stat.S_ISDIR(said.st_mode):
                seen = Seen(State("dir", mode=said.st_mode & PERMISSIONS), b"", stamp(said))
            else:
                seen = Seen(skipped(said, "it is neither a file nor a link"), b"", stamp(said))
            if seen is not None:
                return seen
        raise Unavailable(
            f"{clip(path, 4096)} keeps changing while it is read", hint="Wait until whoever writes it is done."
        )

    def _read(self, folder: int, name: str, said: os.stat_result) -> Seen | None:
        """A file's content; None if it was changed or exchanged meanwhile."""
        if said.st_size > self._max_file:
            return Seen(skipped(said, f"it has more than {self._max_file:,} bytes"), b"", stamp(said))
        try:
            fd = os.open(name, _FILE, dir_fd=folder)
        except OSError as error:
            if error.errno == errno.ELOOP:  # it has become a link
                return None
            raise
        with os.fdopen(fd, "rb", buffering=0) as file:
            parts = []
            left = self._max_file + 1
            while left > 0 and (part := file.read(min(left, 1 << 20))):
                parts.append(part)
                left -= len(part)
            data, now = b"".join(parts), os.fstat(fd)
        if stamp(now) != stamp(said) or len(data) != now.st_size:
            return None
        return Seen(State("file", now.st_mode & PERMISSIONS, len(data), hashed(data)), data, stamp(now))

    def has(self, path: str) -> bool:
        """Whether every name on the way to a path is there, and written so."""
        parts = path.split("/")
        return all(part in self.listed("/".join(parts[:number])) for number, part in enumerate(parts))

    def listed(self, path: str) -> list[str]:
        """The names in a folder; none if there is no folder."""
        try:
            with self.folder(f"{path}/." if path else ".") as (fd, _):
                return os.listdir(fd)
        except (FileNotFoundError, Blocked):
            return []
        except OSError as error:
            raise self.unread(error, path) from error

    def writable(self, path: str) -> bool:
        """Whether names may be changed in the folder that a path is in; True if there is no such folder yet."""
        try:
            with self.folder(path) as (fd, _):
                effective = os.access in os.supports_effective_ids
                return os.access(".", os.W_OK | os.X_OK, dir_fd=fd, effective_ids=effective)
        except (FileNotFoundError, Blocked):
            return True
        except OSError:
            return False

    def readable(self, path: str) -> bool:
        """Whether the names in a folder can be listed and looked at; True if there is no such folder."""
        try:
            with self.folder(f"{path}/.") as (fd, _):
                effective = os.access in os.supports_effective_ids
                return os.access(".", os.R_OK | os.X_OK, dir_fd=fd, effective_ids=effective)
        except (FileNotFoundError, Blocked):
            return True
        except OSError:
            return False

    def is_mine(self, path: str) -> bool:
        """Whether a folder is this user's, who may open it."""
        try:
            with self.folder(f"{path}/.") as (fd, _):
                return os.fstat(fd).st_uid == os.geteuid()
        except (OSError, Blocked):
            return False

    @contextmanager
    def folder(self, path: str) -> Iterator[tuple[int, str]]:
        """The open folder that a path is in, and the path's last name. Blocked; FileNotFoundError if it is missing."""
        *way, name = path.split("/")
        if not name or ".." in (*way, name) or "." in way or "" in way:
            raise Invalid(f"{clip(path, 4096)} does not lead to a place below the root")
        fd = self._walk(way)
        try:
            yield fd, name
        finally:
            os.close(fd)

    def _walk(self, way: Sequence[str]) -> int:
        fd = self.open()
        for number, part in enumerate(way):
            try:
                below = self.enter(fd, part, "/".join(way[: number + 1]))
            finally:
                os.close(fd)
            fd = below
        return fd

    def open(self) -> int:
        """The root's own descriptor."""
        try:
            return os.open(self.path, _FOLDER)
        except OSError as error:
            raise self.unread(error, ".") from error

    def enter(self, fd: int, name: str, path: str) -> int:
        """The descriptor of a folder in an open one. Blocked if it is a link or a file; and what the system says."""
        try:
            return os.open(name, _FOLDER, dir_fd=fd)
        except OSError as error:
            if error.errno in (errno.ENOTDIR, errno.ELOOP):
                raise Blocked(path) from None
            raise

    # -- changing

    def put(self, path: str, state: State, data: bytes, part: str, expect: Stamp | None) -> bool:
        """Puts a file or a link in place of whatever file or link is there. False, nothing done, if it has changed.

        Its content is on the disk before it has the name. `part` is its name until then; what an earlier try left
        under that name is removed.
        """
        with self.folder(path) as (fd, name):
            with suppress(FileNotFoundError):
                os.unlink(part, dir_fd=fd)
            try:
                if state.kind == "link":
                    os.symlink(unpacked(state.target), part, dir_fd=fd)
                else:
                    self._write(fd, name, part, state, data)
                if not _still(fd, name, expect):
                    os.unlink(part, dir_fd=fd)
                    return False
                os.rename(part, name, src_dir_fd=fd, dst_dir_fd=fd)
            except BaseException:
                with suppress(OSError):
                    os.unlink(part, dir_fd=fd)
                raise
        return True

    def _write(self, folder: int, name: str, part: str, state: State, data: bytes) -> None:
        fd = os.open(part, _NEW, 0o600, dir_fd=folder)
        with os.fdopen(fd, "wb", buffering=0) as file:
            view = memoryview(data)
            while view:
                view = view[file.write(view) :]
            with suppress(OSError):  # whose it is stays, where that is allowed
                now = os.stat(name, dir_fd=folder, follow_symlinks=False)
                mine = os.fstat(fd)
                if (now.st_uid, now.st_gid) != (mine.st_uid, mine.st_gid):
                    os.fchown(fd, now.st_uid, now.st_gid)
            os.fchmod(fd, state.mode)
            files.sync(fd)

    def remove(self, path: str, expect: Stamp) -> bool:
        """Removes a file or a link. False, nothing done, if it has changed."""
        with self.folder(path) as (fd, name):
            if not _still(fd, name, expect):
                return False
            os.unlink(name, dir_fd=fd)
        return True

    def remove_folder(self, path: str) -> bool:
        """Removes a folder. False if something is in it."""
        with self.folder(path) as (fd, name):
            try:
                os.rmdir(name, dir_fd=fd)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                return False
        return True

    def make_folder(self, path: str) -> None:
        """Makes a folder unless one is there."""
        with self.folder(path) as (fd, name):
            try:
                os.mkdir(name, 0o777, dir_fd=fd)
            except FileExistsError:
                if not stat.S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
                    raise

    def set_mode(self, path: str, mode: int) -> None:
        """Gives a folder its mode, also one that may not be read."""
        try:
            with self.folder(f"{path}/.") as (fd, _):
                os.fchmod(fd, mode)
                os.fsync(fd)
        except PermissionError:
            with self.folder(path) as (fd, name):
                _set_mode_unread(fd, name, mode)

    def clear(self, path: str, part: str) -> None:
        """Removes what an earlier try to put something at `path` left under the name `part`."""
        with suppress(FileNotFoundError, Blocked), self.folder(path) as (fd, _):
            os.unlink(part, dir_fd=fd)

    def sync(self, paths: set[str]) -> None:
        """Brings the names in the folders that these paths are in to the disk, where they are still there."""
        for path in {one.rpartition("/")[0] for one in paths}:
            with suppress(FileNotFoundError, Blocked), self.folder(f"{path}/." if path else ".") as (fd, _):
                os.fsync(fd)

    # -- errors

    def unread(self, error: OSError, path: str) -> ClewError:
        """The error that says what could not be read."""
        if path == ".":
            hint = "Put the folder back: make it, if it was removed, and ask again. Nothing was changed."
            return Unavailable(f"{clip(self.path, 4096)} cannot be read: {error.strerror}", hint=hint)
        return Unavailable(
            f"{clip(path, 4096)} cannot be read: {error.strerror}",
            hint="Nothing was checkpointed. Give this program the right to read it, or leave it out.",
        )


def skipped(said: os.stat_result, why: str) -> State:
    """The state of something whose content is not kept."""
    return State("skipped", said.st_mode & PERMISSIONS, said.st_size, why=why, stamp=stamp(said))


def stamp(said: os.stat_result) -> Stamp:
    """What tells a file from what it was before."""
    return said.st_ctime_ns, said.st_mtime_ns, said.st_ino, said.st_size


def part_name(key: str) -> str:
    """The name that a file has until it is whole; `key` is 24 hex digits."""
    return key.join(_PART)


def is_part(name: str) -> bool:
    """True for a name that `part_name` made."""
    return name.startswith(_PART[0]) and name.endswith(_PART[1]) and len(name) == 24 + sum(map(len, _PART))


def _still(fd: int, name: str, expect: Stamp | None) -> bool:
    """Whether what has the name is still what was looked at; None stands for nothing."""
    try:
        return stamp(os.stat(name, dir_fd=fd, follow_symlinks=False)) == expect
    except FileNotFoundError:
        return expect is None


def _set_mode_unread(fd: int, name: str, mode: int) -> None:
    """Gives a folder that cannot be opened its mode. A link put in its place is not followed."""
    if os.chmod in os.supports_follow_symlinks:
        os.chmod(name, mode, dir_fd=fd, follow_symlinks=False)
        return
    found = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
    try:
        os.chmod(f"/proc/self/fd/{found}", mode)
    finally:
        os.close(found)
