"""Strands Agents keeps sessions and snapshots in clew."""

from __future__ import annotations

from clew.adapters.framework import framework

with framework("strands"):
    from clew.adapters.strands.repository import ClewSessionRepository
    from clew.adapters.strands.storage import ClewStorage

__all__ = ["ClewSessionRepository", "ClewStorage"]
