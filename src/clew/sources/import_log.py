"""Records what each import added, to list and undo it.

An import run is a document of its own kind. Its log has an entry for each transaction of the import, written in that
transaction, so that it is complete even if the import was killed.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

import msgspec

from clew.errors import NotFound
from clew.sources.values import storable
from clew.store.store import Store
from clew.store.unit import Document, Unit

RUN = "import"
"""Kind of the documents of import runs."""


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
    """The data of an import run."""

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


class ImportRecorder:
    """Records an import in progress. Its document is added with the first thing that the import stores."""

    def __init__(self, store: Store, paths: tuple[str, ...] = ()) -> None:
        self._paths = tuple(map(storable, paths))
        self.id = store.new_id()

    def note(self, unit: Unit, changes: list[Change]) -> None:
        """Records what a unit does, as a step of it."""
        if not changes:
            return
        run = unit.document(RUN, self.id)
        if run is None:
            run = unit.put(RUN, self.id, msgspec.json.encode(RunData(self._paths)), new=True)
        unit.log(run, [(None, msgspec.json.encode(changes))], exact=True)


def list_runs(store: Store) -> list[ImportRun]:
    """All imports, the last one first."""
    return [_info(one) for one in store.documents(RUN)]


def find_run(store: Store, typed: str) -> Document:
    """An import run, by its id or the beginning of one. NotFound, Ambiguous."""
    try:
        return store.document(RUN, typed)
    except NotFound:
        raise NotFound("import", typed, hint="List the imports with: clew import --runs") from None


def changes_of(run: Document) -> dict[str, Change]:
    """What an import run did to each session, from its first transaction to its last."""
    done: dict[str, Change] = {}
    for entry in run.log.read():
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


def run_data(run: Document) -> RunData:
    """The data of an import run."""
    return msgspec.json.decode(run.data, type=RunData)


def mark_undone(store: Store, run: Document) -> None:
    """Records that an import run was undone."""

    def work(unit: Unit) -> None:
        now = unit.document(RUN, run.id)
        if now is None:
            raise NotFound("import", run.id)
        data = msgspec.structs.replace(run_data(now), undone=True)
        unit.put(RUN, run.id, msgspec.json.encode(data), before=now)

    store.write(work)


def run_handle(store: Store, id: str) -> str:
    """The short name of an import run."""
    run = store.read(lambda unit: unit.document(RUN, id), single=True)
    return id if run is None else run.handle


def _info(run: Document) -> ImportRun:
    data = run_data(run)
    sessions: set[str] = set()
    messages = 0
    for entry in run.log.read():
        for one in msgspec.json.decode(entry.data, type=list[Change]):
            sessions.add(one.session)
            messages += one.messages
    return ImportRun(run.id, run.created_at, data.paths, len(sessions), messages, data.undone)
