"""Files on disk: writes them durably, and checks that only their owner can access them.

Checks apply to the opened file, not to its name. Links are not followed, and opening does not wait for a pipe or a
device.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple, TypeVar

from clew.base.loading import CLOSE_SOME, NO_DESCRIPTOR
from clew.base.outside import as_file, close_fd, open_fd
from clew.errors import ClewError, Forbidden, Invalid, NotFound, ReadOnly, StorageFull, Unavailable, clip

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_PAUSE = 0.02
"""Seconds between two tries at a lock."""
_AT_A_TIME = 8
"""Syncs in progress at the same time. With 16, rewinding 500 files was no faster."""
_OPEN_FILES = 64
T = TypeVar("T")


def user() -> int:
    """The effective user id of this process. Unavailable if the system has none."""
    if not hasattr(os, "geteuid"):
        hint = "Keep the key in an environment variable, or use a passphrase."
        raise Unavailable("this system does not support file owners", hint=hint)
    return os.geteuid()


def read_private(path: str, limit: int) -> bytes:
    """The first `limit` bytes of a regular file that belongs to the user, and that others cannot access.

    NotFound; Invalid, with a hint, if others can access it.
    """
    with as_file(_open_private(path, os.O_RDONLY)) as file:
        try:
            return file.read(limit)
        except OSError as error:
            raise Unavailable(f"{path} cannot be read: {error.strerror}", hint="Check the disk.") from error


def exists(path: str) -> bool:
    """True if `path` names something. Forbidden if a folder above it cannot be entered: then nobody knows."""
    try:
        os.stat(path)
    except PermissionError as error:
        raise Forbidden(f"{path} cannot be opened ({error.strerror})") from None
    except (OSError, ValueError):
        return False
    return True


def make_private(path: str, data: bytes) -> None:
    """Creates a file that only its owner can access, unless the name exists. Durable when this returns.

    It gets its name when it is complete. An existing file is made durable too, because the process that made it may
    have ended before that.
    """
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise Invalid(f"folder {folder} does not exist", hint="Create it first.")
    try:
        if not os.path.lexists(path):
            _place(path, data)
        sync_folder(folder)
    except OSError as error:
        raise unwritten(error, path) from error


def _place(path: str, data: bytes) -> None:
    part = f"{path}.{os.urandom(6).hex()}.part"
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            os.fchmod(fd, 0o600)  # regardless of the umask
            file.write(data)
            file.flush()
            sync(fd)
        with suppress(FileExistsError):  # another process was first
            os.link(part, path)
    finally:
        os.unlink(part)


def replace(path: str, data: bytes, mode: int = 0o600) -> None:
    """Replaces a file, and keeps its mode. Durable when this returns.

    Readers see the old file or the new one, complete.
    """
    try:
        with suppress(FileNotFoundError):
            mode = stat.S_IMODE(os.stat(path).st_mode)
        replace_private(path, data, mode)
    except OSError as error:
        raise unwritten(error, path) from error


def make_folder(path: str) -> None:
    """Creates a folder that only its owner can access, and its missing parents. OSError."""
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for one in reversed(missing):
        try:
            os.mkdir(one, 0o700)
        except FileExistsError:
            continue  # another process was first
        os.chmod(one, 0o700)  # regardless of the umask
        sync_folder(os.path.dirname(one))


def replace_private(path: str, data: bytes, mode: int = 0o600) -> None:
    """`write_private` for bytes in memory."""
    write_private(path, (data,), mode)


def write_private(path: str, parts: Iterable[bytes], mode: int = 0o600) -> None:
    """Writes or replaces a file that only its owner can access. OSError.

    Readers see the old file or the new one, complete, also after a crash. Durable when this returns.
    """
    part = f"{path}.{os.urandom(6).hex()}.part"
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            os.fchmod(fd, mode)  # regardless of the umask
            for data in parts:
                file.write(data)
            file.flush()
            sync(fd)
        os.replace(part, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise
    sync_folder(os.path.dirname(path) or ".")


@contextmanager
def lock(path: str, patience: float) -> Iterator[None]:
    """A lock among this user's processes and threads. Unavailable after `patience` seconds.

    The file stays: removing it would let two holders in at once.
    """
    fd = _acquire_lock(path, time.monotonic() + patience)
    try:
        yield
    finally:
        from fcntl import LOCK_UN, flock

        flock(fd, LOCK_UN)  # closing is not enough: a forked child has the descriptor too
        close_fd(fd)


def _acquire_lock(path: str, until: float) -> int:
    while True:
        fd = _open_private(path, os.O_RDWR | os.O_CREAT)
        try:
            if _try_lock(fd, path):
                return fd
        except BaseException:  # interrupted: release the lock
            close_fd(fd)
            raise
        close_fd(fd)
        if time.monotonic() >= until:
            raise Unavailable(
                f"another process holds {path}", hint="Check whether it waits for input, then repeat the call."
            )
        time.sleep(_PAUSE)


def _try_lock(fd: int, path: str) -> bool:
    """True if the lock is acquired, and the file still has this name: temporary folders are cleaned up."""
    from fcntl import LOCK_EX, LOCK_NB, flock

    try:
        flock(fd, LOCK_EX | LOCK_NB)
        return os.path.samestat(os.fstat(fd), os.lstat(path))
    except (BlockingIOError, FileNotFoundError):
        return False
    except OSError as error:
        hint = "Set TMPDIR to a folder on a file system with locks."
        raise Unavailable(f"{path} cannot be locked: {error.strerror}", hint=hint) from error


def _open_private(path: str, flags: int) -> int:
    me = user()
    try:
        fd = open_fd(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise NotFound("file", path) from None
    except OSError as error:
        if os.path.islink(path):
            raise Invalid(f"{path} is a symbolic link", hint="Name the file itself.") from None
        hint = CLOSE_SOME if error.errno in NO_DESCRIPTOR else "Check its permissions, its folder and the disk."
        raise Unavailable(f"{path} cannot be opened: {error.strerror}", hint=hint) from error
    try:
        _check_private(path, os.fstat(fd), me)
    except BaseException:
        close_fd(fd)
        raise
    return fd


def _check_private(path: str, status: os.stat_result, me: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise Invalid(f"{path} is not a regular file", hint="Name a file.")
    if status.st_uid != me:
        raise Invalid(f"{path} belongs to another user", hint="Make a copy that is yours, or run as its owner.")
    if status.st_mode & 0o077:
        shown = clip(path, 4096)
        hint = f"chmod 600 {shown}; if others may have read it, change what it holds."
        raise Invalid(f"{path} can be used by others: its mode is {stat.S_IMODE(status.st_mode):03o}", hint=hint)


def sync(fd: int) -> None:
    """Writes a file to disk, past the drive's cache if the system can."""
    try:
        from fcntl import F_FULLFSYNC, fcntl  # type: ignore[attr-defined,unused-ignore]
    except ImportError:
        os.fsync(fd)
    else:
        fcntl(fd, F_FULLFSYNC)  # on macOS fsync only reaches the drive's cache


