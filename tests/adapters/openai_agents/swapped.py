"""A plugin of pytest: in the SDK's own tests, `SQLiteSession` is `ClewSession`."""

from __future__ import annotations

import agents.memory

import agents
from clew.adapters.openai_agents import ClewSession

agents.SQLiteSession = agents.memory.SQLiteSession = ClewSession
