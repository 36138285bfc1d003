"""The memory of a project: a text that agents keep from one session to the next.

It is a document of its own, so it is sealed with the store, and deleting sessions does not touch it.
"""

from __future__ import annotations

from collections.abc import Callable

from clew.base import codec
from clew.engine.session_data import MEMORY, MemoryData, memory_key, unpack_memory
from clew.errors import Conflict, Invalid
from clew.store.store import Store
from clew.store.unit import Document, Unit

LIMIT = 1 << 20
"""Maximum bytes of one memory; agents read it at the start of every session."""


class Memory:
    """The memory of one project."""

    def __init__(self, store: Store, project: str, wrote: Callable[[str], None] = lambda _: None) -> None:
        self._store = store
        self._wrote = wrote
        self._key = memory_key(store.lookup_hash, project)
        self._project = project

    @property
    def project(self) -> str:
        """The hash of the project's directory."""
        return self._project

    def read(self) -> str:
        """The text; empty before the first write."""
        found = self._store.read(self._find, single=True)
        return "" if found is None else unpack_memory(found.payload).text

    def version(self) -> int:
        """Increases with every write; 0 before the first."""
        found = self._store.read(self._find, single=True)
        return 0 if found is None else found.version

    def write(self, text: str, *, expect: int | None = None) -> int:
        """Replaces the text; durable when this returns. Returns the new version.

        With `expect`, raises Conflict and changes nothing if the current version differs.
        """
        if not isinstance(text, str):
            raise Invalid(f"a memory must be text, not {type(text).__name__}")
        data = self._store.redacted(codec.to_json(MemoryData(self._project, text)), own=True)
        if len(data) >= LIMIT:
            raise Invalid(
                f"the memory has {len(data) + 1:,} bytes; the limit is {LIMIT:,}", hint="Shorten it to a summary."
            )

        def work(unit: Unit) -> Document:
            before = self._find(unit)
            if expect is not None and expect != (0 if before is None else before.version):
                raise Conflict("the memory has changed since it was read", hint="Read it and write it again.")
            return unit.put(MEMORY, self._key, data, exact=True, before=before, new=before is None)

        version = self._store.write(work).version
        self._wrote(self._project)
        return version

    def _find(self, unit: Unit) -> Document | None:
        return unit.document(MEMORY, self._key)


def projects(store: Store) -> list[str]:
    """The hashes of projects that have a memory."""
    return [unpack_memory(one.payload).project for one in store.documents(MEMORY)]
