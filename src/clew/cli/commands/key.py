"""`clew key`: creates, shows, exports and recovers the key of a sealed store; seals, rotates and unseals."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

import clew
from clew.base.visible import plain
from clew.cli.exits import FAILED, PARTIAL, say
from clew.cli.options import Group, examples, yes_option
from clew.cli.output.json import Form, json_options, out_value
from clew.cli.output.progress import ProgressLine
from clew.cli.output.text import bold, is_terminal, note, out, warn
from clew.cli.setup import key_sources
from clew.cli.setup.ask import TRIES, can_ask, confirm
from clew.cli.setup.open_store import key_source, open_with_its_key, open_with_key, store_option

if TYPE_CHECKING:
    from clew.upkeep.rekey import Status

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
    """Print the recovery key: the store's key, to write down.

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
    """Show if the store is sealed, and its key IDs. While the key is rotated, also show the progress."""
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


_NO_KEY = "no key given; use --key-file, --passphrase, or a variable listed in 'clew help environment'"
_NO_NEW_KEY = "no new key given; use --new-key-file, --new-keyring, --new-passphrase or CLEW_NEW_KEY"
STATES = {"seal": "sealing", "unseal": "unsealing", "rotate": "rotating"}
"""The state of a store during each command."""
CLEANUP_PENDING = (
    "Cleanup pending: the files may contain traces of the earlier state, because another program is reading them."
    " The next program that opens or writes the store clears them."
)
_INTERRUPTED_CLEANUP = (
    "Interrupted during cleanup: the files may contain traces of the earlier state."
    " The next program that opens or writes the store clears them."
)
_REMINDER = ("Without its key, the store cannot be read. Print a copy and keep it safe:", "  clew key export-recovery")


@click.command(
    epilog=examples(
        "clew key seal --key-file ~/keys/clew.key", "CLEW_KEYRING=chats clew key seal", "clew key seal --passphrase"
    ),
)
@click.option("--passphrase", is_flag=True, help="Ask for a new passphrase and seal with it.")
@yes_option
@json_options
@store_option
@click.pass_context
def seal(ctx: click.Context, passphrase: bool, yes: bool, form: Form) -> None:
    """Encrypt a plain store in place. Afterwards, the store can only be opened with the key.

    On a terminal it asks first; a new passphrase is typed twice instead. If interrupted, run the same command again to
    continue. Earlier copies, such as backups, are not encrypted. Exit
    code 8 if another program is reading and traces in clear text remain; the next program that opens or writes the
    store clears them.
    """
    store, key = open_with_its_key()
    with store:
        if store.key_status().state == "sealed":
            _print_status(store, "is already sealed", form)
            return
        if key is None:
            asked = key_sources.KeySource("--passphrase", key_sources.ASKED, "") if passphrase else None
            if asked is not None and (other := key_source()) is not None:
                raise click.UsageError(f"{other.name} and --passphrase both set a key; use only one of them")
            source = asked or key_source()
            if source is None:
                raise click.UsageError(_NO_KEY)
            key = source.key()
        if (
            not yes
            and not passphrase
            and can_ask()
            and not confirm("Seal the store? Without this key nobody can read it.")
        ):
            ctx.exit(say("nothing was changed", "", FAILED))
        with _resumable("seal", store), ProgressLine("sealing") as progress:
            store.seal(key, progress=progress)
        for folder in store.mirrors():
            warn(f"The mirror {plain(folder)} still contains conversations in clear text. Remove the folder.")
        ctx.exit(_print_status(store, "is now sealed", form, remind=True))


@click.command(epilog=examples("clew key unseal --key-file ~/keys/clew.key"))
@json_options
@store_option
@click.pass_context
def unseal(ctx: click.Context, form: Form) -> None:
    """Decrypt a sealed store in place. Afterwards, it can be opened without a key.

    If interrupted, run the same command again to continue.
    """
    store, key = open_with_its_key()
    with store:
        if key is None:
            _print_status(store, "is not sealed", form)
            return
        with _resumable("unseal", store), ProgressLine("unsealing") as progress:
            store.unseal(progress=progress)
        ctx.exit(_print_status(store, "is no longer sealed: anyone who can read the file can read its content", form))


