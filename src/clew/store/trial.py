"""A copy of a store to try something on, for dry runs: other writers of the store do not wait for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from clew.engine.engine import Engine
from clew.store.parts import Parts
from clew.store.store import Store


class _Undo(Exception):
    """Takes back what was tried."""


@contextmanager
def trial(store: Store) -> Iterator[Store]:
    """A store that has what `store` has now; what is done to it is thrown away.

    It is a copy in a temporary file without a name, with the rows of a sealed store as they are. On a server, with
    attachments in object storage, in memory, and inside a transaction, it is `store` itself in a transaction that is
    undone: then other writers wait.
    """
    engine = Parts.of(store).engine
    copy = None if engine.bucket is not None else engine.backend.scratch_copy()
    if copy is None:
        with suppress(_Undo), store.transaction():
            yield store
            raise _Undo
        return
    try:
        again = Engine(
            copy, workspace=engine.workspace, clock=engine.clock, new_id=engine.new_id, max_body=engine.max_body,
            key=engine.key if engine.keyed else None, redact=engine.rules,
        )  # fmt: skip
        yield Store(again, tidy=False)
    finally:
        copy.close()
