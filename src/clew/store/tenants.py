"""Many tenants on one server: each database role sees the workspaces it was admitted to, and nothing else.

The rules are PostgreSQL's own, row-level security, so they bind whoever connects as that role, with clew or without.
Whoever owns the store's schema sets them, and is not bound by them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.errors import Invalid
from clew.store.parts import Parts

if TYPE_CHECKING:
    from clew.backends import Tenants
    from clew.store.store import Store

__all__ = ["admit", "dismiss", "isolate"]


def isolate(store: Store) -> None:
    """Switches the rules on, for every role but the owner's. Again, and nothing changes. ReadOnly for others."""
    _server(store).isolate()


def admit(store: Store, role: str, workspace: str) -> None:
    """Lets a role, which must exist, into a workspace: to read and write there."""
    _server(store).admit(role, workspace)


def dismiss(store: Store, role: str, workspace: str | None = None) -> None:
    """Takes a workspace from a role; without one, all of them and the right to connect to the store."""
    _server(store).dismiss(role, workspace)


def _server(store: Store) -> Tenants:
    found = Parts.of(store).engine.backend.tenants
    if found is None:
        raise Invalid(
            f"{store.path} is a file, and every program that opens it sees all of it", hint="Tenants need a server."
        )
    return found
