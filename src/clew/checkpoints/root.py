"""The root folder of checkpoints. Nothing outside it is read or written, even if links lead out of it.

Every path is opened from the root's descriptor, one name at a time, and no name may be a link. A file is replaced
atomically: the new file is written beside it and renamed.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from clew.base import files
from clew.base.outside import as_file, open_fd
from clew.checkpoints.filestate import MISSING, FileState, Stamp, pack_path, sha256_hex, unpack_path
from clew.errors import ClewError, Invalid, Unavailable, clip

PERMISSIONS = 0o7777
TRIES = 5
"""How often a file is read again because it changed during the read."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_LOCKS = frozenset({errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP})
_PAUSE = 0.02
_PART = ".clew-", ".part"


class PathBlocked(Exception):
    """A name within a path is a link or a file instead of a folder."""

    def __init__(self, at: str) -> None:
        self.at = at
        super().__init__(at)


class ObservedState(NamedTuple):
    """The state of a path, a file's content, and the stamp of the state."""

    state: FileState
    data: bytes = b""
    stamp: Stamp | None = None


class RootFolder:
    """A folder, and file operations below it."""

    def __init__(self, path: str | os.PathLike[str], *, max_file: int) -> None:
        if os.open not in os.supports_dir_fd or not hasattr(os, "O_NOFOLLOW"):
            raise Unavailable("this system cannot confine file operations to a folder", hint="Use Linux or macOS.")
        name = os.fspath(path) if isinstance(path, str | os.PathLike) else None
        if not isinstance(name, str) or not name or "\0" in name:
            raise Invalid("root must be a path")
        self.path = os.path.realpath(name)
        if not os.path.isdir(self.path):
            raise Invalid(f"there is no folder {clip(name, 4096)}", hint="Pass the folder that contains the files.")
        self._given = os.path.abspath(name)
        self._max_file = max_file

    def resolve_paths(self, path: str | os.PathLike[str]) -> list[str]:
        """The paths below the root that a write to `path` would change: the path, and its target if it is a link.

        Raises Invalid if one of them is not below the root.
        """
        return resolve_paths(self.path, self._given, path)

    # -- looking

    @contextmanager
    def lock(self, patience: float) -> Iterator[None]:
        """Excludes concurrent rewinds and captures, in all processes. Raises Unavailable after `patience`.

        The lock is on the folder itself. On a file system without locks there is no exclusion.
        """
        from fcntl import LOCK_UN, flock

        fd, until = self.open(), time.monotonic() + patience
        try:
            while not self._lock(fd):
                if time.monotonic() >= until:
                    hint = "Try again later."
                    raise Unavailable(f"another process is capturing or rewinding {self.path}", hint=hint)
                time.sleep(_PAUSE)
            yield
        finally:
            with suppress(OSError):
                flock(fd, LOCK_UN)  # closing is not enough, because a forked child has the descriptor too
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

    def observe(self, path: str) -> ObservedState:
        """The state of a path. Raises PathBlocked if a link or a file is in the way, and Unavailable."""
        try:
            with self.folder(path) as (fd, name):
                return self.observe_in(fd, name, path)
        except FileNotFoundError:
            return ObservedState(MISSING)
        except OSError as error:
            raise self.unread(error, path) from error

    def observe_in(self, fd: int, name: str, path: str) -> ObservedState:
        """`look` in an open folder. Raises FileNotFoundError and other OSErrors."""
        for _ in range(TRIES):
            status = os.stat(name, dir_fd=fd, follow_symlinks=False)
            if stat.S_ISREG(status.st_mode):
                seen = self._read(fd, name, status)
            elif stat.S_ISLNK(status.st_mode):
                seen = ObservedState(
                    FileState("link", target=pack_path(os.readlink(name, dir_fd=fd))), b"", stamp(status)
                )
            elif stat.S_ISDIR(status.st_mode):
                seen = ObservedState(FileState("dir", mode=status.st_mode & PERMISSIONS), b"", stamp(status))
            else:
                seen = ObservedState(skipped_state(status, "it is neither a file nor a link"), b"", stamp(status))
            if seen is not None:
                return seen
        raise Unavailable(
            f"{clip(path, 4096)} keeps changing while it is read",
            hint="Wait until the program that writes it has finished.",
        )

    def _read(self, folder: int, name: str, status: os.stat_result) -> ObservedState | None:
        """A file's content; None if it was changed or replaced during the read."""
        if status.st_size > self._max_file:
            return ObservedState(
                skipped_state(status, f"it has more than {self._max_file:,} bytes"), b"", stamp(status)
            )
        try:
            fd = open_fd(name, _FILE, dir_fd=folder)
        except Invalid:
            return ObservedState(skipped_state(status, "it is a file of an open store"), b"", stamp(status))
        except OSError as error:
            if error.errno == errno.ELOOP:  # it is a link now
                return None
            raise
        with as_file(fd, buffering=0) as file:
            parts = []
            left = self._max_file + 1
            while left > 0 and (part := file.read(min(left, 1 << 20))):
                parts.append(part)
                left -= len(part)
            data, now = b"".join(parts), os.fstat(fd)
        if stamp(now) != stamp(status) or len(data) != now.st_size:
            return None
        return ObservedState(
            FileState("file", now.st_mode & PERMISSIONS, len(data), sha256_hex(data)), data, stamp(now)
        )

    def has(self, path: str) -> bool:
        """True if every name of a path exists in exactly this spelling."""
        parts = path.split("/")
        return all(part in self.names_in("/".join(parts[:number])) for number, part in enumerate(parts))

    def names_in(self, path: str) -> list[str]:
        """The names in a folder; empty if there is no folder."""
        try:
            with self.folder(f"{path}/." if path else ".") as (fd, _):
                return os.listdir(fd)
        except (FileNotFoundError, PathBlocked):
            return []
        except OSError as error:
            raise self.unread(error, path) from error

    def writable(self, path: str) -> bool:
        """True if names in a path's folder may be changed, or if the folder does not exist yet."""
        try:
            with self.folder(path) as (fd, _):
                effective = os.access in os.supports_effective_ids
                return os.access(".", os.W_OK | os.X_OK, dir_fd=fd, effective_ids=effective)
        except (FileNotFoundError, PathBlocked):
            return True
        except OSError:
            return False

    def readable(self, path: str) -> bool:
        """True if a folder's names can be listed and examined, or if it does not exist."""
        try:
            with self.folder(f"{path}/.") as (fd, _):
                effective = os.access in os.supports_effective_ids
                return os.access(".", os.R_OK | os.X_OK, dir_fd=fd, effective_ids=effective)
        except (FileNotFoundError, PathBlocked):
            return True
        except OSError:
            return False

    def is_mine(self, path: str) -> bool:
        """True if this user owns the folder and may open it."""
        try:
            with self.folder(f"{path}/.") as (fd, _):
                return os.fstat(fd).st_uid == os.geteuid()
        except (OSError, PathBlocked):
            return False

    @contextmanager
    def folder(self, path: str) -> Iterator[tuple[int, str]]:
        """The open folder of a path, and the path's last name. Raises PathBlocked, FileNotFoundError."""
        *way, name = path.split("/")
        if not name or ".." in (*way, name) or "." in way or "" in way:
            raise Invalid(f"{clip(path, 4096)} is not below the root")
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
        """The root's descriptor."""
        try:
            return os.open(self.path, _FOLDER)
        except OSError as error:
            raise self.unread(error, ".") from error

    def enter(self, fd: int, name: str, path: str) -> int:
        """The descriptor of a folder within an open one. Raises PathBlocked if it is a link or a file, and OSError."""
        try:
            return os.open(name, _FOLDER, dir_fd=fd)
        except OSError as error:
            if error.errno in (errno.ENOTDIR, errno.ELOOP):
                raise PathBlocked(path) from None
            raise

    # -- changing

    def stage(self, path: str, state: FileState, data: bytes, part: str) -> int | None:
        """Writes a file or link beside a path, under the temporary name `part`; removes leftovers of an earlier try.

        Returns the descriptor of a file. The caller syncs and closes it before `swap`.
        """
        with self.folder(path) as (fd, name):
            with suppress(FileNotFoundError):
                os.unlink(part, dir_fd=fd)
            if state.kind != "link":
                return self._write(fd, name, part, state, data)
            os.symlink(unpack_path(state.target), part, dir_fd=fd)
        return None

    def swap(self, path: str, part: str, expect: Stamp | None) -> bool:
        """Replaces the file or link at a path with a staged one. Returns False and does nothing if it has changed."""
        with self.folder(path) as (fd, name):
            if not _still(fd, name, expect):
                os.unlink(part, dir_fd=fd)
                return False
            os.rename(part, name, src_dir_fd=fd, dst_dir_fd=fd)
        return True

    def _write(self, folder: int, name: str, part: str, state: FileState, data: bytes) -> int:
        fd = os.open(part, _NEW, 0o600, dir_fd=folder)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            with suppress(OSError):  # keep the owner, where that is allowed
                now = os.stat(name, dir_fd=folder, follow_symlinks=False)
                mine = os.fstat(fd)
                if (now.st_uid, now.st_gid) != (mine.st_uid, mine.st_gid):
                    os.fchown(fd, now.st_uid, now.st_gid)
            os.fchmod(fd, state.mode)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def remove(self, path: str, expect: Stamp) -> bool:
        """Removes a file or a link. Returns False and does nothing if it has changed."""
        with self.folder(path) as (fd, name):
            if not _still(fd, name, expect):
                return False
            os.unlink(name, dir_fd=fd)
        return True

    def remove_folder(self, path: str) -> bool:
        """Removes a folder. Returns False if it is not empty."""
        with self.folder(path) as (fd, name):
            try:
                os.rmdir(name, dir_fd=fd)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                return False
        return True

    def make_folder(self, path: str) -> None:
        """Creates a folder unless it exists."""
        with self.folder(path) as (fd, name):
            try:
                os.mkdir(name, 0o777, dir_fd=fd)
            except FileExistsError:
                if not stat.S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
                    raise

    def set_mode(self, path: str, mode: int) -> None:
        """Sets the mode of a folder, even if it is not readable."""
        try:
            with self.folder(f"{path}/.") as (fd, _):
                os.fchmod(fd, mode)
                os.fsync(fd)
        except PermissionError:
            with self.folder(path) as (fd, name):
                _set_mode_unread(fd, name, mode)

    def clear(self, path: str, part: str) -> None:
        """Removes the temporary file `part` of an earlier try to replace `path`."""
        with suppress(FileNotFoundError, PathBlocked), self.folder(path) as (fd, _):
            os.unlink(part, dir_fd=fd)

    def sync(self, paths: set[str]) -> None:
        """Syncs the folders of these paths, where they still exist."""
        folders = {one.rpartition("/")[0] for one in paths}
        for some in files.batches(sorted(folders)):
            opened: list[int] = []
            try:
                for path in some:
                    with suppress(FileNotFoundError, PathBlocked), self.folder(f"{path}/." if path else ".") as (fd, _):
                        opened.append(os.dup(fd))
                files.sync_all(opened)
            finally:
                for fd in opened:
                    os.close(fd)

    # -- errors

    def unread(self, error: OSError, path: str) -> ClewError:
        """The error for something that could not be read."""
        if path == ".":
            hint = "Restore the folder and try again. Nothing was changed."
            return Unavailable(f"{clip(self.path, 4096)} cannot be read: {error.strerror}", hint=hint)
        return Unavailable(
            f"{clip(path, 4096)} cannot be read: {error.strerror}",
            hint="Nothing was checkpointed. Grant read permission, or exclude the file.",
        )


