"""Ids and the handles people type.

An id is a UUID; new ids are version 7, any version is accepted. The API uses its canonical text. The store uses its
sixteen bytes **reversed**: they start with the random part, so that one unique index also finds ids by handle, and rows
are spread evenly. Nothing is ordered by id.

A handle is the first letters of the reversed bytes in Crockford's base 32, without i, l, o and u. Case is
ignored; i and l are read as 1, o as 0.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from itertools import pairwise
from struct import Struct

from clew.errors import Ambiguous, Corrupted, Invalid, NotFound, clip

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
SHORTEST = 6
"""Letters of the shortest handle: 30 bits, so among 10,000 messages about one pair needs a seventh letter."""

_READ = str.maketrans(
    {letter: value for value, letter in enumerate(ALPHABET)}
    | {letter.upper(): value for value, letter in enumerate(ALPHABET)}
    | dict.fromkeys("iIlL", 1)
    | dict.fromkeys("oO", 0)
)
_TAILS = Struct("<64Q").unpack
_HEX = frozenset("0123456789abcdefABCDEF")

IdSource = Callable[[], bytes]
"""Returns a new id in stored form at each call, never the same twice."""


class Uuid7:
    """Makes version 7 ids in stored form that increase within the process, even if the clock steps back."""

    def __init__(self, clock: Callable[[], int] = time.time_ns) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._last = 0
        self._tails: list[int] = []

    def __call__(self) -> bytes:
        # 48 bits of milliseconds and a 12-bit counter: together one increasing number.
        now = (self._clock() // 1_000_000) << 12
        with self._lock:
            self._last = last = max(self._last + 1, now)
            if not self._tails:  # 64 at a time: a system call for each would dominate the cost
                self._tails = [tail & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000 for tail in _TAILS(os.urandom(512))]
            tail = self._tails.pop()
        head = (last >> 12) << 16 | 0x7000 | (last & 0xFFF)
        return (head << 64 | tail).to_bytes(16, "little")

    def forget(self) -> None:
        """Call this in a forked process: its parent has the same cached random bytes."""
        self._lock = threading.RLock()
        self._tails = []


new_id = Uuid7()
"""The default source of every store: ids increase within a process, so it has only one."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=new_id.forget)


def text(stored: bytes) -> str:
    """The canonical text of an id in stored form. Corrupted if it is not bytes."""
    try:
        return f"{stored[:11:-1].hex()}-{stored[11:5:-1].hex('-', 2)}-{stored[5::-1].hex()}"
    except (TypeError, AttributeError):
        raise Corrupted("an id", "it is not bytes") from None


def parse(value: str) -> bytes:
    """The stored form of an id given as text. Invalid if it is not a UUID."""
    stored = maybe(value)
    if stored is None:
        hint = "Use a UUID, such as 01890a5d-ac96-774b-bcce-b302099a8057."
        raise Invalid(f"{clip(str(value))} is not an id", hint=hint)
    return stored


def maybe(value: object) -> bytes | None:
    """The stored form of `value` if it is a UUID as text (canonical, or 32 hex digits), else None."""
    if not isinstance(value, str):
        raise Invalid(f"an id must be text, not {type(value).__name__}")
    digits = value
    if len(value) == 36:
        if value[8] != "-" or value[13] != "-" or value[18] != "-" or value[23] != "-":
            return None
        digits = value.replace("-", "")
    if len(digits) != 32 or not _HEX.issuperset(digits):
        return None
    return bytes.fromhex(digits)[::-1]


def handle(stored: bytes, length: int = SHORTEST) -> str:
    """The handle of an id, with `length` letters."""
    bits = int.from_bytes(stored, "big") << 2  # 128 bits and 2 more make 26 whole letters
    return "".join([ALPHABET[bits >> (125 - 5 * i) & 31] for i in range(length)])


def common_letters(one: bytes, other: bytes) -> int:
    """Number of leading handle letters that two different ids share."""
    return (128 - (int.from_bytes(one, "big") ^ int.from_bytes(other, "big")).bit_length()) // 5


def span(typed: str) -> tuple[bytes, bytes] | None:
    """The lowest and highest stored id that match a typed handle; None if it is not a handle."""
    if not typed.isalnum():
        return None  # a control character would be read as a letter
    letters = [ord(letter) for letter in typed.translate(_READ)]
    if not SHORTEST <= len(letters) <= 26 or max(letters) > 31:
        return None
    bits = 0
    for value in letters:
        bits = bits << 5 | value
    free = 130 - 5 * len(letters)
    low, high = bits << free, (bits + 1 << free) - 1
    return (low >> 2).to_bytes(16, "big"), (high >> 2).to_bytes(16, "big")


def longer_handles(sorted_ids: Iterable[bytes]) -> dict[bytes, int]:
    """The ids whose shortest unique handle has more than `SHORTEST` letters, each with its number of letters."""
    found: dict[bytes, int] = {}
    for one, other in pairwise(sorted_ids):
        if one[:3] == other[:3] and (length := common_letters(one, other) + 1) > SHORTEST:
            found[one] = max(length, found.get(one, 0))
            found[other] = length
    return found


def handle_beside(id: bytes, beside: Iterable[bytes]) -> str:
    """The shortest handle of `id` that differs from those of its neighbours."""
    length = SHORTEST
    for other in beside:
        if other[:3] == id[:3]:  # otherwise they share fewer than five letters
            length = max(length, common_letters(id, other) + 1)
    return handle(id, length)


def pick(what: str, typed: str, between: Callable[[bytes, bytes], list[bytes]]) -> bytes:
    """The only id that matches a typed handle, among those that `between` returns. NotFound, Ambiguous."""
    limits = span(typed)
    found = between(*limits) if limits else []
    if not found:
        hint = "" if limits else "A handle has at least 6 letters; an id is a UUID."
        raise NotFound(what, typed, hint=hint)
    if len(found) > 1:
        longest = max(common_letters(one, other) for one, other in pairwise(found)) + 1
        raise Ambiguous(what, typed, [handle(id, longest) for id in found])
    return found[0]
