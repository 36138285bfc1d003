"""What a rewind would do: from what checkpoints say and what is there now. Nothing is changed here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple
from unicodedata import normalize

from clew.checkpoints.shelf import Step
from clew.checkpoints.states import FOLDER, MISSING, Entry, Manifest, State, packed
from clew.checkpoints.tree import folders_of


class Plan(NamedTuple):
    """The steps; what others have changed since; what has no content in the store, and so stays; what is in the way."""

    steps: list[Step]
    conflicts: list[str]
    skipped: dict[str, str]
    blocked: list[str]


def wanted(manifests: Sequence[Manifest]) -> dict[str, list[tuple[Manifest, Entry]]]:
    """Each path with its entries, oldest first: the first says how the path was at the first of the manifests."""
    found: dict[str, list[tuple[Manifest, Entry]]] = {}
    for manifest in manifests:
        for path, entry in manifest.paths().items():
            found.setdefault(path, []).append((manifest, entry))
    return found


def alike(paths: Iterable[str]) -> list[str]:
    """Those of the paths that some file systems take for another of them: each is then found under both names."""
    found: dict[str, list[str]] = {}
    for path in paths:
        found.setdefault(normalize("NFC", normalize("NFD", path).casefold()), []).append(path)
    return [path for group in found.values() if len(group) > 1 for path in group]


def make(
    chains: Mapping[str, list[tuple[Manifest, Entry]]],
    present: Mapping[str, State],
    look: Callable[[str], State],
    names: Callable[[str], Iterable[str]],
) -> Plan:
    """The plan that makes each path what the first entry of its chain says.

    `present` is what is at these paths now; `look` tells it of others. `names` are those in a folder: of a file, none.
    """
    targets = {path: chain[0][1].state for path, chain in chains.items()}
    conflicts, lost, blocked = [], {}, list[str]()
    for path, state in sorted(targets.items()):
        now = present[path]
        if state.same(now):
            continue
        if "skipped" in (state.kind, now.kind):  # what is there could not be brought back either: it stays
            lost[path] = state.why or now.why
        elif foreign(chains[path], now):
            conflicts.append(path)
    changing = {path: state for path, state in targets.items() if path not in lost and not state.same(present[path])}
    changing.update(_folders(changing, targets, present, look, blocked))
    for path in [path for path, state in changing.items() if state.kind not in ("dir", "missing")]:
        if _present(path, present, look).kind == "dir" and not _emptied(path, changing, names):
            blocked.append(f"{packed(path)}: a folder is there that has what no checkpoint knows")
    steps = [Step(packed(path), _present(path, present, look), state) for path, state in changing.items()]
    return Plan(sorted(steps, key=lambda step: step.path), conflicts, lost, blocked)


def foreign(chain: Sequence[tuple[Manifest, Entry]], now: State) -> bool:
    """Whether someone else has changed a path, as far as can be told: it was left otherwise than it was found next.

    What was there before the last rewind does not count: that rewind was asked for, and kept what it changed.
    """
    last = max((number for number, (manifest, _) in enumerate(chain) if manifest.to is not None), default=0)
    entries = [entry for _, entry in chain[last:]]
    found = [*(entry.state for entry in entries[1:]), now]
    pairs = zip(entries, found, strict=True)
    return any(entry.after is not None and not entry.after.same(later) for entry, later in pairs)


def _folders(
    changing: Mapping[str, State],
    targets: Mapping[str, State],
    present: Mapping[str, State],
    look: Callable[[str], State],
    blocked: list[str],
) -> dict[str, State]:
    """The folders that must be made because something is to be put into them."""
    made: dict[str, State] = {}
    for path, state in changing.items():
        if state.kind == "missing":
            continue
        for folder in folders_of(path):
            if folder in made or targets.get(folder, MISSING).kind == "dir":
                continue
            now = _present(folder, present, look)
            if now.kind == "missing":
                made[folder] = FOLDER
            elif now.kind != "dir":
                blocked.append(f"{packed(path)}: {packed(folder)} is not a folder")
                break
    return made


def _emptied(path: str, changing: Mapping[str, State], names: Callable[[str], Iterable[str]]) -> bool:
    """Whether nothing is left in a folder once all the steps before are done."""
    for name in names(path):
        below = changing.get(f"{path}/{name}")
        if below is None or below.kind != "missing":
            return False
        if not _emptied(f"{path}/{name}", changing, names):
            return False
    return True


def _present(path: str, present: Mapping[str, State], look: Callable[[str], State]) -> State:
    return present[path] if path in present else look(path)
