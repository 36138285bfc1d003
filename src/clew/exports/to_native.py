"""Conversations in the form of the tool that they were imported from: the original files, byte for byte.

A file may have several conversations, and a conversation several files. If some of a file's conversations are missing
from the store, the file has the others. The rows of a database become JSONL, one record on a line.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

from clew.engine.session_data import SOURCE
from clew.errors import Invalid
from clew.sources.documents import DocumentPlace, short_hash, unframe
from clew.sources.layout import FileName, file_records, message_bytes, record_origin
from clew.store.session import Session
from clew.store.store import Store


class NativeFile(NamedTuple):
    """A file to write."""

    name: str | None
    """Its original name; None for the rows of a database."""
    sessions: tuple[Session, ...]
    parts: Callable[[], Iterator[bytes]]


class _Origin(NamedTuple):
    """A conversation in one of its files."""

    session: Session
    file: FileName | None
    is_framed: bool
    place: DocumentPlace | None


def native(store: Store, session: Session) -> Iterator[bytes]:
    """The file of an imported conversation. Invalid if it was not imported, or is in several files."""
    found = [one for one in native_files(store, [session]) if any(each.id == session.id for each in one.sessions)]
    if len(found) > 1:
        hint = "Name a folder to write them to: --output FOLDER"
        raise Invalid(f"conversation {session.id} is in {len(found)} files", hint=hint)
    return found[0].parts() if found else iter(())


def native_files(
    store: Store, sessions: Iterable[Session], refused: Callable[[Session, Invalid], object] | None = None
) -> Iterator[NativeFile]:
    """The files that these conversations and their subagents came from.

    Invalid for one that was not imported; with `refused` it is left out, and that is called with the reason.
    """
    groups: dict[tuple[object, ...], list[_Origin]] = {}
    for session in sessions:
        try:
            tool = _tool(session)
        except Invalid as error:
            if refused is None:
                raise
            refused(session, error)
            continue
        for one in (session, *session.subagents()):
            for key, found in _origins(one, tool):
                groups.setdefault(key, []).append(found)
    for group in groups.values():
        yield _file(store, group)


def _tool(session: Session) -> str:
    origin = session.extra.get(SOURCE)
    if not isinstance(origin, dict) or "tool" not in origin:
        raise Invalid(
            f"conversation {session.id} was not imported from another tool", hint="Export it as jsonl or markdown."
        )
    return str(origin["tool"])


def _origins(session: Session, tool: str) -> Iterator[tuple[tuple[object, ...], _Origin]]:
    """A conversation in its files, each under a key that all conversations of the file have."""
    origin = record_origin(session)
    if origin.frame is not None or origin.place is not None:
        # a document is written as a whole: its last form counts
        key = (tool, session.id) if origin.place is None else (tool, origin.place.file)
        yield key, _Origin(session, origin.files[-1], origin.frame is not None, origin.place)
        return
    for file in origin.files:
        is_shared = file is not None and not file.rows
        yield (tool, file) if is_shared else (tool, file, session.id), _Origin(session, file, False, None)


def _file(store: Store, group: list[_Origin]) -> NativeFile:
    first = group[0]
    sessions = tuple(one.session for one in group)
    name = None if first.file is None or first.file.rows else first.file.name
    if first.place is not None:
        return NativeFile(name, sessions, partial(_array, store, group))
    if first.is_framed:
        return NativeFile(name, sessions, partial(_document, store, first))
    return NativeFile(name, sessions, partial(_records, store, sessions, first.file))


def _records(store: Store, sessions: tuple[Session, ...], file: FileName | None) -> Iterator[bytes]:
    """The records of a file, in their order in it."""
    streams = [file_records(session, store, file) for session in sessions]
    merged = streams[0] if len(streams) == 1 else heapq.merge(*streams, key=lambda one: one.number)
    for one in merged:
        yield one.data
        if file is not None and file.rows and one.data:
            yield b"\n"


def _document(store: Store, one: _Origin) -> Iterator[bytes]:
    yield _framed(store, one.session)
    if one.file is not None and one.file.rows:
        yield b"\n"


def _array(store: Store, group: list[_Origin]) -> Iterator[bytes]:
    """The conversations of a file with the original texts around them; a plain array if one is missing."""
    found = [(one.place, one.session) for one in group if one.place is not None]
    found.sort(key=lambda one: one[0].start)
    size = found[0][0].size
    starts, ends = [place.start for place, _ in found], [place.end for place, _ in found]
    is_whole = [0, *ends] == [*starts, size]
    for number, (place, session) in enumerate(found):
        yield place.before.encode() if is_whole else b",\n" if number else b"["
        yield _framed(store, session)
        if is_whole:
            yield place.after.encode()
    if not is_whole:
        yield b"]\n"


def _framed(store: Store, session: Session) -> bytes:
    """A conversation inside a document. A message that was deleted since is null."""
    frame = record_origin(session).frame
    if frame is None:
        return b"".join(one.data for one in message_bytes(session, store))
    by_id: dict[str, bytes] = {}
    by_hash: dict[str, bytes] = {}
    for one in message_bytes(session, store):
        by_hash[short_hash(one.data)] = one.data
        if one.id is not None:
            by_id[one.given or one.id] = one.data

    def find(id: str, hash: str) -> bytes:
        first = by_id.get(id)
        if first is not None and short_hash(first) == hash:
            return first
        return by_hash.get(hash) or first or b"null"  # redaction has changed the first bytes

    return unframe(frame, find)
