"""What the measures share: where files are made, how large things are, and stores that are filled once."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

import clew
from benchmarks.floor import Floor, session_id

T = TypeVar("T")

MEMORY = "/dev/shm"
RARE, COMMON = "zephyr", "harbour"
"""Words that stand in one message of 5,000, and in one of 100."""


@dataclass(frozen=True)
class Sizes:
    """How large everything is, and how often it is repeated."""

    rounds: int = 30
    """Blocks of each side where something is read."""
    blocks: int = 60
    """Blocks of each side where something is appended: short ones and many, because the disk has moods."""
    ops: int = 20
    """Appends in one block."""
    burst: int = 320
    """Appends of tasks or threads that write at once; a multiple of 64."""
    long: int = 100_000
    """Messages in the long session."""
    path: int = 10_000
    sessions: int = 100_000
    peer_messages: int = 10_000
    peer_sessions: int = 5_000
    each: int = 200
    """Messages in each of the hundred sessions that `space` interleaves."""
    seconds: float = 5.0
    """How long processes write side by side."""
    starts: int = 15
    idle: float = 600.0
    """Seconds for which a page is left open."""
    stores: tuple[int, ...] = (5_000, 100_000, 1_000_000)
    """Messages in the stores whose `growth` is measured."""


FULL = Sizes()
QUICK = Sizes(
    rounds=8, blocks=15, burst=128, long=10_000, path=2_000, sessions=5_000, peer_messages=300, peer_sessions=200,
    each=20, seconds=1.5, starts=5, idle=30, stores=(5_000, 100_000),
)  # fmt: skip
TINY = Sizes(
    rounds=2, blocks=2, ops=4, burst=64, long=300, path=120, sessions=120, peer_messages=20, peer_sessions=20,
    each=2, seconds=0.2, starts=1, idle=1, stores=(100, 300),
)  # fmt: skip
"""For the test that keeps this code from rotting."""


class Bench:
    """A folder on disk, one in memory, and what was made in them so far."""

    def __init__(self, sizes: Sizes, *, disk: str | None = None, memory: str = MEMORY, peers: bool = True) -> None:
        self.sizes = sizes
        self.peers = peers
        self.disk = tempfile.mkdtemp(prefix="clew-bench-", dir=disk)
        has_memory = os.path.isdir(memory) and os.access(memory, os.W_OK)
        self.memory = tempfile.mkdtemp(prefix="clew-bench-", dir=memory) if has_memory else self.disk
        self._made: dict[str, object] = {}
        self._number = 0

    def close(self) -> None:
        for place in {self.disk, self.memory}:
            shutil.rmtree(place, ignore_errors=True)

    def file(self, place: str) -> str:
        """A name for a new database."""
        self._number += 1
        return os.path.join(place, f"{self._number}.db")

    def copy(self, path: str) -> str:
        """A copy of a closed database, for a measure that changes it."""
        return shutil.copy(path, self.file(os.path.dirname(path)))

    def once(self, name: str, make: Callable[[], T]) -> T:
        """What `make` made when it was first asked for."""
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]  # type: ignore[return-value]

    def long_session(self, place: str, length: int) -> tuple[str, str, str]:
        """A session of `length` messages: clew's file, the floor's file, the session's name in it."""
        return self.once(f"long {place} {length}", lambda: _long(self, place, length))


def _long(bench: Bench, place: str, length: int) -> tuple[str, str, str]:
    ours, theirs, name = bench.file(place), bench.file(place), session_id()
    said = messages(length)
    with clew.open(ours) as store:
        session = store.sessions.create(title="Long", cwd="/src/app")
        with store.transaction():
            for start in range(0, length, 10_000):
                session.append(said[start : start + 10_000])
    floor = Floor(theirs)
    floor.add_sessions([(name, "Long", "/src/app", 1)])
    floor.fill(name, encoded(said))
    floor.close()
    return ours, theirs, name


_WORDS = [
    "".join(random.Random(seed).choices("abcdefghijklmnoprstuvw", k=3 + seed % 8)) for seed in range(3000)
]  # fmt: skip


def texts(count: int, *, seed: int = 7) -> list[str]:
    """Texts that make messages of about 500 bytes; a few words are frequent and most are not, as in speech."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        words = [_WORDS[int(2999 * chance.random() ** 3)] for _ in range(80)]
        if number % 5000 == 11:
            words[5] = RARE
        if number % 100 == 3:
            words[9] = COMMON
        found.append(f"{number} {' '.join(words)}"[:445])
    return found


def messages(count: int, *, seed: int = 7) -> list[clew.Message]:
    """Questions and answers by turns."""
    return [
        clew.assistant(text) if number % 2 else clew.user(text) for number, text in enumerate(texts(count, seed=seed))
    ]


def encoded(said: Sequence[clew.Message]) -> list[bytes]:
    """The JSON that clew stores, for the floor to store as well."""
    return [msgspec.json.encode(message) for message in said]
