"""Plans a rewind from checkpoints and the current files. Changes nothing."""

from __future__ import annotations

import os
from bisect import insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import takewhile
from pwd import getpwuid
from typing import NamedTuple
from unicodedata import normalize

from clew.checkpoints.filestate import (
    ANY,
    FOLDER,
    MISSING,
    UNSEEN,
    FileState,
    HeadChange,
    Manifest,
    PathEntry,
    folders_of,
    pack_path,
    unpack_path,
)
from clew.checkpoints.repository import RewindStep
from clew.checkpoints.serial import display_path

NAMED = 5
"""Number of paths in an error message; the result lists all."""
READ = 0o500
"""The permissions that an owner needs to read a folder."""


class Link(NamedTuple):
    """The entry of one manifest for a path; `at` is the manifest's number, counted from the oldest."""

    at: int
    manifest: Manifest
    entry: PathEntry

    @property
    def state(self) -> FileState:
        """The state in which the path was found."""
        return self.entry.state


Chains = Mapping[str, Sequence[Link]]
"""For each path, the entries of all manifests, oldest first."""


class RewindPlan(NamedTuple):
    """The steps, and the paths that stay unchanged. `blocked` says why the plan cannot run.

    Paths stay unchanged if others have changed them, if they have no stored content, if they were not seen, and if they
    are folders that are not empty.
    """

    steps: list[RewindStep]
    conflicts: list[str]
    skipped: dict[str, str]
    unseen: list[str]
    kept: list[str]
    blocked: list[str]


class Present(NamedTuple):
    """Reads the current files. `names` lists a folder: None if it cannot be read, empty if there is none."""

    known: Mapping[str, FileState]
    observe: Callable[[str], FileState]
    names: Callable[[str], Sequence[str] | None]

    def at(self, path: str) -> FileState:
        """The state of a path."""
        return self.known[path] if path in self.known else self.observe(path)


def build_chains(manifests: Sequence[Manifest], *, undo: bool = False) -> dict[str, list[Link]]:
    """The chains of all paths in the manifests.

    A manifest that found a path, or found it missing, implies that its parent folders existed, even if it has no
    entries for them. In a folder that was unseen or closed, everything else was unseen. An `undo` removes what rewinds
    have put there.
    """
    found: dict[str, list[Link]] = {}
    named = set[str]()
    for at, manifest in enumerate(manifests):
        entries = manifest.paths()
        named |= entries.keys()
        for folder in {folder for path in entries for folder in folders_of(path)} - entries.keys():
            if undo and folder in found:
                continue  # an undo compares with the folder that the previous rewind left, mode included
            found.setdefault(folder, []).append(Link(at, manifest, PathEntry(pack_path(folder), FOLDER)))
        for path, entry in entries.items():
            found.setdefault(path, []).append(Link(at, manifest, entry))
    chains = {path: chain for path, chain in found.items() if path in named}
    for at, manifest in enumerate(manifests):
        entries = manifest.paths()
        dark = {path for path, entry in entries.items() if _is_dark(entry.state)}
        for path in chains if dark and not undo else ():
            if path not in entries and any(folder in dark for folder in folders_of(path)):
                insort(chains[path], Link(at, manifest, PathEntry(pack_path(path), UNSEEN)), key=lambda link: link.at)
    return chains


def _is_dark(state: FileState) -> bool:
    """True if the content of a folder could not be seen."""
    return state == UNSEEN or (state.kind == "dir" and state.mode != ANY and state.mode & READ != READ)


def alike(paths: Iterable[str]) -> list[str]:
    """Paths that some file systems treat as the same as another of them, so that each is found under both names."""
    found: dict[str, list[str]] = {}
    for path in paths:
        found.setdefault(normalize("NFC", normalize("NFD", path).casefold()), []).append(path)
    return [path for group in found.values() if len(group) > 1 for path in group]


def make(chains: Chains, present: Present, *, undo: bool = False) -> RewindPlan:
    """The plan that restores the state of each chain, as far as it was seen.

    An `undo` restores everything that rewinds have removed. It conflicts with paths that appeared between two of them
    in a folder that was not a folder before the first.
    """
    lost, unseen, blocked = dict[str, str](), set[str](), list[str]()
    changing: dict[str, FileState] = {}
    for path, chain in sorted(chains.items()):
        now, state = present.at(path), _target(path, chains)
        if any(link.state == UNSEEN for link in chain) and now.kind == "dir":
            unseen.add(path)
        if state is None or now == UNSEEN:
            if now.kind != "missing":
                unseen.add(path)
        elif state.same(now):
            continue
        elif "skipped" in (state.kind, now.kind):  # the current content could not be restored later, so it stays
            lost[path] = state.why or now.why
        else:
            changing[path] = state
    changing.update(_folders(changing, present, blocked))
    kept = _keep_nonempty(changing, present, unseen, blocked)
    conflicts = {path for path in changing if path in chains and foreign(chains[path], present.at(path))}
    conflicts |= {path for path in chains if undo and _is_lost(path, chains)}
    steps = [RewindStep(pack_path(path), present.at(path), state) for path, state in changing.items()]
    return RewindPlan(
        sorted(steps, key=lambda one: one.path), sorted(conflicts), lost, sorted(unseen), sorted(kept), blocked
    )


