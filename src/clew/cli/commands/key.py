"""`clew key`: creates, shows, exports and recovers the key of a sealed store; seal and rotate are in `rekey.py`."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

import clew
from clew.base.visible import plain
from clew.cli.commands.rekey import STATES, rotate, seal, status_json, unseal
from clew.cli.exits import FAILED, say
from clew.cli.options import Group, examples, yes_option
from clew.cli.output.json import Form, json_options, out_value
from clew.cli.output.text import bold, is_terminal, out, warn
from clew.cli.setup.ask import TRIES, can_ask, confirm
from clew.cli.setup.open_store import open_with_its_key, store_option

LONGEST = 4096
"""Longest input for a recovery key, which has 65 characters and may be surrounded by text."""


@click.group(
    cls=Group,
    epilog=examples(
        "clew key generate --out ~/keys/clew.key",
        "clew key seal --key-file ~/keys/clew.key",
        "clew key export-recovery --key-file ~/keys/clew.key | lpr",
    ),
)
def key() -> None:
    """Encrypt ("seal") a store with a key, rotate the key, and export it for recovery."""


@key.command(
    epilog=examples(
        "mkdir -p ~/keys && clew key generate --out ~/keys/clew.key",
        "clew key generate --keyring chats",
        "clew key generate | vault kv put secret/clew key=-",
    ),
)
@click.option("--out", metavar="FILE", help="Write the key to this new file, readable only by you.")
@click.option("--keyring", metavar="NAME", help="Store the key in the system keyring, under this new name.")
@json_options
def generate(out: str | None, keyring: str | None, form: Form) -> None:
    """Generate a new key in a file or in the keyring. Never replaces a key; changes no store.

    Without --out and --keyring, prints the key as 64 hex digits for another program to read; refuses to print it to a
    terminal.
    """
    if out is not None and keyring is not None:
        raise click.UsageError("--out and --keyring cannot be used together")
    if out is None and keyring is None and is_terminal(sys.stdout):
        raise click.UsageError("refusing to print a key to a terminal; use --out, --keyring, or a pipe")
    if out is not None:
        made, place = _write_key(out, clew.keys.generate()), {"path": out}
    elif keyring is not None:
        made, place = _add_to_keyring(keyring), {"keyring": keyring}
    else:
        made = clew.keys.generate()
        place = {"key": made.hex()}
    _print_result(made, place, form)


@key.command(
    "from-recovery",
    epilog=examples(
        "clew key from-recovery --out ~/keys/clew.key", "clew key from-recovery --out ~/keys/clew.key < recovery.txt"
    ),
)
@click.option("--out", required=True, metavar="FILE", help="The key file to create; never replaces a file.")
@json_options
def from_recovery(out: str, form: Form) -> None:
    """Create a key file from a recovery key, read from stdin. Changes no store.

    'clew key export-recovery' prints the recovery key. Case, spaces and hyphens are ignored.
    """
    _require_new(out)
    found = _ask_recovery_key() if can_ask() else clew.keys.from_recovery(sys.stdin.read(LONGEST))
    _print_result(_write_key(out, found), {"path": out}, form)


@key.command(
    "export-recovery",
    epilog=examples("clew key export-recovery", "clew key export-recovery --key-file ~/keys/clew.key | lpr"),
)
@yes_option
@json_options
@store_option
@click.pass_context
def export_recovery(ctx: click.Context, yes: bool, form: Form) -> None:
    """Print the recovery key: the store's key, in a form to write down or print.

    Anyone who has it can read the store. 'clew key from-recovery' turns it into a key file, which also opens a store
    sealed with a passphrase.
    """
    store, _ = open_with_its_key()
    with store:
        paper, id = store.recovery_key(), next(iter(store.key_status().key_ids), "")
    warn(f"{bold('Anyone who has this key can read the whole store.', sys.stderr)} Do not keep it on this machine.")
    if is_terminal(sys.stdout) and can_ask() and not yes and not confirm("Print it to this terminal?"):
        ctx.exit(say("the recovery key was not printed", "Print it on paper: clew key export-recovery | lpr", FAILED))
    if form == "text":
        out(paper)
        warn(f"Note with it: key {id} of {plain(store.path)}")
    else:
        out_value({"recovery_key": paper, "key_id": id}, form)


@key.command(epilog=examples("clew key status", "clew key status --json | jq -r .state"))
@json_options
@store_option
def status(form: Form) -> None:
    """Show whether the store is sealed, its key IDs, and the progress of a key rotation."""
    store, _ = open_with_its_key()
    with store:
        now = store.key_status()
    if form != "text":
        out_value(status_json(now), form)
        return
    out(f"state  {now.state}")
    for number, id in enumerate(now.key_ids):
        out(f"key    {id}{' (until the rotation is complete)' if number else ''}")
    if now.passphrase:
        out("from   a passphrase")
    if now.unclean:
        out("left   traces of the earlier state; the next program that opens or writes the store clears them")
    if now.total:
        again = next(command for command, state in STATES.items() if state == now.state)
        out(f"done   {now.done:,} of {now.total:,} rows; run the same 'clew key {again}' again to continue")


key.add_command(seal)
key.add_command(unseal)
key.add_command(rotate)


# -- storing keys


def _print_result(made: bytes, place: dict[str, Any], form: Form) -> None:
    id = clew.keys.key_id_text(clew.keys.key_id(made))
    if form != "text":
        out_value({"key_id": id, **place}, form)
        return
    (where,) = place.values()
    out(plain(where))
    warn(f"Created key {id}." + ("" if "key" in place else " Do not keep it next to the store."))


def _write_key(path: str, made: bytes) -> bytes:
    """Writes a key to a new file. Conflict if the file exists, even if it was created just now."""
    from clew.base.files import make_private

    _require_new(path)
    make_private(path, made.hex().encode() + b"\n")
    if clew.keys.from_file(path) != made:
        raise _exists(path)
    return made


def _require_new(path: str) -> None:
    if not path:
        raise click.UsageError("the path of the key file is empty")
    if os.path.lexists(path):
        raise _exists(path)


def _exists(path: str) -> clew.Conflict:
    return clew.Conflict(f"{path} already exists", hint="Keys are never replaced. Choose another file.")


def _add_to_keyring(name: str) -> bytes:
    try:
        clew.keys.from_keyring(name)
    except clew.NotFound:
        return clew.keys.from_keyring(name, create=True)
    raise clew.Conflict(f"the keyring already has a key {name!r}", hint="Keys are never replaced. Choose another name.")


def _ask_recovery_key() -> bytes:
    """Asks for the recovery key, with echo: 55 characters are hard to type blind."""
    for left in reversed(range(TRIES)):
        try:
            return clew.keys.from_recovery(click.prompt("Recovery key", err=True))
        except clew.Invalid as error:
            if not left:
                raise
            say(error.message, error.hint, FAILED)
    raise click.Abort
