"""What a rewind would do: from what checkpoints say and what is there now. Nothing is changed here."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple
from unicodedata import normalize

from clew.checkpoints.shelf import Step
from clew.checkpoints.states import ANY, FOLDER, MISSING, UNSEEN, Entry, Manifest, State, folders_of, packed

READ = 0o500
"""The permissions of a folder that its owner needs to see what is in it."""


class Link(NamedTuple):
    """What one manifest says of a path; `at` is the manifest's number, from the oldest on."""

    at: int
    manifest: Manifest
    entry: Entry

    @property
    def state(self) -> State:
        """How the path was found."""
        return self.entry.state


Chains = Mapping[str, Sequence[Link]]
"""Each path that a manifest has, with what all of them say of it, oldest first."""


class Plan(NamedTuple):
    """The steps, and what stays as it is: paths that others have changed since, paths without content in the store,
    paths that were not seen, folders that are not empty. `blocked` says why nothing can be done.
    """

    steps: list[Step]
    conflicts: list[str]
    skipped: dict[str, str]
    unseen: list[str]
    kept: list[str]
    blocked: list[str]


class Present(NamedTuple):
    """What is there now. `names` lists a folder: None if it cannot be read, and nothing if there is none."""

    known: Mapping[str, State]
    look: Callable[[str], State]
    names: Callable[[str], Sequence[str] | None]

    def at(self, path: str) -> State:
        """What is at a path."""
        return self.known[path] if path in self.known else self.look(path)


def wanted(manifests: Sequence[Manifest], *, undo: bool = False) -> dict[str, list[Link]]:
    """The chains of all paths that the manifests have.

    Whoever found something in a folder, or found it missing there, found the folder: what a manifest does not say of a
    folder above its paths is that it was one. In a folder that was unseen or closed everything else was unseen;
    an `undo` takes back what rewinds have put there.
    """
    found: dict[str, list[Link]] = {}
    named = set[str]()
    for at, manifest in enumerate(manifests):
        entries = manifest.paths()
        named |= entries.keys()
        for folder in {folder for path in entries for folder in folders_of(path)} - entries.keys():
            found.setdefault(folder, []).append(Link(at, manifest, Entry(packed(folder), FOLDER)))
        for path, entry in entries.items():
            found.setdefault(path, []).append(Link(at, manifest, entry))
    chains = {path: chain for path, chain in found.items() if path in named}
    for at, manifest in enumerate(manifests):
        entries = manifest.paths()
        dark = {path for path, entry in entries.items() if _is_dark(entry.state)}
        for path in chains if dark and not undo else ():
            if path not in entries and any(folder in dark for folder in folders_of(path)):
                insort(chains[path], Link(at, manifest, Entry(packed(path), UNSEEN)), key=lambda link: link.at)
    return chains


def _is_dark(state: State) -> bool:
    """Whether nobody could see what was in a folder."""
    return state == UNSEEN or (state.kind == "dir" and state.mode != ANY and state.mode & READ != READ)


def alike(paths: Iterable[str]) -> list[str]:
    """Those of the paths that some file systems take for another of them: each is then found under both names."""
    found: dict[str, list[str]] = {}
    for path in paths:
        found.setdefault(normalize("NFC", normalize("NFD", path).casefold()), []).append(path)
    return [path for group in found.values() if len(group) > 1 for path in group]


def make(chains: Chains, present: Present) -> Plan:
    """The plan that makes each path what its chain says, as far as that was seen."""
    lost, unseen, blocked = dict[str, str](), set[str](), list[str]()
    changing: dict[str, State] = {}
    for path, chain in sorted(chains.items()):
        now, state = present.at(path), _target(path, chains)
        if any(link.state == UNSEEN for link in chain) and now.kind == "dir":
            unseen.add(path)
        if state is None or now == UNSEEN:
            if now.kind != "missing":
                unseen.add(path)
        elif state.same(now):
            continue
        elif "skipped" in (state.kind, now.kind):  # what is there could not be brought back either: it stays
            lost[path] = state.why or now.why
        else:
            changing[path] = state
    changing.update(_folders(changing, present, blocked))
    kept = _emptying(changing, present, unseen, blocked)
    conflicts = [path for path in sorted(changing) if path in chains and foreign(chains[path], present.at(path))]
    steps = [Step(packed(path), present.at(path), state) for path, state in changing.items()]
    return Plan(sorted(steps, key=lambda one: one.path), conflicts, lost, sorted(unseen), sorted(kept), blocked)


