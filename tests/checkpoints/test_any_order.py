"""P21: captures, changes, rewinds and undos in any order, against a plain model of the folder."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import pytest

import clew
from clew.checkpoints import Checkpoints, Rewound, tree_scan
from tests.checkpoints.model import (
    MAYBE,
    Copy,
    Look,
    Picture,
    State,
    Went,
    changing,
    expected,
    folders,
    named,
    settled,
    target,
    undoing,
    walked,
)
from tests.checkpoints.test_capture import as_nobody

NAMES = ("a", "b", "d", "d/a", "d/e", "d/e/a", "d/e/b", "f", "f/a", "f/g/a", "f/g/b")
RULES = ("b", "e", "f", "g", "d/", "g/")
ONCE_FAILED = (3025, 3549, 3620, 3715, 3857, 3871, 4117, 4649, 6619, 7115, 7424)
"""Seeds of histories that have found a fault, in the code or in the model."""


class World:
    """A folder of nobody's, its checkpoints, and what each capture saw of it. `hiding` changes rules and modes."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.kind, self.hiding = self.chance.choice((("tree",), ("names",), ("tree", "names"))), seed % 2 == 1
        self.trusting = seed % 4 > 1
        self.work = folder / "work"
        self.work.mkdir()
        if os.geteuid() == 0:
            os.chown(self.work, 65534, -1)
        self.session = clew.open(":memory:").sessions.create()
        self.checkpoints = Checkpoints(self.session, self.work)
        assert self.session.blobs  # imported before the rights to do so are given up
        self.looks: list[Look] = []
        self.first: dict[str, int] = {}
        """The number of the look that each checkpoint was made with."""
        self.known: Picture | None = None
        """What the last walk through the tree saw."""
        self.undos: dict[str, Went] = {}
        """Rewinds that were not taken back, by the checkpoint that each has made."""
        self.log: list[str] = []

    def run(self) -> None:
        """Some steps of a history; every rewind and undo in it is judged."""
        with as_nobody(), pytest.MonkeyPatch.context() as patch:
            if self.trusting:
                patch.setattr(tree_scan, "RACY", -60_000_000_000)
            self.change(self.chance.sample(NAMES, 5))
            for _ in range(self.chance.randint(4, 12)):
                step = self.chance.choice((self.capture, self.capture, self.rewind, self.undo))
                step()

    def copy(self) -> Copy:
        """A copy of the folder, made with the rights to see all of it."""
        with as_root():
            return Copy(self.work)

    def walk(self) -> Look:
        """The result of a walk through the tree now."""
        return walked(self.copy(), self.known or {})

    def walks(self) -> None:
        """Notes that a walk through the tree has been made."""
        self.looks.append(self.walk())
        self.known = self.looks[-1].seen

    # -- what an agent does

    def capture(self) -> None:
        """A message: a capture by name or of the tree, then changes."""
        message, how = self.session.append(clew.user("go")).id, self.chance.choice(self.kind)
        names = [name for name in self.chance.sample(NAMES, 3) if self.can_be_named(self.work / name)]
        self.log.append(f"{how} {message[-4:]} {names if how == 'names' else ''}")
        copy = self.copy()
        if how == "names" and any(map(copy.hides, names)):  # of a path that cannot be read nothing is kept
            with pytest.raises(clew.Unavailable):
                self.checkpoints.capture(message, names)
            return
        with self.checkpoints.guard(message, None if how == "tree" else names):
            self.first[message] = len(self.looks)
            if how == "names":
                self.looks.append(named(copy, names))
                self.wait()
                self.change_named(names)
                return
            self.walks()
            self.wait()
            self.change(self.chance.sample(NAMES, 3))
            if self.hiding:
                self.hide()
        self.walks()

    def wait(self) -> None:
        """Where stamps are trusted at once, lets the file system's clock go on: what follows must be told by them."""
        if self.trusting:
            time.sleep(0.01)

    def can_be_named(self, path: Path) -> bool:
        """A folder cannot, nor can what is behind a link or a file."""
        above = [folder for folder in path.parents if os.path.lexists(folder)]
        return not os.path.isdir(path) and all(one.is_dir() and not one.is_symlink() for one in above)

    def change(self, names: list[str]) -> None:
        """Files, folders and links come, change, go and become each other."""
        for name in names:
            what = self.chance.choice(("write", "write", "remove", "link", "folder", "mode"))
            self.log.append(f"  {what} {name}")
            with suppress(OSError):  # what is closed cannot be changed
                self.change_one(self.work / name, what)

    def change_one(self, path: Path, what: str) -> None:
        if what == "mode":
            path.chmod(self.chance.choice((0o700, 0o755))) if not path.is_symlink() else None
            return
        if what == "remove" or path.is_symlink() or path.is_dir() or what != "write":
            remove(path)
        if what != "remove":
            path.parent.mkdir(parents=True, exist_ok=True)
            self.put(path, what)

    def put(self, path: Path, what: str) -> None:
        if what == "folder":
            path.mkdir()
        elif what == "link":
            path.symlink_to("nowhere")
        else:
            path.write_text(f"{self.chance.random()}\n")

    def change_named(self, names: list[str]) -> None:
        """Changes what was named, and folders above it that nothing else is in."""
        for name in names:
            path, what = self.work / name, self.chance.choice(("write", "prune", "link"))
            self.log.append(f"  {what} {name}")
            with suppress(OSError):
                if not self.can_be_named(path):
                    continue
                remove(path)
                if what != "prune":
                    path.parent.mkdir(parents=True, exist_ok=True)
                    self.put(path, what)
                while what == "prune" and path.parent != self.work:
                    path = path.parent
                    path.rmdir()

    def hide(self) -> None:
        """Rules and modes that keep things from being seen, or no longer."""
        if self.chance.random() < 0.6:
            rules = self.chance.sample(RULES, self.chance.choice((0, 0, 1, 2)))
            self.log.append(f"  rules {rules}")
            remove(self.work / ".gitignore")
            if rules:
                (self.work / ".gitignore").write_text("\n".join(rules) + "\n")
        for name in ("d/e", "d", "f"):
            folder, mode = self.work / name, self.chance.choice((0, 0o755, 0o755, None))
            with suppress(OSError):
                if mode is not None and folder.is_dir() and not folder.is_symlink():
                    self.log.append(f"  mode {mode:o} {name}")
                    folder.chmod(mode)

    # -- going back

    def rewind(self) -> None:
        """To any checkpoint; the model says what comes of it."""
        if not self.first:
            return
        message = self.chance.choice([*self.first])
        self.log.append(f"rewind {message[-4:]}")
        before, looks = self.copy(), self.looks[self.first[message] :]
        if self.known is not None:
            looks = [*looks, self.walk()]
        every = {*before.paths, *(path for look in looks for path in look.seen)}
        targets = {path: target(path, looks) for path in every}
        done = self.go(lambda dry_run: self.checkpoints.rewind(message, dry_run=dry_run), before, targets)
        if done is None:
            return
        self.takes_back(message, done)
        stays, now = {None, (MAYBE, None)}, self.copy().paths
        told = {*done.unseen, *(looks[-1].ignored if self.known is not None else ())}  # or still left out
        for path in before.paths.keys() & now.keys():
            if targets[path] in stays and any(look.hides(path) for look in looks):
                assert told & {path, *folders(path)}, f"{path} was not seen, and is not named"

    def undo(self) -> None:
        """One step, or two: what those rewinds have changed comes back, unless it was changed since."""
        steps = self.chance.choice((1, 1, 2))
        self.log.append(f"undo {steps}")
        if len(self.undos) < steps:
            assert not self.checkpoints.undo(steps=steps).can_rewind
            return
        before, taken = self.copy(), [*self.undos][-steps:]
        targets, others = undoing([self.undos[one] for one in taken], before)
        done = self.go(lambda dry_run: self.checkpoints.undo(steps=steps, dry_run=dry_run), before, targets, others)
        if done is not None:
            self.takes_back(taken[0], done)

    def takes_back(self, message: str, done: Rewound) -> None:
        """A rewind to where another began takes that one back, and all after it; it is not to be undone itself."""
        if done.undo is not None and message in self.undos:
            for one in [*self.undos][[*self.undos].index(message) :]:
                del self.undos[one]

    def go(
        self,
        call: Callable[[bool], Rewound],
        before: Copy,
        targets: Mapping[str, State | None],
        others: Iterable[str] = (),
    ) -> Rewound | None:
        """A dry run, and the run: it does what was told and what the model says. None if it was refused."""
        told, seen = call(True), self.walk() if self.known is not None else None
        assert self.copy().paths == before.paths
        done = call(False)
        self.log.append(f"  {done}")
        now = self.copy().paths
        assert msgspec.structs.replace(told, dry_run=False) == msgspec.structs.replace(done, undo=None)
        assert self.checkpoints.finish() is None
        wanted = expected(before, settled(targets, now), others)
        if not done.can_rewind:
            assert now == before.paths
            left_out = seen is not None and any(seen.hides(path) for path in changing(before, targets))
            assert wanted is None or left_out, "refused, and the model allows it"
            return None
        assert wanted is not None, "done, and the model forbids it"
        wanted.compare(now)
        gone = {path for path, was in before.paths.items() if was[0] != "dir" and path not in now}
        assert ({*done.removed}, {*done.kept}) == (gone, wanted.kept)
        if done.undo is not None:
            went = Went(before.paths, now)
            self.undos[done.undo] = went
            self.first[done.undo] = len(self.looks)
            self.looks.append(went.look(seen))
            self.known = None if seen is None else seen.seen
        return done


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif os.path.lexists(path):
        path.unlink()


