"""P6: a flipped bit in the write-ahead log does not drop acknowledged commits in silence."""

from __future__ import annotations

import random
import shutil
import struct
from collections import Counter
from pathlib import Path

import pytest

import clew
from clew.errors import ClewError

FRAME = 24 + 4096


class Logged:
    """A store whose last ten messages are in the log alone, as a process that was killed leaves it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        with clew.open(folder / "made.db") as store:
            self.id = store.sessions.create(title="first").id
            store.sessions.get(self.id).append(clew.user("in the file"))
        with clew.open(folder / "made.db") as store:
            session = store.sessions.get(self.id)
            for number in range(10):
                session.append(clew.user(f"{number} in the log"))
            self.said = [node.text for node in session.path()]
            for end in ("", "-wal"):
                shutil.copy(folder / f"made.db{end}", folder / f"kept.db{end}")
        self.log = (folder / "kept.db-wal").read_bytes()

    def copy(self, log: bytes) -> Path:
        path = self.folder / "copy.db"
        shutil.copy(self.folder / "kept.db", path)
        for end in ("-shm", "-lock", "-wal"):
            path.with_name(f"{path.name}{end}").unlink(missing_ok=True)
        path.with_name("copy.db-wal").write_bytes(log)
        return path

    @property
    def commits(self) -> list[int]:
        """The frames that end a commit, from 1."""
        starts = range(32, len(self.log), FRAME)
        return [at // FRAME + 1 for at in starts if struct.unpack_from(">I", self.log, at + 4)[0]]


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Logged:
    return Logged(tmp_path_factory.mktemp("logged") / "work")


def flipped(logged: Logged, bit: int) -> str:
    """What a flipped bit in the log leads to."""
    log = bytearray(logged.log)
    log[bit >> 3] ^= 1 << (bit & 7)
    path = logged.copy(bytes(log))
    try:
        store = clew.open(path)
    except ClewError:
        return "refused"
    with store:
        report = store.verify()
        said = [node.text for node in store.sessions.get(logged.id).path()]
        assert path.with_name("copy.db-wal").read_bytes() == log
    if report.ok:
        missing = len(logged.said) - len(said)
        assert said == logged.said[: len(said)]
        return {0: "nothing", 1: "last"}.get(missing, f"{missing} lost in silence")
    return "told" if any(one.what == "wal" for one in report.damage) else "found"


def test_a_log_that_is_sound(logged: Logged) -> None:
    """A log as it was written, with what is left of an older one behind it, cut anywhere, is no damage."""
    lengths = [len(logged.log), 0, 31, 32, 32 + FRAME, 32 + 5 * FRAME + 100, len(logged.log) - 1]
    for length in lengths:
        with clew.open(logged.copy(logged.log[:length])) as store:
            assert store.verify().damage == [], length
    other = bytearray(logged.log)
    for at in range(32 + 4 * FRAME, len(other), FRAME):
        other[at + 8] ^= 1  # salts of another log
    with clew.open(logged.copy(bytes(other))) as store:
        assert store.verify().damage == []


def test_a_flipped_bit_is_told(logged: Logged) -> None:
    """Verify names the frame, and says how much lies behind it; the log stays as it is."""
    last = logged.commits[-1]
    bit = (32 + FRAME * 2 + 1000) * 8
    log = bytearray(logged.log)
    log[bit >> 3] ^= 1
    path = logged.copy(bytes(log))
    with clew.open(path) as store:
        (damage,) = (one for one in store.verify().damage if one.what == "wal")
    behind = sum(frame > 3 for frame in logged.commits)
    assert damage.where == f"{path}-wal"
    assert f"frame 3 is damaged, and SQLite ignores {last - 3} frames and {behind} commits" in damage.why


def test_a_commit_that_was_cut_short_is_no_damage(logged: Logged) -> None:
    """A power cut leaves holes in the last commit, which nobody was told of: it is undone, and that is no damage."""
    before, last = logged.commits[-2:]
    assert last - before > 1
    for hole in range(before + 1, last):
        at = 32 + (hole - 1) * FRAME
        log = logged.log[:at] + bytes(FRAME) + logged.log[at + FRAME :]
        with clew.open(logged.copy(log)) as store:
            assert store.verify().damage == []
            assert [node.text for node in store.sessions.get(logged.id).path()] == logged.said[:-1]


def flips(logged: Logged, count: int, seed: int) -> Counter[str]:
    chance, last = random.Random(seed), (32 + logged.commits[-2] * FRAME) * 8
    done: Counter[str] = Counter()
    for number in range(count):
        header = chance.randrange(len(logged.commits)) * FRAME + 32
        bit = (chance.randrange(len(logged.log) * 8), chance.randrange(32 * 8), header * 8 + chance.randrange(192))
        done[became := flipped(logged, bit[number % 3])] += 1
        if bit[number % 3] < last:
            assert became in ("told", "found", "refused", "nothing"), (bit[number % 3], became)
    return done


def test_flipped_bits_in_the_log(logged: Logged) -> None:
    """Of 60 flipped bits, in pages, frames and header, none drops a commit in silence but in the last commit."""
    done = flips(logged, 60, seed=1)
    assert done["told"] > 30
    assert {*done} <= {"told", "found", "refused", "nothing", "last"}


@pytest.mark.soak
def test_many_flipped_bits_in_the_log(logged: Logged) -> None:
    """The same for 2,000."""
    assert flips(logged, 2000, seed=2)["told"] > 1000
