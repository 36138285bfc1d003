"""clew keeps conversations with language models: durably, in a tree, to be found, continued, forked and rewound.

>>> import clew
>>> store = clew.open(":memory:")
>>> session = store.sessions.create(title="Build fails", cwd="/src/app")
>>> node = session.append(clew.user("Why is the build failing?"))
>>> [node.text for node in session.path()]
['Why is the build failing?']
"""

from typing import TYPE_CHECKING

from clew import errors
from clew.errors import (
    Ambiguous,
    ClewError,
    Closed,
    Conflict,
    Implausible,
    Invalid,
    InvalidBaseURL,
    InvalidSnapshotID,
    NotAStore,
    NotFound,
    ProviderError,
    ReadOnly,
    SchemaTooNew,
    Sealed,
    StorageFull,
    Tampered,
    Unavailable,
    Unfinished,
    WrongKey,
)
from clew.model import (
    Media,
    Message,
    Native,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    assistant,
    native,
    system,
    tool,
    user,
)
from clew.node import Counters, Node
from clew.nodes import Save
from clew.session import Branch, Session
from clew.store import Store, open

if TYPE_CHECKING:
    from clew import keys, redaction, retention
else:

    def __getattr__(name: str) -> object:
        """Parts that are loaded when they are first asked for."""
        if name not in ("keys", "redaction", "retention"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return import_module(f"clew.{name}")


__version__ = "0.1.0"

__all__ = [
    "Ambiguous",
    "Branch",
    "ClewError",
    "Closed",
    "Conflict",
    "Counters",
    "Implausible",
    "Invalid",
    "InvalidBaseURL",
    "InvalidSnapshotID",
    "Media",
    "Message",
    "Native",
    "Node",
    "NotAStore",
    "NotFound",
    "Opaque",
    "ProviderError",
    "ReadOnly",
    "Save",
    "SchemaTooNew",
    "Sealed",
    "Session",
    "StorageFull",
    "Store",
    "Tampered",
    "Text",
    "Thinking",
    "ToolCall",
    "ToolResult",
    "Unavailable",
    "Unfinished",
    "Usage",
    "WrongKey",
    "assistant",
    "errors",
    "keys",
    "native",
    "open",
    "redaction",
    "retention",
    "system",
    "tool",
    "user",
]
