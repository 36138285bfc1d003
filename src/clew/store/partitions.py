"""Large tables in partitions, for a store on a server that grows beyond some hundred gigabytes.

A tree, and so a session with all its forks, is in one partition whole. What one session does touches that one alone;
looking for an id without its session asks them all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.errors import Invalid
from clew.store.parts import Parts

if TYPE_CHECKING:
    from clew.store.store import Store

__all__ = ["PARTS", "divide"]

PARTS = (2, 4, 8, 16, 32, 64)
"""How many partitions there can be: those into which 256 shards can be cut, up to what a server plans for with ease."""


def divide(store: Store, parts: int = 16) -> None:
    """Cuts the large tables of an empty store into `parts` partitions each, one of `PARTS`.

    Conflict if it is not empty, is divided already, or has rules for tenants; ReadOnly unless the role owns the store's
    schema; Invalid if it is a file. A store that has grown is copied into one that is divided.
    """
    if parts not in PARTS:
        hint = f"Take one of {', '.join(map(str, PARTS))}; 16 will do for most."
        raise Invalid(f"a store cannot be divided into {parts!r} parts", hint=hint)
    found = Parts.of(store).engine.backend.partitions
    if found is None:
        raise Invalid(f"{store.path} is a file, which cannot be divided", hint="Partitions need a server.")
    found.divide(parts)
