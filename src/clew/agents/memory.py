"""The memory of a project: a text that agents keep from one session to the next.

It is the data of its own ref, so it is sealed with the store, and deleting sessions does not touch it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from clew.backends import RefRow, Tx
from clew.base import codec
from clew.engine.engine import Engine
from clew.engine.memory_data import MEMORY, MemoryData, memory_key, unpack
from clew.engine.refs import Refs
from clew.errors import Conflict, Invalid

LIMIT = 1 << 20
"""Maximum bytes of one memory; agents read it at the start of every session."""


class Memory:
    """The memory of one project."""

    def __init__(self, engine: Engine, refs: Refs, project: str, wrote: Callable[[str], None] = lambda _: None) -> None:
        self._engine = engine
        self._refs = refs
        self._wrote = wrote
        self._key = memory_key(engine, project)
        self._project = project

    @property
    def project(self) -> str:
        """The hash of the project's directory."""
        return self._project

    def read(self) -> str:
        """The text; empty before the first write."""
        row = self._engine.read(self._row, single=True)
        return "" if row is None else self._data(row).text

    def version(self) -> int:
        """Increases with every write; 0 before the first."""
        row = self._engine.read(self._row, single=True)
        return 0 if row is None else self._refs.verify(row).version

    def write(self, text: str, *, expect: int | None = None) -> int:
        """Replaces the text; durable when this returns. Returns the new version.

        With `expect`, raises Conflict and changes nothing if the current version differs.
        """
        if not isinstance(text, str):
            raise Invalid(f"a memory must be text, not {type(text).__name__}")
        payload = b"\x01" + self._engine.redacted(codec.to_json(MemoryData(self._project, text)), own=True)
        if len(payload) > LIMIT:
            raise Invalid(
                f"the memory has {len(payload):,} bytes; the limit is {LIMIT:,}", hint="Shorten it to a summary."
            )

        def work(tx: Tx) -> RefRow:
            row = self._row(tx)
            found = 0 if row is None else self._refs.verify(row).version
            if expect is not None and expect != found:
                raise Conflict("the memory has changed since it was read", hint="Read it and write it again.")
            if row is None:
                return self._refs.add(tx, MEMORY, self._key, payload, tree=None, at=None)
            return self._refs.change(tx, row, payload, look=None)

        version = self._refs.write_one(work).version
        self._wrote(self._project)
        return version

    def _row(self, tx: Tx) -> RefRow | None:
        return tx.ref(self._engine.workspace, MEMORY, self._key)

    def _data(self, row: RefRow) -> MemoryData:
        return unpack(self._refs.data(row))


def projects(engine: Engine, refs: Refs) -> list[str]:
    """The hashes of projects that have a memory."""
    workspace, found = engine.workspace, list[str]()
    before: tuple[int, int] | None = None
    while rows := engine.read(partial(_page, workspace=workspace, before=before)):
        found += [unpack(refs.data(row)).project for row in rows]
        before = rows[-1].rank, rows[-1].ref
    return found


def _page(tx: Tx, workspace: str, before: tuple[int, int] | None) -> list[RefRow]:
    return tx.refs_recent(workspace, MEMORY, before=before, limit=100)
