"""Partitions the large tables of a PostgreSQL store, for stores of more than a few hundred gigabytes.

Each tree, and so a session with all its forks, is in one partition. A call on a session uses that partition only; a
lookup by id without the session queries all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.errors import Invalid
from clew.store.parts import Parts

if TYPE_CHECKING:
    from clew.store.store import Store

__all__ = ["PARTS", "divide"]

PARTS = (2, 4, 8, 16, 32, 64)
"""Allowed numbers of partitions: divisors of the 256 shards, up to a number that a server plans quickly."""


def divide(store: Store, parts: int = 16) -> None:
    """Divides the large tables of an empty store into `parts` partitions each, one of `PARTS`.

    Conflict if the store is not empty, is divided already, or has tenant rules; ReadOnly unless the role owns the
    store's schema; Invalid if the store is a file. To divide a store that has data, copy it into a divided one.
    """
    if parts not in PARTS:
        hint = f"Use one of {', '.join(map(str, PARTS))}; 16 suits most stores."
        raise Invalid(f"a store cannot be divided into {parts!r} parts", hint=hint)
    partitions = Parts.of(store).engine.backend.partitions
    if partitions is None:
        raise Invalid(f"{store.path} is a file, which cannot be divided", hint="Partitions need a server.")
    partitions.divide(parts)
