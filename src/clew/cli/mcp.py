"""`clew mcp`: the store for agents, over the Model Context Protocol."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

import clew
from clew.cli.place import existing, looking, store_option
from clew.cli.text import is_terminal, warn

if TYPE_CHECKING:
    from mcp.server import MCPServer

TOKEN = "CLEW_MCP_TOKEN"
SHORTEST = 16
"""Characters of a token at least."""


@click.command(
    short_help="Let agents find and read conversations, over MCP.",
    epilog="\b\nExamples:\n  clew mcp                     # a client starts this, and speaks to it\n"
    "  clew mcp --allow-write\n  clew mcp --http 8765\n\n\b\n"
    "Over HTTP each request needs the header 'Authorization: Bearer TOKEN'. The token is in\n"
    f"{TOKEN}, or a new one is made and told on stderr.",
)
@click.option("--http", "port", type=click.IntRange(0, 65535), metavar="PORT", help="Listen on this port of 127.0.0.1.")
@click.option("--allow-write", is_flag=True, help="Also let agents fork, tag and append notes.")
@store_option
def mcp(port: int | None, allow_write: bool) -> None:
    """Serves the store to agents: search_conversations, list_conversations, get_overview, get_messages.

    Answers are bounded, cite ids, and say what they leave out. With --allow-write agents can also fork, tag and
    append_note; what they store is redacted as the setting 'redact' says. They can never delete, purge, or touch a key.
    """
    server = _sdk()
    with existing(tidy=False) if allow_write else looking() as store:
        made = server(store, allow_write=allow_write, version=clew.__version__)
        if port is not None:
            _serve(made, port)
            return
        if is_terminal(sys.stdin):
            warn("clew mcp speaks to a program on stdin and stdout; Ctrl-C ends it.")
        made.run("stdio")


def _sdk() -> Callable[..., MCPServer[Any]]:
    """What makes a server. Invalid if the SDK is not there."""
    try:
        from clew.mcp import server
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("mcp", "pydantic", "uvicorn"):
            raise
        raise clew.Invalid("clew mcp needs the SDK of the protocol", hint="pip install 'clew[mcp]'") from None
    return server


def _serve(made: MCPServer[Any], port: int) -> None:
    from secrets import token_urlsafe

    from clew.mcp import http

    token = os.environ.get(TOKEN) or token_urlsafe(32)
    if len(token) < SHORTEST or not token.isascii() or not token.isprintable():
        raise click.UsageError(f"{TOKEN} is a text of at least {SHORTEST} plain characters")
    with http.listen(port) as opened:
        warn(f"clew mcp listens on {http.address(opened)}")
        if not os.environ.get(TOKEN):
            warn(f"Authorization: Bearer {token}")
        http.serve(made, opened, token)
