"""Many tenants on one server: each database role sees only the workspaces it was admitted to.

PostgreSQL enforces this with row-level security, so it applies to every connection of the role, also from other
programs. The owner of the store's schema sets the rules and is exempt from them.
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
    """Enables the rules for every role except the owner. Idempotent. ReadOnly unless called as the owner."""
    _server(store).isolate()


def admit(store: Store, role: str, workspace: str) -> None:
    """Allows a role, which must exist, to read and write a workspace."""
    _server(store).admit(role, workspace)


def dismiss(store: Store, role: str, workspace: str | None = None) -> None:
    """Revokes a role's access to a workspace; without one, to all of them and to the store."""
    _server(store).dismiss(role, workspace)


def _server(store: Store) -> Tenants:
    tenants = Parts.of(store).engine.backend.tenants
    if tenants is None:
        raise Invalid(
            f"{store.path} is a file, and every program that opens it sees all of it", hint="Tenants need a server."
        )
    return tenants
