"""A temporary copy of a store for dry runs, which do not block other writers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from clew.engine.engine import Engine
from clew.store.parts import Parts
from clew.store.store import Store


class _Undo(Exception):
    """Rolls the transaction back."""


@contextmanager
def trial(store: Store) -> Iterator[Store]:
    """A store with the present content of `store`; changes to it are discarded.

    It is a copy in an unnamed temporary file; rows of a sealed store stay encrypted. For stores on a server, with
    attachments in object storage or in memory, and inside a transaction, it is `store` itself in a transaction that is
    rolled back. Other writers wait for that transaction.
    """
    engine = Parts.of(store).engine
    copy = None if engine.bucket is not None else engine.backend.scratch_copy()
    if copy is None:
        with suppress(_Undo), store.transaction():
            yield store
            raise _Undo
        return
    try:
        engine_of_copy = Engine(
            copy, workspace=engine.workspace, clock=engine.clock, new_id=engine.new_id, max_body=engine.max_body,
            key=engine.key if engine.keyed else None, redact=engine.rules,
        )  # fmt: skip
        yield Store(Parts(engine_of_copy, tidy=False))
    finally:
        copy.close()
