"""The public results of checkpoints: a checkpoint, and the result of a rewind."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from clew.checkpoints import serial
from clew.checkpoints.filestate import FileState, HeadChange, PathEntry, unpack_path


class Checkpoint(NamedTuple):
    """A checkpoint: its user message and the state of its paths.

    It can also be found by the ids in `also`. `rewound_to` is set if it holds the state before a rewind to that
    message, which `undo` restores. `heads` are set if the conversation was rewound too.
    """

    message: str
    created_at: datetime
    files: tuple[PathEntry, ...]
    also: tuple[str, ...] = ()
    rewound_to: str | None = None
    heads: HeadChange | None = None

    @property
    def states(self) -> dict[str, FileState]:
        """The state of each path."""
        return {unpack_path(entry.path): entry.state for entry in self.files}

    @property
    def skipped(self) -> dict[str, str]:
        """Paths whose content is not stored, with the reason."""
        return {path: state.why for path, state in self.states.items() if state.kind == "skipped"}

    def manifest(self) -> dict[str, Any]:
        """The checkpoint as JSON: `user_message_uuid`, `created_at`, `files` and other fields."""
        return {
            "user_message_uuid": self.message,
            "created_at": self.created_at.isoformat().replace("+00:00", "Z"),
            "also": list(self.also),
            "rewound_to": self.rewound_to,
            "heads": None if self.heads is None else [self.heads.before, self.heads.after],
            "files": [serial.entry(one) for one in self.files],
        }


class Rewound(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The result of a rewind, or with `dry_run` its preview. Paths are relative to the root.

    If the rewind is not possible, `can_rewind` is False, `error` says why, and nothing was changed. `conflicts` are
    files that someone else has changed since, `skipped` have no stored content: both need `force`. `removed` are the
    deleted ones among the changed files. `unseen` stay unchanged: they could not be examined when the checkpoint was
    made or now, or no checkpoint has them. `left` were changed during the rewind and not touched; `kept` are folders
    that should be removed but are not empty. `imported` means that the checkpoints came with another program's history:
    overwriting files needs `force`, and the home folder and those above it are refused.

    As JSON (`msgspec.json.encode`) the names are `canRewind`, `filesChanged` and so on.
    """

    can_rewind: bool
    error: str | None = None
    files_changed: tuple[str, ...] = ()
    insertions: int = 0
    deletions: int = 0
    removed: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    message: str | None = None
    undo: str | None = None
    dry_run: bool = False
    imported: bool = False


class FileDiff(NamedTuple):
    """The change that a rewind would make to one path. A content is None if there is no file."""

    path: str
    old: FileState
    new: FileState
    before: bytes | None
    after: bytes | None
