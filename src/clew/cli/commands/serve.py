"""`clew serve | open`: the web page over a store, for a browser on this machine."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from hashlib import sha256
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

import clew
from clew.base.files import make_folder
from clew.cli.options import examples
from clew.cli.output.text import is_terminal, out, warn
from clew.cli.setup.find import find
from clew.cli.setup.open_store import location, open_for_reading, open_unasked, store_option
from clew.cli.setup.settings import prices, user_folder
from clew.web import PORT

if TYPE_CHECKING:
    from clew.keys import Key
    from clew.web.server import Server

PACKAGES = ("starlette", "uvicorn", "jinja2", "markupsafe", "anyio", "markdown_it", "nh3", "pygments")

port_option = click.option(
    "--port", type=click.IntRange(0, 65535), metavar="PORT",
    help="Port of 127.0.0.1; 0 picks a free one.  [default: 8765, or the next free one]",
)  # fmt: skip
write_option = click.option(
    "--allow-write", is_flag=True, help="Also rename, label, pin, note, fork, rewind and move to the trash."
)
browser_option = click.option("--no-browser", is_flag=True, help="Only print the URL.")


@click.command(epilog=examples("clew serve", "clew serve --allow-write", "clew serve --url"))
@port_option
@write_option
@browser_option
@click.option("--url", "another", is_flag=True, help="Print a new URL of the running server, for another browser.")
@store_option
def serve(port: int | None, allow_write: bool, no_browser: bool, another: bool) -> None:
    """Show the conversations of the store in a browser on this machine.

    Listens on 127.0.0.1 only. The printed URL works once and sets a cookie; --url prints another one while the server
    runs. Reads only, unless --allow-write is given; purging and keys need the command line. If the store is sealed
    and no key is given, the page asks for it. Stop with Ctrl+C.
    """
    if another:
        _print_fresh_url()
        return
    _run("/", port, allow_write, no_browser)


@click.command(epilog=examples("clew open k3m9qa", "clew open 7dq2xe"))
@click.argument("id")
@port_option
@write_option
@browser_option
@store_option
def open(id: str, port: int | None, allow_write: bool, no_browser: bool) -> None:
    """Show the conversation or the message ID in a browser. Otherwise like 'clew serve'."""
    with open_for_reading() as store:
        found = find(store, id)
        if isinstance(found, clew.Session):
            to = f"/c/{found.id}"
        else:
            owner = store.sessions.with_message(found)
            if owner is None:
                raise clew.NotFound("conversation", "", hint="The message belongs to no conversation.")
            to = f"/c/{owner.id}/m/{found.id}"
    _run(to, port, allow_write, no_browser)


def has_page() -> bool:
    """True if the packages of the web page are installed."""
    return all(find_spec(name) is not None for name in PACKAGES)


def _run(to: str, port: int | None, allow_write: bool, no_browser: bool) -> None:
    server = _server(port, allow_write)
    server.open()
    url = server.url(to)

    def ready() -> None:
        out(url)
        sys.stdout.flush()
        _say_how(server.port, no_browser, url)

    with server.findable(_server_file()):
        server.run(ready)


def _server_file() -> str:
    """Where a running server of this store says how to reach it: in the user's own folder."""
    path, _ = location()
    name = sha256((path if "://" in path else os.path.realpath(path)).encode(errors="surrogateescape")).hexdigest()
    folder = user_folder("data")
    with suppress(OSError):
        make_folder(folder)
    return os.path.join(folder, f"serve-{name[:16]}")


def _print_fresh_url() -> None:
    from clew.web.server import fresh_url

    url = fresh_url(_server_file())
    if url is None:
        raise clew.NotFound("running server", "", hint="Start one with: clew serve")
    out(url)


def _server(port: int | None, allow_write: bool) -> Server:
    try:
        from clew.web.server import Server, listen
    except ModuleNotFoundError as error:
        package = (error.name or "").split(".")[0]
        if package not in PACKAGES:
            raise
        raise clew.MissingPackage(f"the web page needs the package {package}", package) from None

    def opener(key: Key | None) -> clew.Store:
        try:
            return open_unasked(key)
        except (clew.NotFound, clew.NotAStore):  # nothing stored yet, or the file of another program
            return open_for_reading()

    context, known = click.get_current_context(), prices()

    def within(key: Key | None) -> clew.Store:
        with context.scope(cleanup=False):  # the server opens the store on another thread
            return opener(key)

    listening = listen(PORT if port is None else port, strict=port is not None)
    return Server(within, listening, allow_write=allow_write, prices=known)


def _say_how(port: int, no_browser: bool, url: str) -> None:
    """Opens the browser, or says how to reach the page."""
    import webbrowser

    if os.environ.get("SSH_CONNECTION"):
        warn(f"Over SSH, forward the port on your own machine first: ssh -L {port}:127.0.0.1:{port} HOST")
    elif not no_browser and is_terminal(sys.stdout):
        try:
            webbrowser.open(url)
        except webbrowser.Error:
            warn("No browser found. Open the URL in one on this machine.")
    warn("Press Ctrl+C to stop.")
