"""clew keeps conversations with language models: durably, in a tree, to be found, continued, forked and rewound.

>>> import clew
>>> store = clew.open(":memory:")
>>> session = store.sessions.create(title="Build fails", cwd="/src/app")
>>> node = session.append(clew.user("Why is the build failing?"))
>>> [node.text for node in session.path()]
['Why is the build failing?']
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clew import errors, keys, redaction, retention
    from clew.errors import (
        Ambiguous,
        ClewError,
        Closed,
        Conflict,
        Implausible,
        Invalid,
        InvalidBaseURL,
        InvalidSnapshotID,
        MissingPackage,
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
else:
    from importlib import import_module

    from clew.loading import loading

    _HOMES = {
        "errors": "Ambiguous ClewError Closed Conflict Implausible Invalid InvalidBaseURL InvalidSnapshotID "
        "MissingPackage NotAStore NotFound ProviderError ReadOnly SchemaTooNew Sealed StorageFull Tampered Unavailable "
        "Unfinished WrongKey",
        "model": "Media Message Native Opaque Text Thinking ToolCall ToolResult Usage assistant native system tool "
        "user",
        "node": "Counters Node",
        "nodes": "Save",
        "session": "Branch Session",
        "store": "Store open",
    }
    _PARTS = ("errors", "keys", "redaction", "retention")

    def __getattr__(name: str) -> object:
        """Each name is loaded when it is first asked for: who wants an error, or `clew --help`, waits for no store."""
        home = next((home for home, names in _HOMES.items() if name in names.split()), None)
        if home is None and name not in _PARTS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        with loading:
            module = import_module(f"clew.{home or name}")
        found = module if home is None else getattr(module, name)
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        """Also the names that were not asked for yet."""
        return sorted({*globals(), *__all__})


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
    "MissingPackage",
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
