"""Checkpoints of working files: taken before an agent changes them, keyed by user message, and restored by a rewind.

>>> checkpoints = Checkpoints(session, "/src/app")
>>> checkpoints.capture(message.id, ["main.py"])
>>> checkpoints.rewind(message.id)
"""

from clew.checkpoints.checkpoints import MAX_FILE, Checkpoints, Guard, Mode
from clew.checkpoints.diff import unified
from clew.checkpoints.filestate import FileState, HeadChange, PathEntry
from clew.checkpoints.results import Checkpoint, FileDiff, Rewound

__all__ = [
    "MAX_FILE",
    "Checkpoint",
    "Checkpoints",
    "FileDiff",
    "FileState",
    "Guard",
    "HeadChange",
    "Mode",
    "PathEntry",
    "Rewound",
    "unified",
]
