"""`clew key`: the key of a sealed store, made, told, printed and brought back; `clew.cli.rekey` exchanges it."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

import clew
from clew.cli.ask import TRIES, agrees, can_ask
from clew.cli.exits import FAILED, say, show_help
from clew.cli.forms import Form, json_options, out_value
from clew.cli.place import as_it_is, store_option
from clew.cli.rekey import STATES, rotate, seal, status_json, unseal
from clew.cli.text import bold, is_terminal, out, plain, warn

LONGEST = 4096
"""Letters of a recovery key that are read at most; it has 65, and may come with words around it."""


class InOrder(click.Group):
    """A group that lists its commands as they were added."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(
    cls=InOrder,
    invoke_without_command=True,
    short_help="Make, exchange and print the key of a sealed store.",
    epilog="\b\nExamples:\n  clew key generate --out ~/keys/clew.key\n  clew key seal --key-file ~/keys/clew.key\n"
    "  clew key export-recovery --key-file ~/keys/clew.key | lpr",
)
@click.pass_context
def key(ctx: click.Context) -> None:
    """Seals a store with a key, exchanges the key, and keeps it from being lost."""
    if ctx.invoked_subcommand is None:
        show_help(ctx)


@key.command(
    short_help="Make a new key.",
    epilog="\b\nExamples:\n  mkdir -p ~/keys && clew key generate --out ~/keys/clew.key\n"
    "  clew key generate --keyring chats\n"
    "  clew key generate | vault kv put secret/clew key=-",
)
@click.option("--out", metavar="FILE", help="Put it into this new file, for you alone.")
@click.option("--keyring", metavar="NAME", help="Put it into the keyring of the system, under a new name.")
@json_options
def generate(out: str | None, keyring: str | None, form: Form) -> None:
    """Makes a new key and puts it into a file or the keyring; a key that is there is never replaced.

    With neither, the key goes to stdout as 64 hex digits, for another program: a terminal does not get to see it. No
    store is touched.
    """
    if out is not None and keyring is not None:
        raise click.UsageError("--out and --keyring are two places for one key: give one")
    if out is None and keyring is None and is_terminal(sys.stdout):
        raise click.UsageError("a key is not shown on a terminal: give --out or --keyring, or send it to a program")
    if out is not None:
        made, place = _filed(out, clew.keys.generate()), {"path": out}
    elif keyring is not None:
        made, place = _entered(keyring), {"keyring": keyring}
    else:
        made = clew.keys.generate()
        place = {"key": made.hex()}
    _told(made, place, form)


@key.command(
    "from-recovery",
    short_help="Make a key file from a recovery key.",
    epilog="\b\nExamples:\n  clew key from-recovery --out ~/keys/clew.key\n"
    "  clew key from-recovery --out ~/keys/clew.key < recovery.txt",
)
@click.option("--out", required=True, metavar="FILE", help="The key file to be made; one that is there stays.")
@json_options
def from_recovery(out: str, form: Form) -> None:
    """Reads the recovery key that 'clew key export-recovery' printed, and makes a key file of it.

    It is read from stdin; case, spaces and hyphens do not matter. No store is touched.
    """
    _vacant(out)
    found = _typed_recovery() if can_ask() else clew.keys.from_recovery(sys.stdin.read(LONGEST))
    _told(_filed(out, found), {"path": out}, form)


@key.command(
    "export-recovery",
    short_help="Print the key, to be put away on paper.",
    epilog="\b\nExamples:\n  clew key export-recovery\n  clew key export-recovery --key-file ~/keys/clew.key | lpr",
)
@click.option("--yes", is_flag=True, help="Show it on a terminal without asking.")
@json_options
@store_option
@click.pass_context
def export_recovery(ctx: click.Context, yes: bool, form: Form) -> None:
    """Prints the recovery key: the store's key itself, as letters to be printed or copied by hand.

    Whoever has it can read the store. 'clew key from-recovery' makes a key file of it again; that also opens a store
    that was sealed with a passphrase.
    """
    store, _ = as_it_is()
    with store:
        paper, id = store.recovery_key(), next(iter(store.key_status().key_ids), "")
    warn(f"{bold('Whoever has this can read everything in the store.', sys.stderr)} Keep it away from this machine.")
    if is_terminal(sys.stdout) and can_ask() and not yes and not agrees("Show it here?"):
        ctx.exit(say("the recovery key was not shown", "Send it to a printer: clew key export-recovery | lpr", FAILED))
    if form == "text":
        out(paper)
        warn(f"It is key {id} of {plain(store.path)}: write that beside it.")
    else:
        out_value({"recovery_key": paper, "key_id": id}, form)


@key.command(
    short_help="Tell how the store is kept, and by which key.",
    epilog="\b\nExamples:\n  clew key status\n  clew key status --json | jq -r .state",
)
@json_options
@store_option
def status(form: Form) -> None:
    """Tells whether the store is sealed, the ids of its keys, and how far an exchange of keys has come."""
    store, _ = as_it_is()
    with store:
        now = store.key_status()
    if form != "text":
        out_value(status_json(now), form)
        return
    out(f"state  {now.state}")
    for number, id in enumerate(now.key_ids):
        out(f"key    {id}{' (until the exchange is done)' if number else ''}")
    if now.passphrase:
        out("from   a passphrase")
    if now.unclean:
        out("left   traces of before, in its files: whoever writes to it or opens it next clears them")
    if now.total:
        again = next(command for command, state in STATES.items() if state == now.state)
        out(f"done   {now.done:,} of {now.total:,} rows; the same 'clew key {again}' again goes on")


key.add_command(seal)
key.add_command(unseal)
key.add_command(rotate)


# -- a key and its place


def _told(made: bytes, place: dict[str, Any], form: Form) -> None:
    id = clew.keys.key_id_text(clew.keys.key_id(made))
    if form != "text":
        out_value({"key_id": id, **place}, form)
        return
    (where,) = place.values()
    out(plain(where))
    warn(f"It is key {id}." + ("" if "key" in place else " Keep it away from the store."))


def _filed(path: str, made: bytes) -> bytes:
    """Puts a key into a new file. Conflict if something is there, also if it came there in this moment."""
    from clew.files import make_private

    _vacant(path)
    make_private(path, made.hex().encode() + b"\n")
    if clew.keys.from_file(path) != made:
        raise _taken(path)
    return made


def _vacant(path: str) -> None:
    if not path:
        raise click.UsageError("a key file is named by a path")
    if os.path.lexists(path):
        raise _taken(path)


def _taken(path: str) -> clew.Conflict:
    return clew.Conflict(f"{path} is there already", hint="A key is never replaced: name another file.")


def _entered(name: str) -> bytes:
    try:
        clew.keys.from_keyring(name)
    except clew.NotFound:
        return clew.keys.from_keyring(name, create=True)
    raise clew.Conflict(f"the keyring has a key {name!r} already", hint="A key is never replaced: take another name.")


def _typed_recovery() -> bytes:
    """The recovery key that a person types. It is shown: nobody types 55 letters without seeing them."""
    for left in reversed(range(TRIES)):
        try:
            return clew.keys.from_recovery(click.prompt("Recovery key", err=True))
        except clew.Invalid as error:
            if not left:
                raise
            say(error.message, error.hint, FAILED)
    raise click.Abort