def skipped_state(status: os.stat_result, why: str) -> FileState:
    """The state of a path whose content is not stored."""
    return FileState("skipped", status.st_mode & PERMISSIONS, status.st_size, why=why, stamp=stamp(status))


def stamp(status: os.stat_result) -> Stamp:
    """The stamp of a file."""
    return status.st_ctime_ns, status.st_mtime_ns, status.st_ino, status.st_size


def part_name(key: str) -> str:
    """The temporary name of a file; `key` is 24 hex digits."""
    return key.join(_PART)


def is_part(name: str) -> bool:
    """True for a name of `part_name`."""
    return name.startswith(_PART[0]) and name.endswith(_PART[1]) and len(name) == 24 + sum(map(len, _PART))


def _still(fd: int, name: str, expect: Stamp | None) -> bool:
    """True if the name still has this stamp; None stands for a missing path."""
    try:
        return stamp(os.stat(name, dir_fd=fd, follow_symlinks=False)) == expect
    except FileNotFoundError:
        return expect is None


def _set_mode_unread(fd: int, name: str, mode: int) -> None:
    """Sets the mode of a folder that cannot be opened. Does not follow a link in its place."""
    if os.chmod in os.supports_follow_symlinks:
        os.chmod(name, mode, dir_fd=fd, follow_symlinks=False)
        return
    found = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
    try:
        os.chmod(f"/proc/self/fd/{found}", mode)
    finally:
        os.close(found)