def sync_all(descriptors: Sequence[int]) -> None:
    """`sync` for many files or folders, several at a time: the disk finishes them together."""
    failed: list[OSError] = []
    waiting = iter(descriptors)

    def work() -> None:
        for one in waiting:
            try:
                sync(one)
            except OSError as error:
                failed.append(error)

    threads = [threading.Thread(target=work, name="clew-sync") for _ in range(min(len(descriptors), _AT_A_TIME) - 1)]
    for thread in threads:
        thread.start()
    work()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """`items` in groups of files that are open at the same time: a process has few descriptors."""
    for start in range(0, len(items), _OPEN_FILES):
        yield items[start : start + _OPEN_FILES]


def sync_folder(folder: str) -> None:
    """Makes the names in a folder durable, if the system can sync folders. OSError, also if no file can be opened."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in NO_DESCRIPTOR:
            raise
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def unwritten(error: OSError, path: str) -> ClewError:
    """The clew error for a failed write, with a hint."""
    if error.errno in _FULL:
        return StorageFull(f"no space is left for {path}")
    if error.errno in _FORBIDDEN:
        return ReadOnly(f"{path} cannot be written")
    hint = CLOSE_SOME if error.errno in NO_DESCRIPTOR else "Check the disk, then make the same call again."
    return Unavailable(f"{path} cannot be written: {error.strerror}", hint=hint)


NAMESPACE = os.path.join("agentvoice", "conversations")
"""The folder of conversation records, below the storage folder of a workspace."""
MARKERS = {
    ".nosync": b"",
    ".stignore": b"// clew: a store is not copied while it is in use\n*\n",  # Syncthing
}
ATTRIBUTES = {"user.com.dropbox.ignored": b"1"}


def make_namespace(path: str) -> None:
    """Creates the folders of a new store, if it is in the namespace and the folder above exists. ReadOnly.

    A folder elsewhere is left to the caller: its name may be a typing error.
    """
    folder = os.path.dirname(os.path.abspath(path))
    if folder.endswith(os.sep + NAMESPACE) and os.path.isdir(folder.removesuffix(NAMESPACE)):
        make_private_folder(os.path.dirname(folder))
        make_private_folder(folder)
        keep_from_sync(folder)


def make_private_folder(folder: str, hint: str = "Choose another path for the store.") -> None:
    """Creates a folder that only its owner can access, and those above it, unless it exists. ReadOnly."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError as error:
        raise ReadOnly(f"cannot create {folder}: {error.strerror}", hint=hint) from error


def keep_from_sync(folder: str) -> None:
    """Puts the markers into a folder, as far as its file system supports them; keeps existing files."""
    for name, content in MARKERS.items():
        with suppress(OSError):
            fd = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(content)
    for name, content in ATTRIBUTES.items():
        with suppress(OSError, AttributeError):  # not supported everywhere
            os.setxattr(folder, name, content)


_NETWORK = frozenset(
    (
        "9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "fuse.glusterfs", "fuse.s3fs", "fuse.sshfs", "gfs2",
        "lustre", "ncpfs", "nfs", "nfs4", "smb3", "smbfs",
    )
)  # fmt: skip


class Mount(NamedTuple):
    """The mount that a file is on."""

    point: str
    """Where it is mounted: the file itself, or a folder above it."""
    kind: str
    """The kind of file system."""

    @property
    def network(self) -> bool:
        """True for a network file system."""
        return self.kind in _NETWORK


def mount_of(path: str) -> Mount | None:
    """The mount that a resolved path is on; None if unknown."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            lines = [line.split(" ") for line in file]
    except OSError:
        return None
    best = None
    for line in lines:  # of several mounts at one point, the last one is in effect
        point = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), line[4])
        inside = path == point or path.startswith(point.rstrip(os.sep) + os.sep)
        if inside and (best is None or len(point) >= len(best.point)):
            best = Mount(point, line[line.index("-") + 1])
    return best