@contextmanager
def as_root() -> Iterator[None]:
    """With the rights that `as_nobody` has given up."""
    user = os.geteuid()
    if os.getuid() == 0:
        os.seteuid(0)
    try:
        yield
    finally:
        os.seteuid(user)


def histories(seeds: Iterable[int], seconds: float) -> int:
    """Runs a history for each seed, as long as there is time. Returns how many."""
    until, done = time.monotonic() + seconds, 0
    for seed in seeds:
        if time.monotonic() > until:
            break
        with tempfile.TemporaryDirectory(dir="/tmp") as made:
            Path(made).chmod(0o755)
            world = World(Path(made), seed)
            try:
                world.run()
            except (AssertionError, clew.ClewError, OSError) as error:
                raise AssertionError("\n".join([f"seed {seed}: {error!r}", *world.log])) from error
            done += 1
    return done


def test_any_history() -> None:
    """Any order of captures, changes, hiding, rewinds and undos: nothing is lost, refused or stuck."""
    assert histories(range(300), 4) > 8


def test_histories_that_once_failed() -> None:
    """Each of them found a fault that the short run does not reach."""
    assert histories(ONCE_FAILED, 60) == len(ONCE_FAILED)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_ten_thousand_histories() -> None:
    """The same, 10,000 times."""
    assert histories(range(10_000), 7000) == 10_000
