"""P21: captures, changes, rewinds and undos in any order, against a plain copy of the folder."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import pytest

import clew
from clew.checkpoints import Checkpoints, Rewound
from tests.checkpoints.conftest import picture
from tests.checkpoints.test_capture import as_nobody

NAMES = ("a", "b", "d", "d/a", "d/e", "d/e/a", "d/e/b", "f", "f/a", "f/g/a", "f/g/b")
RULES = ("b", "e", "f", "g", "d/", "g/")
Picture = dict[str, tuple[object, ...]]


class Copy:
    """The folder as it was: everything in it, and what nobody could see then."""

    def __init__(self, work: Path, closed: set[str]) -> None:
        self.paths: Picture = picture(work)
        rules = work / ".gitignore"
        self.rules = rules.read_text().split() if rules.is_file() else []
        self.closed = closed

    def hides(self, path: str) -> bool:
        """Whether a look at the tree could miss the path: a rule leaves it out, or it is in a closed folder."""
        parts = path.split("/")
        folders = {"/".join(parts[:number]) for number in range(1, len(parts))}
        return bool(self.closed & folders) or any(rule.rstrip("/") in parts for rule in self.rules)


class World:
    """A folder of nobody's, its checkpoints, and a copy of it for each message. `hiding` changes rules and modes."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.kind, self.hiding = self.chance.choice((("tree",), ("names",), ("tree", "names"))), seed % 2 == 1
        self.work = folder / "work"
        self.work.mkdir()
        if os.geteuid() == 0:
            os.chown(self.work, 65534, -1)
        self.session = clew.open(":memory:").sessions.create()
        self.checkpoints = Checkpoints(self.session, self.work)
        assert self.session.blobs  # imported before the rights to do so are given up
        self.copies: dict[str, Copy] = {}
        self.moments: dict[str, list[Copy]] = {}
        self.undos: list[Picture] = []
        self.rewound = False
        self.log: list[str] = []

    def run(self) -> None:
        """Some steps of a history; every rewind and undo in it is judged."""
        with as_nobody():
            self.change(self.chance.sample(NAMES, 5))
            for _ in range(self.chance.randint(4, 12)):
                step = self.chance.choice((self.capture, self.capture, self.rewind, self.undo))
                step()

    def look(self) -> Copy:
        """A copy of the folder, made with the rights to see all of it."""
        with as_root():
            closed = {str(path.relative_to(self.work)) for path in self.work.rglob("*") if is_closed(path)}
            return Copy(self.work, closed)

    # -- what an agent does

    def capture(self) -> None:
        """One message: a capture by name or of the tree, and changes."""
        message, how = self.session.append(clew.user("go")).id, self.chance.choice(self.kind)
        self.rewound = False
        names = [name for name in self.chance.sample(NAMES, 3) if self.can_be_named(self.work / name)]
        self.log.append(f"{how} {message[-4:]} {names if how == 'names' else ''}")
        copy = self.look()
        self.moments[message] = [copy]
        with suppress(clew.ClewError):  # of a path that cannot be read nothing is kept, and nothing is done
            with self.checkpoints.guard(message, None if how == "tree" else names):
                self.copies[message] = copy
                if how == "names":
                    self.change_named(names)
                    return
                self.change(self.chance.sample(NAMES, 3))
                if self.hiding:
                    self.hide()

    def can_be_named(self, path: Path) -> bool:
        """A folder cannot; behind a link, it would be another path that is captured."""
        return not os.path.isdir(path) and not any(os.path.islink(above) for above in path.parents)

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
        """To any message; what it does is judged by the copies."""
        if not self.copies:
            return
        message = self.chance.choice([*self.copies])
        self.log.append(f"rewind {message[-4:]}")
        before = self.look()
        self.moments[max(self.moments)].append(before)
        done = self.go(lambda dry_run: self.checkpoints.rewind(message, dry_run=dry_run))
        self.log.append(f"  {done}")
        if done.can_rewind:
            self.judge(message, before, self.look(), done)
        else:
            assert self.hiding, "refused, and the copy allows it"
        if done.undo is not None:
            self.undos.append(before.paths)
            self.rewound = True

    def undo(self) -> None:
        """One step, or two; right after a rewind, it brings back exactly what was there."""
        steps = 1 if self.rewound else self.chance.choice((1, 2))
        self.log.append(f"undo {steps}")
        done = self.go(lambda dry_run: self.checkpoints.undo(steps=steps, dry_run=dry_run))
        self.log.append(f"  {done}")
        if self.rewound and (done.can_rewind or not self.look().closed):  # a folder that it has closed it cannot empty
            assert done.can_rewind
            assert self.look().paths == self.undos[-1]
        if done.can_rewind:
            del self.undos[-steps:]
        self.rewound = False

    def go(self, call: Callable[[bool], Rewound]) -> Rewound:
        """A dry run, and the run: it does what was said or nothing, and leaves nothing to be finished."""
        before = self.look().paths
        told = call(True)
        assert self.look().paths == before
        done = call(False)
        assert msgspec.structs.replace(told, dry_run=False) == msgspec.structs.replace(done, undo=None)
        assert done.can_rewind or self.look().paths == before
        assert self.checkpoints.finish() is None
        return done

    def judge(self, message: str, before: Copy, now: Copy, done: Rewound) -> None:
        """Nothing is removed that the copy has or could not see; all that was seen is as in the copy."""
        copy = self.copies[message]
        since = [one for name, seen in self.moments.items() if name >= message for one in seen]
        for path, was in before.paths.items():
            if path not in now.paths:
                assert path not in copy.paths or copy.paths[path][0] != was[0], f"{path} is lost"
                assert not copy.hides(path) or self.by_name(path), f"{path} was not seen, and is lost"
        for path in copy.paths.keys() | now.paths.keys():
            then, found = copy.paths.get(path), now.paths.get(path)
            if then == found or ("dir" in ((then or "-")[0], (found or "-")[0]) and "names" in self.kind):
                continue
            inside = [path, *(one for one in now.paths if one.startswith(f"{path}/"))]  # it stays for what is in it
            excused = any(one.hides(name) or name in one.closed for one in since for name in inside)
            excused = excused or (self.hiding and path in done.kept)
            assert excused, f"{path} is {found}, and in the copy {then}"

    def by_name(self, path: str) -> bool:
        """Whether a capture has looked at exactly this path, or at one below it."""
        every = {name for one in self.checkpoints.list() for name in one.states}
        return any(name == path or name.startswith(f"{path}/") for name in every)


def is_closed(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and not path.stat().st_mode & 0o500


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


def histories(seeds: range, seconds: float) -> int:
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
    """Whatever is captured, changed, hidden, rewound and undone: nothing is lost, refused or stuck."""
    assert histories(range(300), 10) > 20


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_ten_thousand_histories() -> None:
    """The same, 10,000 times."""
    assert histories(range(10_000), 7000) == 10_000
