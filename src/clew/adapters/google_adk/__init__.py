"""Google's Agent Development Kit (ADK) keeps sessions, artifacts and memory in clew."""

from __future__ import annotations

from clew.adapters.framework import framework

with framework("google-adk"):
    from clew.adapters.google_adk.artifacts import ClewArtifactService
    from clew.adapters.google_adk.memory import ClewMemoryService
    from clew.adapters.google_adk.sessions import ClewSessionService

__all__ = ["ClewArtifactService", "ClewMemoryService", "ClewSessionService"]
