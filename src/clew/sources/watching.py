"""Notices files of a history as they are written: by the system's notices, or by looking at all of them.

With the package watchfiles the system says what has changed, and nothing is read meanwhile. Without it, or where the
system gives no notices (too many folders, some network file systems), all files are looked at every `POLL` seconds.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence

from clew.sources.registry import files_below

STEP = 300
"""Milliseconds between two looks at the notices. A file that is being written is reported after two of them."""
POLL = 1.0
"""Seconds between two looks at the files, where the system gives no notices."""
LOOK = 60.0
"""Seconds between two looks for places that were not there before: a tool that is used for the first time."""
_LOGS = ("-wal", "-journal")
"""Files that a database is written through, beside it."""

Notices = Iterator[set[str]]
"""Yields what has changed since it was asked last, and nothing after a while. The first one says that it is ready."""


def watch(
    places: Callable[[], Sequence[str]], *, stop: Callable[[], bool], polling: bool = False
) -> Iterator[list[str]]:
    """The paths that have changed, from now on until `stop`, and an empty list now and then.

    The first paths are the places themselves, and so it is each time that there are others: what is there may be new.
    A folder is a place with everything below it. A database is named when the log beside it changes.
    """
    while not stop():
        now = list(places())
        notices = _notices(now, polling=polling)
        next(notices)
        yield now
        looked = time.monotonic()
        for changed in notices:
            if stop():
                return
            if changed:
                yield sorted(changed)
            if time.monotonic() - looked >= LOOK:
                yield []
                if list(places()) != now:
                    break
                looked = time.monotonic()


def _notices(places: Sequence[str], *, polling: bool) -> Notices:
    """The notices of the system, or else the polled ones."""
    folders = [path for path in places if os.path.isdir(path)]
    files = {os.path.abspath(path) for path in places if not os.path.isdir(path)}
    if polling or not places:
        yield from _polled(folders, files)
        return
    try:
        yield from _report(folders, files)
    except (ImportError, OSError, RuntimeError):  # no package, no notices, or no room for more of them
        yield from _polled(folders, files)


def _report(folders: Sequence[str], files: set[str]) -> Notices:
    """What the system says. For a file its folder is watched: the file may be replaced, and its log comes and goes."""
    import watchfiles

    kinds = [(folders, True), (sorted({os.path.dirname(path) for path in files}), False)]
    watching = [
        watchfiles.watch(
            *paths, recursive=recursive, watch_filter=None, step=STEP, debounce=STEP, rust_timeout=STEP,
            yield_on_timeout=True, ignore_permission_denied=True,
        )
        for paths, recursive in kinds
        if paths
    ]  # fmt: skip
    for first in watching:
        next(first)
    yield set()
    while True:
        for one in watching:
            told = {(kind, _owner(path)) for kind, path in next(one)}
            yield {
                path
                for kind, path in told
                if (os.path.isfile(path) and _is_wanted(path, folders, files))
                # files that were written before the system watches a new folder are not reported
                or (kind == watchfiles.Change.added and os.path.isdir(path) and _is_wanted(path, folders, ()))
            }


def _is_wanted(path: str, folders: Sequence[str], files: set[str] | tuple[()]) -> bool:
    return path in files or any(path.startswith(os.path.join(os.path.abspath(one), "")) for one in folders)


def _owner(path: str) -> str:
    """The database that a file is the log of, or the file itself."""
    return next((path.removesuffix(end) for end in _LOGS if path.endswith(end)), path)


def _polled(folders: Sequence[str], files: set[str]) -> Notices:
    """What differs from one look at all files to the next."""
    before = _look(folders, files)
    yield set()
    while True:
        time.sleep(POLL)
        now = _look(folders, files)
        yield {_owner(path) for path, seen in now.items() if before.get(path) != seen}
        before = now


def _look(folders: Sequence[str], files: set[str]) -> dict[str, int]:
    """When each file was changed, also the logs of databases."""
    found = {path: changed for folder in folders for changed, path in files_below(os.path.abspath(folder))}
    for path in files:
        for name in (path, *(f"{path}{end}" for end in _LOGS)):
            try:
                found[name] = os.stat(name).st_mtime_ns
            except OSError:
                continue
    return found
