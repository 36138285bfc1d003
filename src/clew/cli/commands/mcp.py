"""`clew mcp`: serves the store to agents over the Model Context Protocol."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

import clew
from clew.cli.options import examples
from clew.cli.output.text import is_terminal, warn
from clew.cli.setup.open_store import open_existing, open_untouched, store_option

if TYPE_CHECKING:
    from mcp.server import MCPServer

TOKEN = "CLEW_MCP_TOKEN"
SHORTEST = 16
"""Minimum length of the token."""


@click.command(
    epilog=examples(
        "clew mcp                     # started by an MCP client",
        "clew mcp --allow-write",
        "clew mcp --http 8765",
        more="Over HTTP, each request needs the header 'Authorization: Bearer TOKEN'. Set\n"
        f"the token in {TOKEN}; otherwise clew generates one and prints\nit to stderr.",
    ),
)
@click.option(
    "--http",
    "port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Listen on this port of 127.0.0.1 instead of stdin.",
)
@click.option("--allow-write", is_flag=True, help="Also let agents fork, tag and append notes.")
@store_option
def mcp(port: int | None, allow_write: bool) -> None:
    """Serve conversations to agents over MCP: search_conversations, list_conversations, get_overview, get_messages.

    Answers have a size limit, cite IDs, and state what they omit. With --allow-write, agents can also fork, tag and
    append_note; the setting 'redact' applies to what they store. Agents can never delete, purge or change keys.
    """
    server = _sdk()
    with open_existing(tidy=False) if allow_write else open_untouched() as store:
        made = server(store, allow_write=allow_write, version=clew.__version__)
        if port is not None:
            _serve(made, port)
            return
        if is_terminal(sys.stdin):
            warn("clew mcp expects an MCP client on stdin and stdout. Press Ctrl+C to stop.")
        made.run("stdio")


def _sdk() -> Callable[..., MCPServer[Any]]:
    """The function that creates a server. MissingPackage if the SDK is not installed or too old."""
    try:
        from clew.mcp import server
    except ImportError as error:
        if (error.name or "").split(".")[0] not in ("mcp", "pydantic", "uvicorn"):
            raise
        raise clew.MissingPackage("clew mcp needs the MCP SDK, version 2.1 or newer", "mcp>=2.1") from None
    return server


def _serve(made: MCPServer[Any], port: int) -> None:
    from secrets import token_urlsafe

    from clew.mcp import http

    token = os.environ.get(TOKEN) or token_urlsafe(32)
    if len(token) < SHORTEST or not token.isascii() or not token.isprintable():
        raise click.UsageError(f"{TOKEN} must have at least {SHORTEST} printable ASCII characters")
    with http.listen(port) as listening:
        warn(f"Listening on {http.address(listening)}")
        if not os.environ.get(TOKEN):
            warn(f"Authorization: Bearer {token}")
        http.serve(made, listening, token)
