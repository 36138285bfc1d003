"""Converts a caller's paths to paths below a root: resolves links, and uses the file system's spelling of names."""

from __future__ import annotations

import os

from clew.errors import Invalid, clip


def resolve_paths(root: str, given: str, path: str | os.PathLike[str]) -> list[str]:
    """`RootFolder.named`. `root` has no links; `given` is the caller's name for it, used for relative paths."""
    found = [_below(root, given, path, path)]
    full = os.path.join(root, found[0])
    if os.path.islink(full):
        target = _below(root, given, os.path.realpath(full), path)
        if target != found[0]:
            found.append(target)
    return found


def _below(root: str, given: str, path: str | os.PathLike[str], given_path: str | os.PathLike[str]) -> str:
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "\0" in text or not _is_name(text):
        raise Invalid("a file must be given as a path")
    folder, name = os.path.split(os.path.join(given, text).rstrip("/") or "/")
    if name in ("", ".", ".."):
        folder, name = os.path.split(os.path.realpath(os.path.join(folder, name)))
    full = os.path.join(os.path.realpath(folder), name)
    prefix = root.rstrip("/") + "/"
    if not full.startswith(prefix) or full == prefix:
        raise Invalid(
            f"{clip(os.fspath(given_path), 4096)} is not below {clip(root, 4096)}",
            hint="Pass files inside the root, or use a root that contains them all.",
        )
    return _spell_path(root, full.removeprefix(prefix))


def _spell_path(root: str, path: str) -> str:
    """The path with each name as the folder spells it; some file systems ignore case or normalization."""
    here, done = root, list[str]()
    for part in path.split("/"):
        done.append(_spell_name(here, part))
        here = os.path.join(here, done[-1])
    return "/".join(done)


def _spell_name(folder: str, name: str) -> str:
    """A name as its folder spells it."""
    try:
        names = os.listdir(folder)
        found = os.lstat(os.path.join(folder, name))
    except OSError:  # it does not exist or cannot be seen
        return name
    return name if name in names else next((one for one in names if _is(os.path.join(folder, one), found)), name)


def _is(path: str, status: os.stat_result) -> bool:
    """True if this is the file that was found."""
    try:
        return os.path.samestat(os.lstat(path), status)
    except OSError:
        return False


def _is_name(text: str) -> bool:
    """True if a file can have this name. Only surrogates that stand for a byte are allowed."""
    try:
        return bool(os.fsencode(text))
    except UnicodeEncodeError:
        return False
