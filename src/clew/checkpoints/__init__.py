"""Checkpoints of working files: taken before an agent changes them, keyed by the user message, to go back to.

>>> checkpoints = Checkpoints(session, "/src/app")
>>> checkpoints.capture(message.id, ["main.py"])
>>> checkpoints.rewind(message.id)
"""

from clew.checkpoints.checkpoints import MAX_FILE, Checkpoints, Mode
from clew.checkpoints.guard import Guard
from clew.checkpoints.lines import unified
from clew.checkpoints.states import Entry, Heads, State
from clew.checkpoints.values import Checkpoint, FileDiff, Rewound

__all__ = [
    "MAX_FILE",
    "Checkpoint",
    "Checkpoints",
    "Entry",
    "FileDiff",
    "Guard",
    "Heads",
    "Mode",
    "Rewound",
    "State",
    "unified",
]
