"""A conversation in the form of the tool that it was imported from."""

from __future__ import annotations

from collections.abc import Iterator

from clew.errors import Invalid
from clew.sources.importer import SOURCE, records
from clew.store.session import Session
from clew.store.store import Store


def native(store: Store, session: Session) -> Iterator[bytes]:
    """The records of an imported conversation, byte for byte and in their order. Invalid if it was not imported."""
    origin = session.extra.get(SOURCE)
    if not isinstance(origin, dict) or "tool" not in origin:
        raise Invalid(
            f"conversation {session.id} was not imported from another tool", hint="Export it as jsonl or markdown."
        )
    return records(session, store)
