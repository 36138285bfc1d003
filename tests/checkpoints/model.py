"""A plain model of checkpoints: what each capture saw of a folder, and what a rewind must therefore make of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.checkpoints.conftest import picture

State = tuple[object, ...]
Picture = dict[str, State]
GONE: State = ("gone",)
"""Looked at, and nothing was there."""
MAYBE = "maybe gone"
FOLDER: State = ("dir", None)
"""A folder, in whatever mode."""


def folders(path: str) -> list[str]:
    """The folders that a path is in, the outermost first."""
    parts = path.split("/")
    return ["/".join(parts[:number]) for number in range(1, len(parts))]


class Copy:
    """Everything in a folder, the rules of its `.gitignore`, and which of its folders its owner cannot read."""

    def __init__(self, work: Path) -> None:
        self.paths: Picture = picture(work)
        rules = work / ".gitignore"
        self.rules = rules.read_text().split() if rules.is_file() else []
        self.closed = {path for path, (kind, *rest) in self.paths.items() if kind == "dir" and rest == [0]}

    def hides(self, path: str) -> bool:
        """Whether a path is in a closed folder."""
        return bool(self.closed & {*folders(path)})

    def ignores(self, path: str) -> bool:
        """Whether a rule is about exactly this path."""
        name = path.rpartition("/")[2]
        return name in self.rules or (self.paths[path][0] == "dir" and f"{name}/" in self.rules)


class Look(NamedTuple):
    """What one capture saw. A walk sees all but what is `closed` or `ignored`; otherwise only `seen` was looked at."""

    seen: Picture
    closed: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()
    walk: bool = False

    def hides(self, path: str) -> bool:
        """Whether the path was left out, or is in or at something that was."""
        return self.walk and path not in self.seen and bool((self.closed | self.ignored) & {path, *folders(path)})

    def at(self, path: str) -> State | None:
        """The state of a path; None if it was not or could not be examined."""
        if path in self.seen:
            return self.seen[path]
        if any(self.seen.get(folder, FOLDER)[0] != "dir" for folder in folders(path)):
            return GONE
        return GONE if self.walk and not self.hides(path) else None


def walked(copy: Copy, known: Picture) -> Look:
    """A walk through the tree: sees what the previous walk saw, whatever the rules are now."""
    seen, closed, ignored, out = Picture(), set[str](), set[str](), set[str]()
    for path, state in sorted(copy.paths.items()):
        folder = path.rpartition("/")[0]
        if folder and folder not in seen:
            continue
        if folder in out or copy.ignores(path):
            if path not in known or (known[path][0] == "dir") != (state[0] == "dir"):
                ignored.add(path)
                continue
            out.add(path)
        if path in copy.closed:
            closed.add(path)
        else:
            seen[path] = state
    return Look(seen, frozenset(closed), frozenset(ignored), walk=True)


def named(copy: Copy, names: Iterable[str]) -> Look:
    """A capture by name: it sees these paths, and whether the folders above them are there."""
    seen = {name: copy.paths.get(name, GONE) for name in names}
    for folder in {folder for name in seen for folder in folders(name)}:
        seen[folder] = FOLDER if folder in copy.paths else GONE
    return Look(seen)


def target(path: str, looks: Sequence[Look]) -> State | None:
    """What a rewind should make of a path: how it was first seen. None if it stays.

    It goes only if it was seen missing before anything hid it, and from then on until it was seen there. If it was
    hidden in between, it may go, or be what it should be otherwise: a pair with `MAYBE`.
    """
    hidden = missing = False
    for number, look in enumerate(looks):
        found = look.at(path)
        if found is not None and found != GONE:
            state = _first_mode(later.at(path) for later in looks[number:]) if found == FOLDER else found
            return (MAYBE, state) if missing else state
        missing = missing or (found == GONE and not hidden)
        if found == GONE and _comes(path, looks[number:]):
            return None if not missing else (MAYBE, None) if hidden else GONE
        hidden = hidden or look.hides(path)
    return None


def _comes(path: str, looks: Sequence[Look]) -> bool:
    """Whether a path that is missing was looked at by name, or is seen there before anything hides it."""
    for look in looks:
        if path in look.seen or path in look.closed:
            return True
        if look.hides(path):
            break
    return False


def _first_mode(states: Iterable[State | None]) -> State:
    """The folder in the mode in which it was first looked at, before it was anything else."""
    for state in states:
        if state is not None and state[0] != "dir":
            break
        if state not in (None, FOLDER):
            return state or FOLDER
    return FOLDER


class Went(NamedTuple):
    """A rewind that was done: everything before, and after."""

    before: Picture
    after: Picture

    def changed(self) -> Picture:
        """The paths that it has changed, with their earlier states."""
        every = {*self.before, *self.after}
        return {one: self.before.get(one, GONE) for one in every if self.before.get(one) != self.after.get(one)}

    def look(self, walk: Look | None) -> Look:
        """What it saw: what it has changed, and the tree, if that was ever walked."""
        return Look(self.changed()) if walk is None else walk._replace(seen=walk.seen | self.changed())


def undoing(taken: Sequence[Went], now: Copy) -> tuple[Picture, set[str]]:
    """What an undo of rewinds should make of paths, and which of them are not as those rewinds left them."""
    targets, others, through = Picture(), set[str](), set[str]()
    for number, went in enumerate(taken):
        for path, was in went.changed().items():
            targets.setdefault(path, FOLDER if path in through and was[0] != "dir" else was)
            later = [one.before for one in taken[number + 1 :] if path in one.changed()]
            found = later[0] if later else now.paths
            if found.get(path) != went.after.get(path) and (later or not now.hides(path)):
                others.add(path)
        through |= {folder for path in went.changed() for folder in folders(path) if folder in went.before}
    return targets, others


Targets = Mapping[str, State | None]


def settled(targets: Mapping[str, Any], now: Picture) -> Targets:
    """Targets with what became of paths that may go."""
    either = {path: state[1] for path, state in targets.items() if state is not None and state[0] == MAYBE}
    return {**targets, **{path: state if path in now else GONE for path, state in either.items()}}


def changing(before: Copy, targets: Targets) -> set[str]:
    """Paths that are not as they should be."""
    return {path for path, state in targets.items() if state not in (None, before.paths.get(path, GONE))}


class Outcome(NamedTuple):
    """What a folder should be then, and the folders that stay although they should go."""

    paths: Picture
    kept: set[str]

    def compare(self, now: Picture) -> None:
        """AssertionError if the folder is otherwise. An empty folder that only a capture by name saw need not come."""
        filled = {folder for path, state in self.paths.items() if state != FOLDER for folder in folders(path)}
        for path in {*self.paths, *now}:
            want, found = self.paths.get(path, GONE), now.get(path, GONE)
            if want == FOLDER and (found[0] == "dir" or path not in filled):
                continue
            assert want == found, f"{path} is {found}, and should be {want}"


def expected(before: Copy, targets: Targets, others: Iterable[str]) -> Outcome | None:
    """What a rewind must do; None if it must refuse: it would remove what stays, or change what others did."""
    paths, kept = dict(before.paths), set[str]()
    for path, state in targets.items():
        if state is None or before.hides(path):
            continue
        if state == GONE:
            paths.pop(path, None)
        elif state != FOLDER or paths.get(path, GONE)[0] != "dir":
            paths[path] = state
    staying = {folder for path in {*paths, *before.closed} for folder in folders(path)} | before.closed
    for folder in staying:
        if paths.get(folder, GONE)[0] == "dir":
            continue
        if before.paths.get(folder, GONE)[0] != "dir" and folder not in paths:
            paths[folder] = FOLDER
        elif folder in paths:
            return None
        else:
            paths[folder] = before.paths[folder]
            kept.add(folder)
    if any(paths.get(path, GONE) != before.paths.get(path, GONE) for path in others):
        return None
    return Outcome(paths, kept)
