"""Decides which files a work tree ignores, by its `.gitignore` files, as git does."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from clew.base.outside import open_outside
from clew.errors import MissingPackage

NAME = ".gitignore"
_EXCLUDE = ".git/info/exclude"
_MOST = 1 << 20
_ABOVE = "ps_d"
"""The group in pathspec's expressions that matches the slash after a folder."""
_LS = ("git", "-c", "core.fsmonitor=false", "--no-optional-locks", "ls-files", "-zci", "--exclude-standard")
_PATIENCE = 10.0
"""Timeout for git in seconds."""


class IgnoreRules:
    """The rules of a folder, with those of its parent folders. Read on first use."""

    def __init__(self, above: IgnoreRules | None, folder: str, text: bytes | None) -> None:
        self._above = above
        self._folder = folder
        self._text = text
        self._rules: list[tuple[re.Pattern[str], bool]] | None = None

    def below(self, folder: str, text: bytes | None) -> IgnoreRules:
        """The rules of a subfolder; None if it has none of its own."""
        return self if text is None else IgnoreRules(self, folder, text)

    def ignores(self, path: str, *, folder: bool) -> bool:
        """True if a path is ignored. The nearest file with a matching rule decides, and within a file the last rule."""
        rules: IgnoreRules | None = self
        while rules is not None:
            verdict = rules._says(f"{path}/" if folder else path)
            if verdict is not None:
                return verdict
            rules = rules._above
        return False

    def _says(self, path: str) -> bool | None:
        if self._text is None:
            return None
        if self._rules is None:
            self._rules = _compile(self._text)
        inside = path[len(self._folder) :].lstrip("/") if self._folder else path
        return next((out for rule, out in self._rules if _matches(rule, inside)), None)


def _matches(rule: re.Pattern[str], path: str) -> bool:
    """True if a rule matches the path itself. Its parent folders were checked before."""
    folder = _ABOVE in rule.groupindex
    return any(not folder or found[_ABOVE] is None or found.end(_ABOVE) == len(path) for found in rule.finditer(path))


def _compile(text: bytes) -> list[tuple[re.Pattern[str], bool]]:
    """The rules of a file, last first, each with whether it ignores or includes."""
    try:
        from pathspec import GitIgnoreSpec
    except ModuleNotFoundError:
        raise MissingPackage("reading .gitignore needs pathspec", "pathspec") from None
    patterns = GitIgnoreSpec.from_lines(text.decode("utf-8", "surrogateescape").split("\n")).patterns
    return [(one.regex, one.include) for one in reversed(list(patterns)) if one.regex and one.include is not None]


class ParentRules(IgnoreRules):
    """The rules of a folder above the root, for paths relative to the root."""

    def __init__(self, above: IgnoreRules | None, prefix: str, text: bytes) -> None:
        super().__init__(above, "", text)
        self._prefix = prefix

    def _says(self, path: str) -> bool | None:
        return super()._says(self._prefix + path)


def outside(root: str) -> tuple[IgnoreRules, tuple[tuple[int, ...], ...]]:
    """The rules for the root that are stored outside it, and stamps that show whether they have changed.

    They come from the repository that contains the root: its exclude file, and `.gitignore` files above the root.
    """
    top = next((folder for folder in _up(root) if os.path.lexists(os.path.join(folder, ".git"))), root)
    rules, stamps = IgnoreRules(None, "", None), list[tuple[int, ...]]()
    files = [(top, _EXCLUDE)]
    files += [(folder, NAME) for folder in reversed(list(_up(root))) if folder != root and _within(folder, top)]
    for folder, name in files:
        try:
            with open_outside(os.path.join(folder, name)) as file:
                status = os.fstat(file.fileno())
                stamps.append((status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino))
                prefix = os.path.relpath(root, folder) + "/" if folder != root else ""
                rules = ParentRules(rules, prefix, file.read(_MOST))
        except OSError:
            stamps.append(())
    return rules, tuple(stamps)


class Tracked(NamedTuple):
    """Files that git tracks although they are ignored, and the stamp of git's index that this is based on."""

    stamp: tuple[int, ...] = ()
    paths: tuple[str, ...] = ()


def read_tracked(root: str, known: Tracked) -> Tracked:
    """The ignored files below a root that git tracks. Runs git only if its index has changed.

    Without git, or if git fails, returns the previous list.
    """
    top = next((folder for folder in _up(root) if os.path.lexists(os.path.join(folder, ".git"))), None)
    if top is None:
        return Tracked()
    stamp = _index_stamp(os.path.join(top, ".git"))
    if stamp == known.stamp:
        return known
    import subprocess  # only where git has something new to say: a hook starts often

    # The environment must not redirect git, and settings of the repository must not run programs. Git
    # fetches missing objects with a program if the repository's settings say so: no protocol is allowed.
    env = {"PATH": os.defpath, "LC_ALL": "C", "GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1"}
    try:
        done = subprocess.run(_LS, cwd=root, env=env, capture_output=True, timeout=_PATIENCE, check=True)
    except (OSError, subprocess.SubprocessError):
        return known
    return Tracked(stamp, tuple(os.fsdecode(path) for path in done.stdout.split(b"\0") if path))


def _index_stamp(place: str) -> tuple[int, ...]:
    """The stamp of git's index; `.git` may be a file that contains the real path."""
    with suppress(OSError):
        if os.path.isfile(place):
            with open_outside(place) as file:
                target = os.fsdecode(file.read(4096).removeprefix(b"gitdir:").strip())
            place = os.path.join(os.path.dirname(place), target)
        found = os.stat(os.path.join(place, "index"))
        return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino
    return ()


def _up(folder: str) -> Iterable[str]:
    while True:
        yield folder
        above = os.path.dirname(folder)
        if above == folder:
            return
        folder = above


def _within(folder: str, top: str) -> bool:
    return folder == top or folder.startswith(top.rstrip("/") + "/")
