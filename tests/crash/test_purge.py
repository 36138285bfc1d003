"""P5 under crashes and on a full disk: an interrupted purge is finished later, and loses nothing else."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import clew
from clew.errors import NotFound
from clew.store.parts import Parts
from clew.store.store import Store
from tests.crash import disk, lab
from tests.crash.images import Recording
from tests.reliability import sample
from tests.reliability.canaries import content, found
from tests.reliability.test_purged import WORDS, others
from tests.reliability.tools import python

PURGE = """
import sys, clew
with clew.open(sys.argv[1], key=bytes.fromhex(sys.argv[2]) or None) as store:
    print("ready", flush=True)
    print(store.sessions.purge(sys.argv[3]), flush=True)
"""


OTHER = "0198f000-0000-7000-8000-00000000000b"


@pytest.fixture(params=sample.KEYS)
def key(request: pytest.FixtureRequest) -> bytes | None:
    return sample.KEYS[request.param]


class Prepared:
    """A store with a secret session among others, one of which shares its beginning, and with a search index."""

    def __init__(self, path: Path, key: bytes | None) -> None:
        self.path, self.key = path, key
        path.parent.mkdir(exist_ok=True)
        with clew.open(path, key=key) as store:
            for number in range(3):
                store.sessions.create(title=str(number)).append([clew.user(f"{number} {turn}") for turn in range(6)])
            session = store.sessions.create(title="first")
            session.append([clew.user(f"shared {number}") for number in range(4)])
            session.fork(title="fork").append(clew.user("of the fork"))
            session.rename(WORDS["title"])
            session.append([clew.user(f"{WORDS['text']} {number}") for number in range(6)])
            session.append(clew.user(f"{WORDS['long']} " * 300))
            session.append(clew.user("x", session.attach(WORDS["attachment"].encode() * 300, mime_type="a/b")))
            session.log.append(WORDS["log"].encode())
            store.search("shared")
            self.id = session.id
            self.others = others(store)
            self.texts = self.others.pop(session.id)

    def settle(self, path: Path) -> bool:
        """Looks at what a purge left that was cut short, and sees to it. Whether the session was still there."""
        with clew.open(path, key=self.key) as store:
            said = others(store)
            there = said.pop(self.id, self.texts) == self.texts and self.id in others(store)
            assert said == self.others
            assert [one for one in store.verify().damage if one.what != "search"] == []  # a power cut may spoil that
        if not there:  # closing the store has finished what was begun
            assert found(WORDS, content(path)) == []
        return there

    def purged(self, store: Store) -> None:
        """The session is gone, and the receipt says so."""
        with pytest.raises(NotFound):
            store.sessions.get(self.id)
        (receipt,) = store.sessions.receipts()
        assert (receipt.sessions, receipt.messages, receipt.pending) == ((self.id,), 8, ())
        assert found(WORDS, content(Path(store.path))) == []


def crashes(folder: Path, key: bytes | None, *, every: int, torn: float) -> None:
    """Looks at every so many-th image of a purge that is cut short."""
    work = folder / "store"
    made = Prepared(work / "s.db", key)
    seen = []
    recording = Recording(work, PURGE, str(made.path), (key or b"").hex(), made.id)
    for number, image in enumerate(recording.images(random.Random(3), torn=torn)):
        if number % every:
            continue
        path = image.folder / "s.db"
        seen.append(made.settle(path))
        with clew.open(path, key=key) as store:
            if seen[-1]:
                assert store.sessions.receipts() == []
            else:
                made.purged(store)
    assert len(seen) > 10
    assert set(seen) == {True, False}


def test_a_crash_anywhere(tmp_path: Path, key: bytes | None) -> None:
    """After a crash the session is whole, or it is gone and whoever comes next clears its traces."""
    crashes(tmp_path, key, every=11 if key else 23, torn=0.2)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_crash_at_every_event(tmp_path: Path, key: bytes | None) -> None:
    """The same for every event, with more torn writes."""
    crashes(tmp_path, key, every=1, torn=1.0)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.soak), pytest.param(3, marks=pytest.mark.soak)])
def test_a_process_that_is_killed(tmp_path: Path, key: bytes | None, seed: int) -> None:
    """A process killed at some moment of a purge leaves a session that is whole, or one whose traces go."""
    chance = random.Random(seed)
    made = Prepared(tmp_path / "before" / "s.db", key)
    for number in range(4 if seed == 1 else 30):
        path = Path(shutil.copytree(made.path.parent, tmp_path / str(number))) / "s.db"
        process = python(PURGE, path, (key or b"").hex(), made.id)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(chance.random() * 0.12)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if made.settle(path):
            with clew.open(path, key=key) as store:
                store.sessions.purge(made.id)
        _wait_until_clear(path, key)
        with clew.open(path, key=key) as store:
            made.purged(store)


def _wait_until_clear(path: Path, key: bytes | None) -> None:
    """Opens and closes the store until no cleanup is pending: a killed process may leave a helper for a moment."""
    for _ in range(100):
        with clew.open(path, key=key) as store:
            if not any(receipt.pending for receipt in store.sessions.receipts()):
                return
        time.sleep(0.1)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[disk.Disk]:
    """A disk of two megabytes."""
    with disk.mounted(tmp_path / "disk", "2m") as made:
        yield made


@pytest.mark.parametrize("indexed", [True, False])
def test_a_full_disk(small: disk.Disk, key: bytes | None, indexed: bool) -> None:
    """Without a byte left a purge works, on space that the search index gives up; or it says why, and nothing is lost.

    Once there is some space it works.
    """
    made = Prepared(small.folder / "s.db", key)
    with clew.open(made.path, key=key) as store:
        if indexed:
            store.sessions.create(id=OTHER).append([clew.user(f"{number} of many") for number in range(900)])
            store.search("many")
            store.search("many", mode="substring")
            made.others[OTHER] = [f"{number} of many" for number in range(900)]
        else:
            Parts.of(store).search.remove()
        small.fill()
        receipt = store.sessions.purge(made.id)
        if indexed and key is None:
            assert receipt.sessions == (made.id,)
        if receipt.failures:
            assert [one.session for one in receipt.failures] == [made.id]
            assert "no space is left" in receipt.failures[0].error
            said = others(store)
            assert said.pop(made.id) == made.texts
            assert said == made.others
            small.free()
            receipt = store.sessions.purge(made.id)
        assert receipt.sessions == (made.id,)
        said = others(store)
        assert said == made.others
    with clew.open(made.path, key=key) as store:
        made.purged(store)


@pytest.mark.parametrize(
    "nth", [pytest.param(nth, marks=() if nth % 8 == 2 else pytest.mark.soak) for nth in range(9, 60)]
)
def test_a_disk_that_fills_up_in_the_middle(tmp_path: Path, key: bytes | None, nth: int) -> None:
    """From some write on there is no space: the session is whole and that is said, or it is gone; it works later."""
    made = Prepared(tmp_path / "work" / "s.db", key)
    env = {
        **os.environ,
        "LD_PRELOAD": str(lab.shim()),
        "PC_ROOT": str(made.path.parent),
        "PC_LOG": str(tmp_path / "log"),
    }
    env |= {"PC_FAULT": f"write,ENOSPC,{nth},sticky", "PYTHONPATH": str(Path(clew.__file__).parents[1])}
    command = [sys.executable, "-c", PURGE, str(made.path), (key or b"").hex(), made.id]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    receipt = done.stdout.splitlines()[-1]
    with clew.open(made.path, key=key) as store:
        there = made.id in others(store)
        assert there == ("no space is left" in receipt), receipt
    assert made.settle(made.path) == there
    if there:
        with clew.open(made.path, key=key) as store:
            store.sessions.purge(made.id)
    with clew.open(made.path, key=key) as store:
        made.purged(store)