def foreign(chain: Sequence[Link], now: FileState) -> bool:
    """True if someone else seems to have changed a path: it was left in one state and then found in another.

    States before the last rewind do not count: the user asked for that rewind, and it stored what it changed.
    """
    last = max((number for number, link in enumerate(chain) if link.manifest.to is not None), default=0)
    entries = [link.entry for link in chain[last:]]
    found = [*(entry.state for entry in entries[1:]), now]
    return any(_differs(entry, later) for entry, later in zip(entries, found, strict=True))


def _differs(entry: PathEntry, later: FileState) -> bool:
    """True if a path was found in another state than it was left in. A traversed folder may only disappear."""
    if entry.after is None:
        return entry.state == FOLDER and later.kind in ("file", "link", "skipped")
    return later != UNSEEN and not entry.after.same(later)


def _target(path: str, chains: Chains) -> FileState | None:
    """The state to restore: the first one that was seen. None if the path must stay unchanged.

    The result is missing only if that is certain: not if the path or one of its folders was unseen before.
    """
    first = _first_seen(chains[path])
    if first is None:
        return None
    for folder in folders_of(path):
        above = _first_seen(chains.get(folder, ()))
        if above is not None and above.at < first.at and above.state.kind in ("file", "link"):
            return MISSING  # a path that is not a folder contains nothing
    if first.state.kind == "dir":
        return _with_mode(chains[path])
    if first.state.kind != "missing":
        return first.state
    dark = [link.at for link in chains[path] if link.state == UNSEEN]
    return None if dark and min(dark) <= first.at else MISSING


def _is_lost(path: str, chains: Chains) -> bool:
    """True if a path that existed cannot exist now, because a parent folder was a file or a link before."""
    first = _first_seen(chains[path])
    return first is not None and first.state.kind != "missing" and _target(path, chains) == MISSING


def _with_mode(chain: Sequence[Link]) -> FileState:
    """The folder at the start of a chain, with the mode that was seen first."""
    folders = takewhile(lambda state: state.kind in ("dir", "unseen"), (link.state for link in chain))
    return next((state for state in folders if state.kind == "dir" and state.mode != ANY), FOLDER)


def _first_seen(chain: Sequence[Link]) -> Link | None:
    return next((link for link in chain if link.state != UNSEEN), None)


def _folders(changing: Mapping[str, FileState], present: Present, blocked: list[str]) -> dict[str, FileState]:
    """The folders that must be created for new content."""
    made: dict[str, FileState] = {}
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
                blocked.append(f"{pack_path(path)}: {pack_path(folder)} is not a folder")
                break
    return made


def _keep_nonempty(changing: dict[str, FileState], present: Present, unseen: set[str], blocked: list[str]) -> list[str]:
    """Removes the deletion of non-empty folders from a plan: they stay. A folder that is in the way is `blocked`."""
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
            blocked.append(f"{pack_path(path)}: the folder contains files that no checkpoint has")
            continue
        del changing[path]
        kept.append(path)
        unseen.update(staying - {*kept} - changing.keys() - present.known.keys() if names is not None else {path})
    return kept


def changed_entries(manifest: Manifest) -> tuple[PathEntry, ...]:
    """The paths that a rewind has changed."""
    return tuple(one for one in manifest.files if one.after is not None and not one.after.same(one.state))


def moves(heads: HeadChange | None) -> bool:
    """True if a rewind moves the conversation."""
    return heads is not None and heads.before != heads.after


def to_undo(manifests: Iterable[Manifest]) -> list[Manifest]:
    """The rewinds that can be undone, oldest first.

    A rewind to the start of an earlier one, as an undo is, undoes that one and all after it.
    """
    found: list[Manifest] = []
    for one in manifests:
        if one.to is None or not (changed_entries(one) or moves(one.heads)):
            continue
        undone = next((number for number, earlier in enumerate(found) if earlier.message == one.to), None)
        if undone is None:
            found.append(one)
        else:
            del found[undone:]
    return found


def refusal(made: RewindPlan, *, force: bool) -> str | None:
    """Why a plan must not run."""
    if made.blocked:
        return f"in the way: {some_of(made.blocked)}"
    if made.conflicts and not force:
        return f"changed by someone else: {some_of([display_path(path) for path in made.conflicts])}"
    if made.skipped and not force:
        some = some_of([display_path(path) for path in made.skipped])
        return f"too large to store or not a file, so a rewind would leave them unchanged: {some}"
    return None


def overwritten(made: RewindPlan) -> list[str]:
    """The existing files that a plan changes or deletes."""
    found = [step for step in made.steps if step.old.kind not in ("missing", "dir") and not step.old.same(step.new)]
    return [unpack_path(step.path) for step in found]


def refuse_imported(root: str, home: str | None, over: Sequence[str], *, force: bool) -> str | None:
    """Why a plan of imported checkpoints must not run: a file from outside has chosen their root and contents."""
    folder = os.path.realpath(home or getpwuid(os.getuid()).pw_dir)
    below = os.path.relpath(os.path.realpath(root), folder)
    while not _is_same_folder(folder, root):
        if folder == os.path.dirname(folder):
            break
        folder = os.path.dirname(folder)
    else:
        return f"these checkpoints were imported, and {root} is the home folder or above it"
    if below.startswith(".") and not below.startswith("..") and not force:  # ~/.ssh, ~/.config/autostart
        return f"these checkpoints were imported, and {root} is a hidden folder of the home folder, or below one"
    if over and not force:
        return f"these checkpoints were imported, and would overwrite files in {root}: {some_of(over)}"
    return None


def _is_same_folder(one: str, other: str) -> bool:
    return os.path.exists(one) and os.path.samefile(one, other)


def some_of(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
