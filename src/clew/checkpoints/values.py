"""What checkpoints tell: a checkpoint to look at, and what a rewind did or would do."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from clew.checkpoints import wire
from clew.checkpoints.states import Entry, Heads, State, unpacked


class Checkpoint(NamedTuple):
    """A checkpoint: the user message it was taken for, and the paths it holds, each as it was.

    It is found by the ids in `also` as well. `rewound_to` is set if it holds what was there before a rewind to that
    message: `undo` goes back to it. `heads` are set if the conversation was put back too.
    """

    message: str
    created_at: datetime
    files: tuple[Entry, ...]
    also: tuple[str, ...] = ()
    rewound_to: str | None = None
    heads: Heads | None = None

    @property
    def states(self) -> dict[str, State]:
        """What was at each path."""
        return {unpacked(entry.path): entry.state for entry in self.files}

    @property
    def skipped(self) -> dict[str, str]:
        """Paths whose content is not kept, each with the reason."""
        return {path: state.why for path, state in self.states.items() if state.kind == "skipped"}

    def manifest(self) -> dict[str, Any]:
        """The checkpoint as JSON: `user_message_uuid`, `created_at`, `files`, and what else there is to know."""
        return {
            "user_message_uuid": self.message,
            "created_at": self.created_at.isoformat().replace("+00:00", "Z"),
            "also": list(self.also),
            "rewound_to": self.rewound_to,
            "heads": None if self.heads is None else [self.heads.before, self.heads.after],
            "files": [wire.entry(one) for one in self.files],
        }


class Rewound(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a rewind did, or with `dry_run` would do. Paths are relative to the root; lines are those of a diff.

    If it cannot be done, `can_rewind` is False, `error` says why, and nothing was changed. `conflicts` were changed by
    someone else since, `skipped` have no content in the store: either needs `force`. `removed` are those of the files
    changed that are deleted. `unseen` stay as they are: nobody could look at them when the checkpoint was made, or can
    now, or no checkpoint knows them. `left` were changed by someone while the rewind ran, and were not touched; `kept`
    are folders that should go and are not empty.
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


class FileDiff(NamedTuple):
    """What a rewind would make of one path. A content is None where there is no file."""

    path: str
    old: State
    new: State
    before: bytes | None
    after: bytes | None
