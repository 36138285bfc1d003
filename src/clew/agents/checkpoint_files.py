"""Checkpoints of working files as a mirror shows them: a manifest, and contents named by their SHA-256."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from clew import ids
from clew.agents import folder
from clew.errors import Invalid
from clew.session import Session


class CheckpointFiles(NamedTuple):
    """A checkpoint as files: the message it was taken for, its manifest, and contents by their SHA-256."""

    user_message: str
    manifest: bytes
    files: Mapping[str, Callable[[], Iterable[bytes]]]


CheckpointSource = Callable[[Session], Iterable[CheckpointFiles]]
"""Tells the checkpoints of a session."""


def write(place: str, checkpoint: CheckpointFiles) -> None:
    """Writes a checkpoint into a folder of checkpoints; contents that are there are not written again. Invalid."""
    at = os.path.join(place, ids.text(ids.parse(checkpoint.user_message)))
    folder.make(os.path.join(at, "files"))
    for digest, content in checkpoint.files.items():
        path = os.path.join(at, "files", _digest(digest))
        if not os.path.lexists(path):
            folder.replace(path, content())
    manifest = os.path.join(at, "manifest.json")
    if folder.read(manifest, len(checkpoint.manifest) + 1) != checkpoint.manifest:
        folder.replace(manifest, [checkpoint.manifest])


def _digest(name: str) -> str:
    if len(name) != 64 or not set(name) <= set("0123456789abcdef"):
        raise Invalid("a file of a checkpoint is named by its SHA-256")
    return name
