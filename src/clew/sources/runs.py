"""Imports as runs: what each has added, so that it can be listed and taken back.

A run is a ref of its own kind. Its log has an entry for each transaction of the import, written in that transaction, so
that it is complete even if the import was killed.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

import msgspec

from clew.backends import RefRow, Tx
from clew.base import ids
from clew.engine.log import Log, add_entries
from clew.engine.node import moment
from clew.errors import NotFound
from clew.sources.values import storable
from clew.store.parts import Parts
from clew.store.store import Store

RUN = "import"
"""Kind of the refs of runs."""
PAGE = 200


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one transaction of an import did to a session."""

    session: str
    created: bool = False
    before: str | None = None
    """The id of the last message before it."""
    after: str | None = None
    """The id of the last message after it."""
    version: int = 0
    """The version of the session after it."""
    messages: int = 0
    """Messages that are new."""


class RunData(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a run says of itself."""

    paths: tuple[str, ...] = ()
    undone: bool = False


class ImportRun(NamedTuple):
    """One import, as it is listed."""

    id: str
    started_at: datetime
    paths: tuple[str, ...]
    sessions: int
    """Sessions that it created or continued."""
    messages: int
    undone: bool


class Run:
    """An import in progress. Its ref is added with the first thing that it stores."""

    def __init__(self, store: Store, paths: tuple[str, ...] = ()) -> None:
        self._parts = Parts.of(store)
        self._key = self._parts.engine.new_id()
        self._paths = tuple(map(storable, paths))
        self.id = ids.text(self._key)

    def note(self, tx: Tx, changes: list[Change]) -> None:
        """Notes what a transaction does, as a step of it."""
        if not changes:
            return
        engine, refs = self._parts.engine, self._parts.refs
        row = tx.ref(engine.workspace, RUN, self._key)
        if row is None:
            row = refs.add(tx, RUN, self._key, _payload(RunData(self._paths)), tree=None, at=None)
        entry = engine.new_id(), engine.clock(), msgspec.json.encode(changes)
        add_entries(engine, tx, row, [entry])


def list_runs(store: Store) -> list[ImportRun]:
    """All imports, the last one first."""
    return [_info(Parts.of(store), row) for row in _rows(Parts.of(store))]


def find_run(store: Store, typed: str) -> RefRow:
    """The row of a run, by its id or the beginning of one. NotFound, Ambiguous."""
    parts = Parts.of(store)
    try:
        row = parts.table.get(RUN, parts.refs.resolve(RUN, typed))
    except NotFound:
        row = None
    if row is None:
        raise NotFound("import", typed, hint="List the imports with: clew import --runs")
    return row


def changes_of(store: Store, row: RefRow) -> dict[str, Change]:
    """What a run did to each session, from its first transaction to its last."""
    done: dict[str, Change] = {}
    for entry in Log(Parts.of(store).engine, lambda: row).read():
        for one in msgspec.json.decode(entry.data, type=list[Change]):
            first = done.get(one.session)
            done[one.session] = (
                one
                if first is None
                else msgspec.structs.replace(
                    one,
                    created=first.created or one.created,
                    before=first.before,
                    messages=first.messages + one.messages,
                )
            )
    return done


def run_data(store: Store, row: RefRow) -> RunData:
    """What a run says of itself."""
    return _data(Parts.of(store), row)


def mark_undone(store: Store, row: RefRow) -> None:
    """Notes that a run was taken back."""
    parts = Parts.of(store)

    def work(tx: Tx) -> RefRow:
        now = parts.refs.get(tx, RUN, row.key)
        data = msgspec.structs.replace(_data(parts, now), undone=True)
        return parts.refs.change(tx, now, _payload(data), look=None)

    parts.refs.write_one(work)


def run_handle(store: Store, id: str) -> str:
    """The short name of a run."""
    parts = Parts.of(store)
    row = parts.table.get(RUN, ids.parse(id))
    return id if row is None else parts.refs.handle(row)


def _rows(parts: Parts) -> Iterator[RefRow]:
    edge: tuple[int, int] | None = None
    while rows := parts.table.recent(RUN, edge, None, None, PAGE):
        yield from rows
        edge = rows[-1].rank, rows[-1].ref


def _info(parts: Parts, row: RefRow) -> ImportRun:
    data = _data(parts, row)
    sessions: set[str] = set()
    messages = 0
    for entry in Log(parts.engine, lambda: row).read():
        for one in msgspec.json.decode(entry.data, type=list[Change]):
            sessions.add(one.session)
            messages += one.messages
    return ImportRun(ids.text(row.key), moment(row.created_at), data.paths, len(sessions), messages, data.undone)


def _data(parts: Parts, row: RefRow) -> RunData:
    return msgspec.json.decode(bytes(parts.refs.data(parts.refs.verify(row)))[1:], type=RunData)


def _payload(data: RunData) -> bytes:
    return b"\x01" + msgspec.json.encode(data)
