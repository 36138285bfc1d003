"""Checks the write-ahead log, by its format (https://www.sqlite.org/fileformat2.html#walformat).

SQLite reads the log up to the first frame with a wrong checksum, and silently ignores the rest: this is how it detects
an incomplete commit. So one flipped bit drops every later commit, acknowledged or not. The checksums form a chain, and
each frame contains the value with which the next one starts. So the frames after a damaged one can still be checked.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from struct import Struct
from typing import BinaryIO, NamedTuple

from clew.backends.problems import Problem

_HEADER = Struct(">8I")
_FRAME = Struct(">6I")
_MAGIC = 0x377F0682
"""If the last bit is set, checksums use big-endian numbers."""
_PAIRS = {_MAGIC: Struct("<2I"), _MAGIC | 1: Struct(">2I")}
_BITS = 0xFFFFFFFF
TRIES = 5
"""Reads of a log that changes meanwhile. Damage looks the same in two consecutive reads."""

Sum = tuple[int, int]


class Break(NamedTuple):
    """A break in the chain of checksums, with valid frames after it."""

    log: bytes
    """The header of the log, which identifies it."""
    frame: int
    """The number of the first damaged frame; 0 for the header."""
    frames: int
    """The number of valid frames after it."""
    commits: int
    """The number of commits in these frames."""


def check_wal(conn: sqlite3.Connection, store: str) -> Iterator[Problem]:
    """Finds a damaged frame with commits after it. SQLite drops them when it next reads the log from the file."""
    path = f"{os.path.realpath(store)}-wal"
    (size,) = conn.execute("PRAGMA page_size").fetchone()
    seen = None
    for _ in range(TRIES):
        broken = _read_log(path, size)
        if broken is None:
            return
        if broken == seen:  # otherwise another program may be writing
            what = f"frame {broken.frame:,} is" if broken.frame else "its header is"
            after = f"SQLite ignores {broken.frames:,} frames and {broken.commits:,} commits after it"
            yield Problem("wal", path, f"{what} damaged, and {after}")
            return
        seen = broken


def pages_in_log(store: str) -> set[int]:
    """The numbers of the pages in the log, also of commits that SQLite ignores."""
    found: set[int] = set()
    with suppress(FileNotFoundError), open(f"{store}-wal", "rb") as file:
        header = file.read(_HEADER.size)
        if len(header) == _HEADER.size:
            length = _FRAME.size + _HEADER.unpack(header)[2]
            while len(frame := file.read(_FRAME.size)) == _FRAME.size:
                found.add(_FRAME.unpack(frame)[0])
                file.seek(length - _FRAME.size, os.SEEK_CUR)
    return found - {0}  # zeros at the end, not a frame: see `clew.backends.sqlite.reserve`


def _read_log(path: str, size: int) -> Break | None:
    try:
        with open(path, "rb") as file:  # SQLite has no locks on this file that closing it would drop
            return _walk(file, size, os.fstat(file.fileno()).st_size)
    except FileNotFoundError:
        return None


def _walk(file: BinaryIO, size: int, end: int) -> Break | None:
    """The first break that proves damage: after it, there is a complete commit and a later frame.

    A break in the last commit is no proof. A power cut during an unacknowledged commit leaves the same.

    Does not read frames beyond `end`, because writers may append faster than this reads.
    """
    log = file.read(_HEADER.size)
    if len(log) < _HEADER.size:
        return None
    magic, _, _, _, *salts, first, second = _HEADER.unpack(log)
    stored: Sum = (first, second)
    fitting = [  # the magic number itself, which determines how checksums are computed, may be damaged
        order for number, order in _PAIRS.items() if _sum(number.to_bytes(4) + log[4:24], (0, 0), order) == stored
    ]
    pairs = fitting[0] if fitting else _PAIRS.get(magic, _PAIRS[_MAGIC])
    made = _sum(log[:24], (0, 0), pairs)
    broken = None if made == stored and magic in _PAIRS else 0
    number = frames = commits = 0
    ended = proof = False
    length = _FRAME.size + size
    while _HEADER.size + (number + 1) * length <= end and len(frame := file.read(length)) == length:
        number += 1
        _, pages, *found, first, second = _FRAME.unpack_from(frame)
        if broken == 0 and number == 1:
            salts = found  # those in the header may be damaged
        data = frame[:8] + frame[_FRAME.size :]
        starts = {stored, made} if found == salts else set()
        stored = (first, second)
        sums = [_sum(data, start, pairs) for start in starts]
        sound = stored in sums
        made = stored if sound or not sums else sums[0]  # correct if only the checksum itself is damaged
        if broken is None and not sound:
            broken, ended = number, found == salts and pages > 0
        elif broken is not None:
            frames, commits, proof = frames + sound, commits + (sound and pages > 0), proof or (ended and sound)
            ended = sound and pages > 0
    return Break(log, broken, frames, commits) if broken is not None and proof else None


def _sum(data: bytes, start: Sum, pairs: Struct) -> Sum:
    """The checksum of `data`, continued from `start`."""
    first, second = start
    for one, other in pairs.iter_unpack(data):
        first = first + one + second & _BITS
        second = second + other + first & _BITS
    return first, second
