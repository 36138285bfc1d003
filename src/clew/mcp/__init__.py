"""An MCP (Model Context Protocol) server that lets agents search and read stored conversations, and write if allowed.

``server(store)`` creates a server of the official SDK; ``clew mcp`` runs it.
"""

from clew.mcp.tools import server

__all__ = ["server"]
