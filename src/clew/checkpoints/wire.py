"""A checkpoint as JSON: what programs read, and what comes from other programs."""

from __future__ import annotations

import os
import re
from typing import Any

from clew import ids
from clew.checkpoints.states import (
    ANY,
    MISSING,
    UNSEEN,
    Entry,
    Heads,
    Manifest,
    Stamp,
    State,
    is_inside,
    is_reserved,
    packed,
    unpacked,
)
from clew.errors import Invalid, clip

MODE = 0o644
"""The mode of a file of which none is told."""
_DIGEST = re.compile(r"[0-9a-f]{64}")
_OCTAL = re.compile(r"[0-7]{1,5}")


def shown(path: str) -> str:
    """A path as text: bytes that are not UTF-8 are shown as escapes."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def entry(one: Entry) -> dict[str, Any]:
    """A file of a manifest. A path that is not UTF-8 is there as hex as well."""
    path = unpacked(one.path)
    told: dict[str, Any] = {"path": shown(path), **_hex("path", path), **_state(one.state)}
    if one.after is not None:
        told["after"] = _state(one.after)
    return told


def _state(state: State) -> dict[str, Any]:
    if state.kind == "missing":
        return {"exists": False}
    told: dict[str, Any] = {"exists": True, "type": state.kind, "mode": f"{max(state.mode, 0):04o}"}
    if state.kind == "file":
        told |= {"hash": state.digest, "size": state.size}
    if state.kind == "link":
        target = unpacked(state.target)
        told |= {"target": shown(target), **_hex("target", target)}
    if state.kind == "skipped":
        told |= {"size": state.size, "skipped": state.why, "stamp": state.stamp}
    return told


def _hex(name: str, path: str) -> dict[str, str]:
    raw = path.encode("utf-8", "surrogateescape")
    return {} if packed(path) == path else {f"{name}_hex": raw.hex()}


def manifest(told: object, root: str) -> Manifest:
    """The manifest that a JSON object tells, of files below `root`. Invalid, saying what is wrong, if it tells none.

    Paths are relative to the root, or absolute and below it. What belongs to git itself is refused: a rewind would run
    with its hooks what a stranger has written.
    """
    if not isinstance(told, dict) or not isinstance(told.get("files"), list):
        raise Invalid("it is not a manifest: it has no list of files")
    message, to, also = told.get("user_message_uuid"), told.get("rewound_to"), told.get("also") or []
    if not isinstance(message, str) or not isinstance(also, list) or not all(isinstance(one, str) for one in also):
        raise Invalid("it does not say which message it was taken for")
    files = tuple(_entry(one, root) for one in told["files"])
    if len({one.path for one in files}) < len(files):
        raise Invalid("it names a path twice")
    return Manifest(
        ids.text(ids.parse(message)),
        packed(root),
        files,
        tuple(ids.text(ids.parse(one)) for one in also),
        ids.text(ids.parse(to)) if isinstance(to, str) else None,
        _heads(told.get("heads")),
    )


def _heads(told: object) -> Heads | None:
    if not isinstance(told, list) or len(told) != 2 or not all(one is None or isinstance(one, str) for one in told):
        return None
    return Heads(*(None if one is None else ids.text(ids.parse(one)) for one in told))


def _entry(told: object, root: str) -> Entry:
    if not isinstance(told, dict):
        raise Invalid("it has a file that is none")
    path = _text(told, "path")
    if path.startswith(root.rstrip("/") + "/"):
        path = os.path.relpath(path, root)
    if not is_inside(path):
        raise Invalid(f"{clip(shown(path), 4096)} is not below the session's directory")
    if any(map(is_reserved, path.split("/"))):
        raise Invalid(f"{clip(shown(path), 4096)} belongs to git or clew")
    after = told.get("after")
    return Entry(packed(path), _read(told), None if after is None else _read(after))


def _read(told: object) -> State:
    if not isinstance(told, dict) or not isinstance(told.get("exists"), bool):
        raise Invalid("it has a file of which it does not say whether it was there")
    if not told["exists"]:
        return MISSING
    kind, mode, size = told.get("type", "file"), told.get("mode", f"{MODE:o}"), told.get("size", 0)
    if not isinstance(mode, str) or not _OCTAL.fullmatch(mode) or type(size) is not int or size < 0:
        raise Invalid("it has a file whose mode or size is none")
    if kind == "file":
        digest = told.get("hash")
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            raise Invalid("it has a file without a SHA-256")
        return State("file", int(mode, 8) & 0o777, size, digest)  # nobody's program runs as another user for that
    if kind == "dir":
        return State("dir", int(mode, 8) & 0o7777 or ANY)
    if kind == "link":
        return State("link", target=packed(_text(told, "target")))
    if kind == "unseen":
        return UNSEEN
    if kind == "skipped":
        return State("skipped", int(mode, 8) & 0o7777, size, why=str(told.get("skipped")), stamp=_stamp(told))
    raise Invalid("it has something that is neither a file nor a link nor a folder")


def _text(told: dict[str, Any], name: str) -> str:
    raw, text = told.get(f"{name}_hex"), told.get(name)
    try:
        found = bytes.fromhex(raw).decode("utf-8", "surrogateescape") if isinstance(raw, str) else text
    except ValueError:
        found = None
    if not isinstance(found, str) or not found or "\0" in found:
        raise Invalid(f"it has a file without a {name}")
    return found


def _stamp(told: dict[str, Any]) -> Stamp | None:
    found = told.get("stamp")
    if not isinstance(found, list) or len(found) != 4 or not all(type(one) is int for one in found):
        return None
    return found[0], found[1], found[2], found[3]
