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
    from clew.base import buckets as buckets
    from clew.base.messages import (
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
    from clew.base.values import Page
    from clew.engine.node import Counters, Node
    from clew.engine.session_data import SessionData
    from clew.errors import (
        Ambiguous,
        ClewError,
        Closed,
        Conflict,
        Corrupted,
        Forbidden,
        Invalid,
        MissingPackage,
        NotAStore,
        NotFound,
        ReadOnly,
        SchemaTooNew,
        Sealed,
        ShutdownIncomplete,
        StorageFull,
        SweepRefused,
        Unavailable,
        WrongKey,
    )
    from clew.providers.errors import InvalidBaseURL, ProviderError
    from clew.records import events as events
    from clew.records import otel as otel
    from clew.snapshots.errors import InvalidSnapshotID
    from clew.store import message_tree as message_tree
    from clew.store import partitions as partitions
    from clew.store import scan as scan
    from clew.store import stats as stats
    from clew.store import tenants as tenants
    from clew.store.nodes import NewNode
    from clew.store.session import Branch, Session
    from clew.store.store import Store, open
    from clew.store.unit import HEAD, Document, Draft, Unit
else:
    from importlib import import_module

    from clew.base.loading import loading

    _HOMES = {
        "errors": "Ambiguous ClewError Closed Conflict Forbidden SweepRefused Invalid "
        "MissingPackage NotAStore NotFound ReadOnly SchemaTooNew Sealed StorageFull Corrupted "
        "Unavailable ShutdownIncomplete WrongKey",
        "base.messages": "Media Message Native Opaque Text Thinking ToolCall ToolResult Usage assistant native system "
        "tool user",
        "base.values": "Page",
        "engine.node": "Counters Node",
        "providers.errors": "InvalidBaseURL ProviderError",
        "snapshots.errors": "InvalidSnapshotID",
        "store.nodes": "NewNode",
        "store.session": "Branch Session",
        "engine.session_data": "SessionData",
        "store.store": "Store open",
        "store.unit": "HEAD Document Draft Unit",
    }
    _PARTS = {
        "buckets": "base.buckets",
        "errors": "errors",
        "events": "records.events",
        "keys": "keys",
        "message_tree": "store.message_tree",
        "otel": "records.otel",
        "partitions": "store.partitions",
        "redaction": "redaction",
        "retention": "retention",
        "scan": "store.scan",
        "stats": "store.stats",
        "tenants": "store.tenants",
    }
    """Modules that are attributes of this one, and where they are."""

    def __getattr__(name: str) -> object:
        """Each name is loaded when it is first asked for: who wants an error, or `clew --help`, waits for no store."""
        home = next((home for home, names in _HOMES.items() if name in names.split()), None)
        if home is None and name not in _PARTS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        with loading:
            module = import_module(f"clew.{home or _PARTS[name]}")
        found = module if home is None else getattr(module, name)
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        """Also the names that were not asked for yet."""
        return sorted({*globals(), *__all__, *_PARTS})


__version__ = "0.1.0"

__all__ = [
    "HEAD",
    "Ambiguous",
    "Branch",
    "ClewError",
    "Closed",
    "Conflict",
    "Corrupted",
    "Counters",
    "Document",
    "Draft",
    "Forbidden",
    "Invalid",
    "InvalidBaseURL",
    "InvalidSnapshotID",
    "Media",
    "Message",
    "MissingPackage",
    "Native",
    "NewNode",
    "Node",
    "NotAStore",
    "NotFound",
    "Opaque",
    "Page",
    "ProviderError",
    "ReadOnly",
    "SchemaTooNew",
    "Sealed",
    "Session",
    "SessionData",
    "ShutdownIncomplete",
    "StorageFull",
    "Store",
    "SweepRefused",
    "Text",
    "Thinking",
    "ToolCall",
    "ToolResult",
    "Unavailable",
    "Unit",
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
