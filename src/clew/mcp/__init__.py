"""Stored conversations for agents, over the Model Context Protocol: to be found and read, and changed only if allowed.

``server(store)`` makes a server of the official SDK, which the extra ``clew[mcp]`` brings; ``clew mcp`` runs it.
"""

from clew.mcp.tools import server

__all__ = ["server"]