@click.command(
    epilog=examples(
        "clew key generate --out new.key",
        "clew key rotate --key-file old.key --new-key-file new.key",
        "clew key rotate --deep --new-passphrase",
    ),
)
@click.option("--deep", is_flag=True, help="Re-encrypt all content, not only the keys of the conversations.")
@click.option("--new-key-file", metavar="PATH", help="File with the new key.  [default: CLEW_NEW_KEY_FILE]")
@click.option("--new-keyring", metavar="NAME", help="Name of the new key in the keyring.  [default: CLEW_NEW_KEYRING]")
@click.option("--new-passphrase", is_flag=True, help="Ask for a new passphrase.")
@json_options
@store_option
@click.pass_context
def rotate(
    ctx: click.Context,
    deep: bool,
    new_key_file: str | None,
    new_keyring: str | None,
    new_passphrase: bool,
    form: Form,
) -> None:
    """Replace the key of a sealed store. The new key has to exist already. The store stays usable meanwhile.

    The old key opens the store until the rotation is complete. If interrupted, run the same command again to continue.
    Without --deep, anyone with the old key and an old copy of the store can read the content that both have in common.
    """
    flags = {
        "KEY_FILE:--new-key-file": new_key_file,
        "KEYRING:--new-keyring": new_keyring,
        f"{key_sources.ASKED}:--new-passphrase": "" if new_passphrase else None,
    }
    source = key_sources.find(key_sources.NEW_VARIABLES, flags)
    if source is None:
        raise click.UsageError(_NO_NEW_KEY)
    try:
        store, key = open_with_its_key()
    except clew.WrongKey as wrong:
        _report_if_rotated(source, wrong, form)
        return
    with store:
        if key is None:
            raise clew.Invalid(f"{store.path} is not sealed", hint="Seal it with: clew key seal")
        new = source.key()
        with _resumable("rotate", store), ProgressLine("rotating the key") as progress:
            store.rotate(new, deep=deep, progress=progress)
        ctx.exit(_print_status(store, "now uses the new key; the old key no longer opens it", form, remind=True))


def _report_if_rotated(source: key_sources.KeySource, wrong: clew.WrongKey, form: Form) -> None:
    """Reports success if the new key opens the store: an earlier run was interrupted after its last step."""
    if source.kind == key_sources.ASKED:
        raise wrong
    try:
        store = open_with_key(source.key())
    except clew.Sealed:
        raise wrong from None
    with store:
        _print_status(store, "already uses the new key", form)


@contextmanager
def _resumable(command: str, store: clew.Store) -> Iterator[None]:
    """Reports earlier progress at the start, and how to continue after an interruption."""
    before = store.key_status()
    if before.state == STATES[command]:
        warn(f"Continuing: {before.done:,} of {before.total:,} rows were done.")
    try:
        yield
    except (KeyboardInterrupt, clew.Unavailable):
        now = store.key_status()
        if now.total:
            warn(f"Interrupted. Nothing is lost; run the same 'clew key {command}' again to continue.")
        elif now.unclean and now[:2] != before[:2]:  # state or key has changed
            warn(_INTERRUPTED_CLEANUP)
        raise


def _print_status(store: clew.Store, sentence: str, form: Form, *, remind: bool = False) -> int:
    """Prints the key IDs, or the status as JSON, to stdout, and the sentence to stderr. Returns the exit code."""
    now = store.key_status()
    if form != "text":
        out_value(status_json(now), form)
        return PARTIAL if now.unclean else 0
    for id in now.key_ids:
        out(id)
    warn(f"{plain(store.path)} {sentence}")
    if now.unclean:
        warn(CLEANUP_PENDING)
    if remind and is_terminal(sys.stderr):
        for line in _REMINDER:  # a line each: a wrapped command cannot be copied
            note(line)
    return PARTIAL if now.unclean else 0


def status_json(now: Status) -> dict[str, Any]:
    """The key status as JSON."""
    return {**now._asdict(), "key_ids": list(now.key_ids)}


key.add_command(seal)
key.add_command(unseal)
key.add_command(rotate)
