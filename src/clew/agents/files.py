"""File operations of a mirror: private to the owner, append or replace, durable when a call returns."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain
from typing import IO

from clew.agents.jsonl import open_regular
from clew.base import files
from clew.base.outside import as_file, open_fd
from clew.engine.mirrors import PART
from clew.errors import NotFound

_BLOCK = 1 << 18
_PRIVATE = 0o600


def make(path: str) -> None:
    """Creates a folder that only its owner can access, and syncs its parent."""
    if os.path.isdir(path):
        return
    make(os.path.dirname(path))
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
    files.sync_folder(os.path.dirname(path))


def size(path: str) -> int:
    """Size of a file; 0 if it does not exist."""
    try:
        return os.lstat(path).st_size
    except FileNotFoundError:
        return 0


def remove(path: str) -> None:
    """Removes a file, if it exists."""
    with suppress(FileNotFoundError):
        os.unlink(path)


def read(path: str, limit: int) -> bytes | None:
    """The first `limit` bytes of a file; None if it does not exist."""
    try:
        fd = open_regular(path)
    except NotFound:
        return None
    with as_file(fd) as file:
        return file.read(limit)


def append(path: str, valid: int, pieces: Iterable[bytes]) -> int:
    """Appends lines after the first `valid` bytes, and returns the new size.

    Completes a write that an earlier call did not finish; removes anything else after `valid`. If the last valid byte
    is no longer a newline, it becomes one again: otherwise the next line would be glued to the damaged one.
    """
    there = os.path.lexists(path)
    fd = open_fd(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, _PRIVATE)
    at, rest = (valid - 1, chain([b"\n"], pieces)) if valid else (0, iter(pieces))
    with as_file(fd, "r+b", _BLOCK) as file:
        file.seek(at)
        for piece in rest:
            same = _same(file.read(len(piece)), piece)
            at += same
            if same < len(piece):  # from here on the rest of the file is wrong or missing
                rest = chain([piece[same:]], rest)
                break
        if os.fstat(fd).st_size > at:
            file.truncate(at)
        file.seek(at)
        at += _write(file, rest)
    if not there:
        files.sync_folder(os.path.dirname(path))
    return at


def _same(one: bytes, other: bytes) -> int:
    """Length of the common prefix."""
    if one == other:
        return len(one)
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def replace(path: str, pieces: Iterable[bytes]) -> int:
    """Replaces a file atomically: readers see the old file or the new one. Returns its size."""
    part = path + PART  # the caller holds the mirror's lock, so one writer at a time
    remove(part)
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _PRIVATE)
    with os.fdopen(fd, "wb", buffering=_BLOCK) as file:
        done = _write(file, pieces)
    os.rename(part, path)
    files.sync_folder(os.path.dirname(path))
    return done


def _write(file: IO[bytes], pieces: Iterable[bytes]) -> int:
    """Writes and syncs the pieces. Returns the number of bytes."""
    done = sum(file.write(piece) for piece in pieces)
    file.flush()
    files.sync(file.fileno())
    return done
