"""The name under which a conversation of a file is stored, where the source's own name can mean several."""

from __future__ import annotations

import msgspec

from clew.sources.contract import Source
from clew.sources.layout import FileName, origin_of
from clew.sources.writing import session_id
from clew.store.session import Session
from clew.store.store import Store


def stored_name(store: Store, source: Source, name: str, file: FileName) -> str:
    """The name of a conversation in the store.

    An older version stored names with slashes joined by slashes: such a session keeps its name, if it has all of these
    names. A session of another database, which names its sessions as this one does, keeps its name too: then this
    conversation is named after its database.
    """
    if name.startswith("["):
        names = _names(name)
        session = _session(store, source, "/".join(names))
        own = None if session is None else session.extra.get(source.name)
        return "/".join(names) if isinstance(own, dict) and own.get("names") == names else name
    if getattr(source, "names_per_file", False):
        session = _session(store, source, name)
        if session is not None and session.trashed_at is None and file not in origin_of(session).files:
            return f"{name} ({file.name} {file.folder})"
    return name


def _session(store: Store, source: Source, name: str) -> Session | None:
    id = session_id(source.name, name)
    return store.read(lambda unit: unit.session(id, trashed=True), single=True)


def _names(name: str) -> list[str]:
    try:
        return msgspec.json.decode(name, type=list[str])
    except msgspec.MsgspecError:  # a name of another kind
        return []