def foreign(chain: Sequence[Link], now: State) -> bool:
    """Whether someone else has changed a path, as far as can be told: it was left otherwise than it was found next.

    What was there before the last rewind does not count: that rewind was asked for, and kept what it changed.
    """
    last = max((number for number, link in enumerate(chain) if link.manifest.to is not None), default=0)
    entries = [link.entry for link in chain[last:]]
    found = [*(entry.state for entry in entries[1:]), now]
    return any(_differs(entry, later) for entry, later in zip(entries, found, strict=True))


def _differs(entry: Entry, later: State) -> bool:
    """Whether a path was left otherwise than it was found next. A folder that was walked through may go, not more."""
    if entry.after is None:
        return entry.state == FOLDER and later.kind in ("file", "link", "skipped")
    return later != UNSEEN and not entry.after.same(later)


def _target(path: str, chains: Chains) -> State | None:
    """What a path should be: the first state in which it was seen. None if it has to stay as it is.

    It is missing only if that is known: not if the path, or a folder it is in, was unseen before.
    """
    first = _seen(chains[path])
    if first is None:
        return None
    for folder in folders_of(path):
        above = _seen(chains.get(folder, ()))
        if above is not None and above.at < first.at and above.state.kind in ("file", "link"):
            return MISSING  # nothing is in what is not a folder
    if first.state.kind == "dir":
        return _with_mode(chains[path])
    if first.state.kind != "missing":
        return first.state
    dark = [link.at for link in chains[path] if link.state == UNSEEN]
    return None if dark and min(dark) <= first.at else MISSING


def _with_mode(chain: Sequence[Link]) -> State:
    """The folder that a chain begins with, in the mode in which it was first looked at."""
    folders = takewhile(lambda state: state.kind in ("dir", "unseen"), (link.state for link in chain))
    return next((state for state in folders if state.kind == "dir" and state.mode != ANY), FOLDER)


def _seen(chain: Sequence[Link]) -> Link | None:
    return next((link for link in chain if link.state != UNSEEN), None)


def _folders(changing: Mapping[str, State], present: Present, blocked: list[str]) -> dict[str, State]:
    """The folders that must be made because something is to be put into them."""
    made: dict[str, State] = {}
    for path, state in changing.items():
        if state.kind == "missing":
            continue
        for folder in folders_of(path):
            now, then = present.at(folder), changing.get(folder, UNSEEN)
            if folder in made or then.kind == "dir" or now.kind == "dir":
                continue
            if now.kind == "missing" or then.kind == "missing":
                made[folder] = FOLDER
            else:
                blocked.append(f"{packed(path)}: {packed(folder)} is not a folder")
                break
    return made


def _emptying(changing: dict[str, State], present: Present, unseen: set[str], blocked: list[str]) -> list[str]:
    """Takes folders out of a plan that should go and are not empty then: they stay. One in the way is `blocked`."""
    kept, coming = list[str](), dict[str, set[str]]()
    for path, state in changing.items():
        if state.kind != "missing" and "/" in path:
            coming.setdefault(path.rpartition("/")[0], set()).add(path)
    going = [path for path, state in changing.items() if state.kind != "dir" and present.at(path).kind == "dir"]
    for path in sorted(going, key=lambda path: -path.count("/")):
        names = present.names(path)
        inside = {f"{path}/{name}" for name in names or ()} | coming.get(path, set())
        staying = {one for one in inside if changing.get(one, UNSEEN).kind != "missing"}
        if names is not None and not staying:
            continue
        if changing[path].kind != "missing":
            blocked.append(f"{packed(path)}: a folder is there that has what no checkpoint knows")
            continue
        del changing[path]
        kept.append(path)
        unseen.update(staying - {*kept} - changing.keys() - present.known.keys() if names is not None else {path})
    return kept
