"""Checkpoints as JSON, to export them and to import those of other programs."""

from __future__ import annotations

import os
import re
from typing import Any

from clew.base import ids
from clew.checkpoints.filestate import (
    ANY,
    MISSING,
    UNSEEN,
    FileState,
    HeadChange,
    Manifest,
    PathEntry,
    Stamp,
    is_inside,
    is_reserved,
    pack_path,
    unpack_path,
)
from clew.errors import Invalid, clip

MODE = 0o644
"""The mode of a file when none is given."""
_DIGEST = re.compile(r"[0-9a-f]{64}")
_OCTAL = re.compile(r"[0-7]{1,5}")


def display_path(path: str) -> str:
    """A path as text; bytes that are not UTF-8 appear as escapes."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def entry(one: PathEntry) -> dict[str, Any]:
    """A file of a manifest. A path that is not UTF-8 is also given in hex."""
    path = unpack_path(one.path)
    fields: dict[str, Any] = {"path": display_path(path), **_hex("path", path), **_state(one.state)}
    if one.after is not None:
        fields["after"] = _state(one.after)
    return fields


def _state(state: FileState) -> dict[str, Any]:
    if state.kind == "missing":
        return {"exists": False}
    fields: dict[str, Any] = {"exists": True, "type": state.kind, "mode": f"{max(state.mode, 0):04o}"}
    if state.kind == "file":
        fields |= {"hash": state.digest, "size": state.size}
    if state.kind == "link":
        target = unpack_path(state.target)
        fields |= {"target": display_path(target), **_hex("target", target)}
    if state.kind == "skipped":
        fields |= {"size": state.size, "skipped": state.why, "stamp": state.stamp}
    return fields


def _hex(name: str, path: str) -> dict[str, str]:
    raw = path.encode("utf-8", "surrogateescape")
    return {} if pack_path(path) == path else {f"{name}_hex": raw.hex()}


def manifest(data: object, root: str) -> Manifest:
    """The manifest of a JSON object, for files below `root`. Raises Invalid with the reason.

    Paths are relative to the root, or absolute and below it. Files of git are refused: otherwise a rewind could install
    hooks that someone else wrote.
    """
    if not isinstance(data, dict) or not isinstance(data.get("files"), list):
        raise Invalid("it is not a manifest: it has no list of files")
    message, to, also = data.get("user_message_uuid"), data.get("rewound_to"), data.get("also") or []
    if not isinstance(message, str) or not isinstance(also, list) or not all(isinstance(one, str) for one in also):
        raise Invalid("it does not name its message")
    files = tuple(_entry(one, root) for one in data["files"])
    if len({one.path for one in files}) < len(files):
        raise Invalid("it names a path twice")
    return Manifest(
        ids.text(ids.parse(message)),
        pack_path(root),
        files,
        tuple(ids.text(ids.parse(one)) for one in also),
        ids.text(ids.parse(to)) if isinstance(to, str) else None,
        _heads(data.get("heads")),
    )


def _heads(data: object) -> HeadChange | None:
    if not isinstance(data, list) or len(data) != 2 or not all(one is None or isinstance(one, str) for one in data):
        return None
    return HeadChange(*(None if one is None else ids.text(ids.parse(one)) for one in data))


def _entry(data: object, root: str) -> PathEntry:
    if not isinstance(data, dict):
        raise Invalid("one of its files is not an object")
    path = _text(data, "path")
    if path.startswith(root.rstrip("/") + "/"):
        path = os.path.relpath(path, root)
    if not is_inside(path):
        raise Invalid(f"{clip(display_path(path), 4096)} is not below the session's directory")
    if any(map(is_reserved, path.split("/"))):
        raise Invalid(f"{clip(display_path(path), 4096)} is managed by git or clew")
    after = data.get("after")
    return PathEntry(pack_path(path), _read(data), None if after is None else _read(after))


def _read(data: object) -> FileState:
    if not isinstance(data, dict) or not isinstance(data.get("exists"), bool):
        raise Invalid("one of its files does not say whether it existed")
    if not data["exists"]:
        return MISSING
    kind, mode, size = data.get("type", "file"), data.get("mode", f"{MODE:o}"), data.get("size", 0)
    if not isinstance(mode, str) or not _OCTAL.fullmatch(mode) or type(size) is not int or size < 0:
        raise Invalid("one of its files has an invalid mode or size")
    if kind == "file":
        digest = data.get("hash")
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            raise Invalid("one of its files has no SHA-256")
        return FileState("file", int(mode, 8) & 0o777, size, digest)  # no setuid or setgid bits from others
    if kind == "dir":
        return FileState("dir", int(mode, 8) & 0o7777 or ANY)
    if kind == "link":
        return FileState("link", target=pack_path(_text(data, "target")))
    if kind == "unseen":
        return UNSEEN
    if kind == "skipped":
        return FileState("skipped", int(mode, 8) & 0o7777, size, why=str(data.get("skipped")), stamp=_stamp(data))
    raise Invalid("one of its files is not a file, a link or a folder")


def _text(data: dict[str, Any], name: str) -> str:
    raw, text = data.get(f"{name}_hex"), data.get(name)
    try:
        found = bytes.fromhex(raw).decode("utf-8", "surrogateescape") if isinstance(raw, str) else text
    except ValueError:
        found = None
    if not isinstance(found, str) or not found or "\0" in found:
        raise Invalid(f"one of its files has no {name}")
    return found


def _stamp(data: dict[str, Any]) -> Stamp | None:
    found = data.get("stamp")
    if not isinstance(found, list) or len(found) != 4 or not all(type(one) is int for one in found):
        return None
    return found[0], found[1], found[2], found[3]
