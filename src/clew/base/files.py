"""Files on disk: writes them durably, and checks that only their owner can access them.

Checks apply to the opened file, not to its name. Links are not followed, and opening does not wait for a pipe or a
device.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from clew.base.loading import CLOSE_SOME, NO_DESCRIPTOR
from clew.errors import ClewError, Invalid, NotFound, ReadOnly, StorageFull, Unavailable, clip

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_PAUSE = 0.02
"""Seconds between two tries at a lock."""


def user() -> int:
    """The number of the user whose rights this process has. Unavailable where the system has none."""
    if not hasattr(os, "geteuid"):
        hint = "Keep the key in an environment variable, or use a passphrase."
        raise Unavailable("this system does not say whose a file is", hint=hint)
    return os.geteuid()


def read_private(path: str, limit: int) -> bytes:
    """The first `limit` bytes of a regular file that its owner alone may touch, and the caller is its owner.

    NotFound; Invalid, with what to change, if others may touch it.
    """
    with os.fdopen(_open_private(path, os.O_RDONLY), "rb") as file:
        try:
            return file.read(limit)
        except OSError as error:
            raise Unavailable(f"{path} cannot be read: {error.strerror}", hint="Check the disk.") from error


def make_private(path: str, data: bytes) -> None:
    """Makes a file that its owner alone may touch, unless something has that name. Durable when this returns.

    It gets its name when it is complete. An existing file is made durable too, because the process that made it may
    have ended before that.
    """
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise Invalid(f"there is no folder {folder}", hint="Create it first.")
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
    """Puts a file in the place of the one with its name, which keeps its mode. Durable when this returns.

    Readers see the old file or the new one, complete.
    """
    try:
        with suppress(FileNotFoundError):
            mode = stat.S_IMODE(os.stat(path).st_mode)
        replace_private(path, data, mode)
    except OSError as error:
        raise unwritten(error, path) from error


def make_folder(path: str) -> None:
    """Makes a folder that its owner alone may touch, and those above it, unless it is there. OSError."""
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
    """`write_private` of bytes that are in memory."""
    write_private(path, (data,), mode)


def write_private(path: str, parts: Iterable[bytes], mode: int = 0o600) -> None:
    """Puts a file in place of the one of that name, if there is one; its owner alone may touch it. OSError.

    Who reads sees the old one or the new one, whole; so does who looks after a crash. Durable when this returns.
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
    """One holder at a time among this user's processes and threads. Unavailable after `patience` seconds.

    The file stays: taking it away would let two in at once.
    """
    fd = _acquire_lock(path, time.monotonic() + patience)
    try:
        yield
    finally:
        from fcntl import LOCK_UN, flock

        flock(fd, LOCK_UN)  # closing is not enough: a forked child has the descriptor too
        os.close(fd)


def _acquire_lock(path: str, until: float) -> int:
    while True:
        fd = _open_private(path, os.O_RDWR | os.O_CREAT)
        try:
            if _try_lock(fd, path):
                return fd
        except BaseException:  # interrupted: release the lock
            os.close(fd)
            raise
        os.close(fd)
        if time.monotonic() >= until:
            raise Unavailable(
                f"another process holds {path}", hint="Look for one that waits for an answer; then make the call again."
            )
        time.sleep(_PAUSE)


def _try_lock(fd: int, path: str) -> bool:
    """Whether the lock is held now, and on the file that others will open: temporary folders are swept."""
    from fcntl import LOCK_EX, LOCK_NB, flock

    try:
        flock(fd, LOCK_EX | LOCK_NB)
        return os.path.samestat(os.fstat(fd), os.lstat(path))
    except (BlockingIOError, FileNotFoundError):
        return False
    except OSError as error:
        hint = "Name a folder on a file system with locks in TMPDIR."
        raise Unavailable(f"{path} cannot be locked: {error.strerror}", hint=hint) from error


def _open_private(path: str, flags: int) -> int:
    me = user()
    try:
        fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o600)
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
        os.close(fd)
        raise
    return fd


def _check_private(path: str, said: os.stat_result, me: int) -> None:
    if not stat.S_ISREG(said.st_mode):
        raise Invalid(f"{path} is not a regular file", hint="Name a file.")
    if said.st_uid != me:
        raise Invalid(f"{path} belongs to another user", hint="Make a copy that is yours, or run as its owner.")
    if said.st_mode & 0o077:
        shown = clip(path, 4096)
        hint = f"chmod 600 {shown}; if others may have read it, change what it holds."
        raise Invalid(f"{path} can be used by others: its mode is {stat.S_IMODE(said.st_mode):03o}", hint=hint)


def sync(fd: int) -> None:
    """Brings a file to the disk, past the drive's cache where the system tells them apart."""
    try:
        from fcntl import F_FULLFSYNC, fcntl  # type: ignore[attr-defined,unused-ignore]
    except ImportError:
        os.fsync(fd)
    else:
        fcntl(fd, F_FULLFSYNC)  # on macOS fsync only reaches the drive's cache


def sync_folder(folder: str) -> None:
    """A name is durable once its folder is; some systems cannot sync one. OSError, also if no file can be opened."""
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
    """The error that says why a file could not be written, and what to do."""
    if error.errno in _FULL:
        return StorageFull(f"no space is left for {path}")
    if error.errno in _FORBIDDEN:
        return ReadOnly(f"{path} cannot be written")
    hint = CLOSE_SOME if error.errno in NO_DESCRIPTOR else "Check the disk, then make the same call again."
    return Unavailable(f"{path} cannot be written: {error.strerror}", hint=hint)
