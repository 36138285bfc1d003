"""P11: a crash at any moment of a rewind leaves each file old or new, and the next call finishes it, or undoes it."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import clew
from clew.checkpoints import Checkpoints
from clew.store.session import Session
from tests.checkpoints.conftest import picture
from tests.crash import lab
from tests.crash.images import Recording
from tests.reliability import sample
from tests.reliability.tools import python

MESSAGE = "0198f000-0000-7000-8000-00000000000a"
REWIND = """
import sys, clew
from clew.checkpoints import Checkpoints
with clew.open(sys.argv[1], key=bytes.fromhex(sys.argv[2]) or None) as store:
    print("ready", flush=True)
    done = Checkpoints(store.sessions.latest(), sys.argv[3]).rewind(sys.argv[4], mode=sys.argv[5])
    assert done.can_rewind and done.error is None, done
"""


def furnish(work: Path) -> None:
    """A few of everything: the fewer, the more images of each."""
    (work / "src" / "deep").mkdir(parents=True)
    (work / "text").write_text("original\n" * 300)
    (work / "src" / "tool").write_text("#!/bin/sh\n")
    (work / "src" / "tool").chmod(0o755)
    (work / "src" / "deep" / "gone").write_text("to be removed\n")
    (work / "link").symlink_to("text")
    (work / "becomes").write_text("a folder later")


def upset(work: Path) -> None:
    """Changes all of it."""
    (work / "text").write_text("changed\n" * 400)
    (work / "src" / "tool").chmod(0o644)
    shutil.rmtree(work / "src" / "deep")
    (work / "link").unlink()
    (work / "link").write_text("not a link")
    (work / "becomes").unlink()
    (work / "becomes" / "below").mkdir(parents=True)
    (work / "becomes" / "below" / "new").write_text("new")
    (work / "added").write_text("added")


def make_private(work: Path) -> None:
    for path in work.rglob("*"):
        if path.is_file() and not path.is_symlink():
            path.chmod(0o600)


class Prepared:
    """A work tree beside a store, captured and then changed."""

    def __init__(self, folder: Path, key: bytes | None, *, modes: bool = True) -> None:
        """Without `modes` all files have the one that the simulator gives them: it does not record others."""
        self.folder, self.key = folder, key
        self.db, self.work = folder / "s.db", folder / "work"
        self.work.mkdir(parents=True)
        furnish(self.work)
        if not modes:
            make_private(self.work)
        self.old = picture(self.work)
        with clew.open(self.db, key=key) as store:
            session = store.sessions.create()
            session.append(clew.user("go"), id=MESSAGE)
            Checkpoints(session, self.work).capture_tree(MESSAGE)
            upset(self.work)
            if not modes:
                make_private(self.work)
            self.new = picture(self.work)
            session.append(clew.assistant("done"))

    def open(self, folder: Path, act: Callable[[Session, Checkpoints], None]) -> None:
        """Acts on the store and the tree as they are in a folder, under the names that they had."""
        # A checkpoint is of a root by its name, so the image takes the place of the original.
        shutil.rmtree(self.folder)
        shutil.copytree(folder, self.folder, symlinks=True)
        with clew.open(self.db, key=self.key) as store:
            session = store.sessions.latest()
            act(session, Checkpoints(session, self.work))
            assert store.verify().ok

    def whole(self) -> None:
        """Each path is as it was before the rewind or as it is after it: never torn, never a third thing.

        A path that is a file on one side and a folder on the other may be neither for a moment.
        """
        now = {name: said for name, said in picture(self.work).items() if not name.split("/")[-1].startswith(".clew-")}
        for name in {*self.old, *self.new, *now}:
            both = [self.old.get(name), self.new.get(name)]
            if "dir" in {said[0] for said in both if said} and len({said and said[0] for said in both}) > 1:
                both.append(None)
            if both[0] and both[0][0] == "dir":  # its mode comes last
                assert now.get(name) is None or now[name][0] == "dir" or now[name] == both[1], name
                continue
            assert now.get(name) in both, (name, now.get(name), both)

    def settle(self, *, undo: bool, mode: str) -> str:
        """What the next call makes of it; what there was to do."""
        told = ""

        def act(session: Session, checkpoints: Checkpoints) -> None:
            nonlocal told
            done = checkpoints.finish()
            now = picture(self.work)
            if done is None:
                assert now in (self.old, self.new), "without a note it was not begun, or is done"
                told = "done" if now == self.old else "not begun"
            else:
                assert (done.left, done.error) == ((), None)
                assert now == self.old, "a rewind that was noted is finished"
                told = "finished"
            if mode == "both":
                assert len(session.path()) == (2 if told == "not begun" else 1)
            if told == "not begun":
                assert checkpoints.rewind(MESSAGE).can_rewind
                assert picture(self.work) == self.old
            if undo:
                assert checkpoints.undo().can_rewind
                assert picture(self.work) == self.new
                assert len(session.path()) == 2

        self.open(self.folder.with_name("taken"), act)
        return told


def crashes(folder: Path, key: bytes | None, mode: str, *, every: int, torn: float) -> None:
    """Looks at every so many-th image of a rewind that is cut short."""
    made = Prepared(folder / "all", key, modes=False)
    recording = Recording(made.folder, REWIND, str(made.db), (key or b"").hex(), str(made.work), MESSAGE, mode)
    seen = []
    for number, image in enumerate(recording.images(random.Random(3), torn=torn)):
        if number % every:
            continue
        taken = made.folder.with_name("taken")
        shutil.copytree(image.folder, taken, symlinks=True)
        shutil.rmtree(made.folder)
        shutil.copytree(taken, made.folder, symlinks=True)
        made.whole()
        seen.append(made.settle(undo=number % 3 == 0, mode=mode))
        shutil.rmtree(taken)
    assert len(seen) > 20
    assert set(seen) == {"not begun", "finished", "done"}


@pytest.mark.parametrize(("name", "mode"), [("plain", "both"), ("sealed", "files")])
def test_a_crash_anywhere(tmp_path: Path, name: str, mode: str) -> None:
    """Killed, or without power, at some moments of a rewind: each file is old or new, and the next call finishes it."""
    crashes(tmp_path, sample.KEYS[name], mode, every=6, torn=0.3)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("name", "mode"), [("plain", "both"), ("sealed", "files")])
def test_a_crash_at_every_event(tmp_path: Path, name: str, mode: str) -> None:
    """The same for every event, with more torn writes."""
    crashes(tmp_path, sample.KEYS[name], mode, every=1, torn=1.0)


@pytest.mark.parametrize("rounds", [6, pytest.param(100, marks=pytest.mark.soak)])
def test_a_process_that_is_killed(tmp_path: Path, rounds: int) -> None:
    """A process killed at some moment of a rewind leaves files old or new; a later capture finishes the rewind."""
    chance = random.Random(5)
    made = Prepared(tmp_path / "all", None)
    start = Path(shutil.copytree(made.folder, tmp_path / "start", symlinks=True))
    for _ in range(rounds):
        shutil.rmtree(made.folder)
        shutil.copytree(start, made.folder, symlinks=True)
        process = python(REWIND, made.db, "", made.work, MESSAGE, "files")
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(chance.random() * 0.08)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        made.whole()
        with clew.open(made.db) as store:
            session = store.sessions.latest()
            checkpoints = Checkpoints(session, made.work)
            checkpoints.capture(session.append(clew.user("next")), ["text"])
            assert picture(made.work) in (made.old, made.new)
            assert checkpoints.rewind(MESSAGE).can_rewind
            assert picture(made.work) == made.old


@pytest.mark.parametrize("fault", ["write,ENOSPC", "rename,EIO", "unlink,EIO", "sync,EIO", "open,EMFILE"])
@pytest.mark.parametrize("nth", [3, *(pytest.param(nth, marks=pytest.mark.soak) for nth in (1, 2, 5, 8, 13, 21, 34))])
def test_a_disk_that_fails(tmp_path: Path, fault: str, nth: int) -> None:
    """A call that fails in the middle is an error that says so; files are old or new, and later it is finished."""
    made = Prepared(tmp_path / "all", None)
    env = {**os.environ, "LD_PRELOAD": str(lab.shim()), "PC_ROOT": str(made.work), "PC_LOG": str(tmp_path / "log")}
    env |= {"PC_FAULT": f"{fault},{nth},sticky", "PYTHONPATH": str(Path(clew.__file__).parents[1])}
    command = [sys.executable, "-c", REWIND, str(made.db), "", str(made.work), MESSAGE, "files"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    made.whole()
    if done.returncode:
        last = done.stderr.splitlines()[-1]
        assert last.startswith(("clew.errors.", "AssertionError: Rewound(can_rewind=False")), done.stderr
    shutil.copytree(made.folder, made.folder.with_name("taken"), symlinks=True)
    made.settle(undo=True, mode="files")


def test_a_file_changed_after_the_crash_is_left_alone(tmp_path: Path) -> None:
    """What someone has changed between a crash and the next call is not overwritten, and is named."""
    made = Prepared(tmp_path / "all", None)
    env = {**os.environ, "LD_PRELOAD": str(lab.shim()), "PC_ROOT": str(made.work), "PC_LOG": str(tmp_path / "log")}
    env |= {"PC_FAULT": "rename,EIO,1,sticky", "PYTHONPATH": str(Path(clew.__file__).parents[1])}
    command = [sys.executable, "-c", REWIND, str(made.db), "", str(made.work), MESSAGE, "files"]
    assert subprocess.run(command, env=env, capture_output=True, timeout=60).returncode
    (made.work / "text").write_text("mine")
    with clew.open(made.db) as store:
        checkpoints = Checkpoints(store.sessions.latest(), made.work)
        done = checkpoints.finish()
        assert done is not None
        assert done.left == ("text",)
        assert checkpoints.finish() is None
    assert (made.work / "text").read_text() == "mine"
    assert (made.work / "src" / "deep" / "gone").read_text() == "to be removed\n"
