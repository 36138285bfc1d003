"""Microsoft's Agent Framework keeps histories and workflow checkpoints in clew."""

from __future__ import annotations

from clew.adapters.framework import framework

with framework("agent-framework"):
    from clew.adapters.agent_framework.checkpoints import ClewCheckpointStorage
    from clew.adapters.agent_framework.history import ClewHistoryProvider

__all__ = ["ClewCheckpointStorage", "ClewHistoryProvider"]