def resolve_paths(root: str, given: str, path: str | os.PathLike[str]) -> list[str]:
    """`RootFolder.named`. `root` has no links; `given` is the caller's name for it, used for relative paths."""
    found = [_below(root, given, path, path)]
    full = os.path.join(root, found[0])
    if os.path.islink(full):
        target = _below(root, given, os.path.realpath(full), path)
        if target != found[0]:
            found.append(target)
    return found


def _below(root: str, given: str, path: str | os.PathLike[str], given_path: str | os.PathLike[str]) -> str:
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "\0" in text or not _is_name(text):
        raise Invalid("a file must be given as a path")
    folder, name = os.path.split(os.path.join(given, text).rstrip("/") or "/")
    if name in ("", ".", ".."):
        folder, name = os.path.split(os.path.realpath(os.path.join(folder, name)))
    full = os.path.join(os.path.realpath(folder), name)
    prefix = root.rstrip("/") + "/"
    if not full.startswith(prefix) or full == prefix:
        raise Invalid(
            f"{clip(os.fspath(given_path), 4096)} is not below {clip(root, 4096)}",
            hint="Pass files inside the root, or use a root that contains them all.",
        )
    return _spell_path(root, full.removeprefix(prefix))


def _spell_path(root: str, path: str) -> str:
    """The path with each name as the folder spells it; some file systems ignore case or normalization."""
    here, done = root, list[str]()
    for part in path.split("/"):
        done.append(_spell_name(here, part))
        here = os.path.join(here, done[-1])
    return "/".join(done)


def _spell_name(folder: str, name: str) -> str:
    """A name as its folder spells it."""
    try:
        names = os.listdir(folder)
        found = os.lstat(os.path.join(folder, name))
    except OSError:  # it does not exist or cannot be seen
        return name
    return name if name in names else next((one for one in names if _is(os.path.join(folder, one), found)), name)


def _is(path: str, status: os.stat_result) -> bool:
    """True if this is the file that was found."""
    try:
        return os.path.samestat(os.lstat(path), status)
    except OSError:
        return False


def _is_name(text: str) -> bool:
    """True if a file can have this name. Only surrogates that stand for a byte are allowed."""
    try:
        return bool(os.fsencode(text))
    except UnicodeEncodeError:
        return False
