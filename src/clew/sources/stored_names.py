"""The name under which a conversation of a file is stored, where the source's own name can mean several."""

from __future__ import annotations

import msgspec

from clew.backends import RefRow
from clew.base import ids
from clew.sources.contract import Source
from clew.sources.layout import FileName, origin_of
from clew.sources.writing import session_id
from clew.store.parts import Parts
from clew.store.session import Session
from clew.store.session_table import SESSION


def stored_name(parts: Parts, source: Source, name: str, file: FileName) -> str:
    """The name of a conversation in the store.

    An older version stored names with slashes joined by slashes: such a session keeps its name, if it has all of these
    names. A session of another database, which names its sessions as this one does, keeps its name too: then this
    conversation is named after its database, also after the other one was deleted.
    """
    if name.startswith("["):
        names = _names(name)
        row = _row(parts, source, "/".join(names))
        own = None if row is None else (parts.table.data(row).extra or {}).get(source.name)
        return "/".join(names) if isinstance(own, dict) and own.get("names") == names else name
    if getattr(source, "names_per_file", False):
        own = f"{name} ({file.name} {file.folder})"
        if _is_from(parts, _row(parts, source, own), file):
            return own
        row = _row(parts, source, name)  # the import leaves one in the trash alone
        if row is not None and row.trashed_at is None and not _is_from(parts, row, file):
            return own
    return name


def _row(parts: Parts, source: Source, name: str) -> RefRow | None:
    return parts.table.get(SESSION, ids.parse(session_id(source.name, name)))


def _is_from(parts: Parts, row: RefRow | None, file: FileName) -> bool:
    return row is not None and file in origin_of(Session(parts, row)).files


def _names(name: str) -> list[str]:
    try:
        return msgspec.json.decode(name, type=list[str])
    except msgspec.MsgspecError:  # a name of another kind
        return []
