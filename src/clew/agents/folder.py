"""Files of a mirror: for their owner alone, grown at their end, replaced whole, and durable when a call returns."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain
from typing import IO

from clew import files
from clew.agents.lines import open_regular
from clew.errors import NotFound
from clew.mirrors import PART

_BLOCK = 1 << 18
_PRIVATE = 0o600


def make(path: str) -> None:
    """A folder for its owner alone, unless it is there; durable in the one above it."""
    if os.path.isdir(path):
        return
    make(os.path.dirname(path))
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
    files.sync_folder(os.path.dirname(path))


def size(path: str) -> int:
    """Bytes of a file; 0 if there is none."""
    try:
        return os.lstat(path).st_size
    except FileNotFoundError:
        return 0


def remove(path: str) -> None:
    """Takes a file away, if it is there."""
    with suppress(FileNotFoundError):
        os.unlink(path)


def read(path: str, limit: int) -> bytes | None:
    """The first `limit` bytes of a file; None if there is none."""
    try:
        fd = open_regular(path)
    except NotFound:
        return None
    with os.fdopen(fd, "rb") as file:
        return file.read(limit)


def append(path: str, valid: int, pieces: Iterable[bytes]) -> int:
    """Writes on after the first `valid` bytes. What an earlier call could not finish is finished; anything else goes.

    Returns the size then.
    """
    there = os.path.lexists(path)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, _PRIVATE)
    at, rest = valid, iter(pieces)
    with os.fdopen(fd, "r+b", buffering=_BLOCK) as file:
        file.seek(at)
        for piece in rest:
            same = _same(file.read(len(piece)), piece)
            at += same
            if same < len(piece):  # from here on it is not there, or not as it has to be
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
    """How many bytes two have in common at their beginning."""
    if one == other:
        return len(one)
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def replace(path: str, pieces: Iterable[bytes]) -> int:
    """Puts a new file in the place of the old one: whoever opens it sees one or the other, whole. Returns its size."""
    part = path + PART  # one at a time: the caller holds the mirror's lock
    remove(part)
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _PRIVATE)
    with os.fdopen(fd, "wb", buffering=_BLOCK) as file:
        done = _write(file, pieces)
    os.rename(part, path)
    files.sync_folder(os.path.dirname(path))
    return done


def _write(file: IO[bytes], pieces: Iterable[bytes]) -> int:
    """Writes the pieces and brings them to the disk. Returns how many bytes."""
    done = sum(file.write(piece) for piece in pieces)
    file.flush()
    files.sync(file.fileno())
    return done
