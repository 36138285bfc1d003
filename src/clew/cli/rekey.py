"""`clew key seal | unseal | rotate`: each may be cut short at any moment, and goes on when it is asked again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

import clew
from clew.cli import sources
from clew.cli.exits import PARTIAL
from clew.cli.forms import Form, json_options, out_value
from clew.cli.place import as_it_is, given, store_option, with_key
from clew.cli.progress import Progress
from clew.cli.text import dim, is_terminal, out, plain, warn

if TYPE_CHECKING:
    from clew.rekey import Status

_NO_KEY = "sealing needs a key: --key-file, --passphrase, or a variable that 'clew --help' names"
_NO_NEW_KEY = "an exchange needs a new key: --new-key-file, --new-keyring, --new-passphrase or CLEW_NEW_KEY"
STATES = {"seal": "sealing", "unseal": "unsealing", "rotate": "rotating"}
"""What a store is called while a command is at work on it."""
UNCLEAN = (
    "Traces of before may be left in its files: somebody is reading. Whoever writes to it or opens it next clears them."
)
_NOT_CLEARED = (
    "Cut short when all was done: only traces of before are left in its files."
    " Whoever writes to it or opens it next clears them."
)
_REMIND = "A lost key is a lost store: 'clew key export-recovery' prints the key, to be put away."


@click.command(
    short_help="Seal a plain store, in place.",
    epilog="\b\nExamples:\n  clew key seal --key-file ~/keys/clew.key\n  CLEW_KEYRING=chats clew key seal\n"
    "  clew key seal --passphrase",
)
@click.option("--passphrase", is_flag=True, help="Ask for a new passphrase, and seal with that.")
@json_options
@store_option
@click.pass_context
def seal(ctx: click.Context, passphrase: bool, form: Form) -> None:
    """Encrypts everything in a plain store, in place, with the key that was given; from then on it needs that key.

    Cut short, it goes on when it is asked again. Copies made before, like backups, stay as they are. Exit code 8 if
    somebody who reads keeps readable traces from being cleared; whoever writes to the store or opens it next does that.
    """
    store, key = as_it_is()
    with store:
        if store.key_status().state == "sealed":
            _told(store, "is sealed already", form)
            return
        if key is None:
            asked = sources.Source("--passphrase", sources.ASKED, "") if passphrase else None
            if asked is not None and (other := given()) is not None:
                raise click.UsageError(f"{other.name} and --passphrase both give a key: leave one of them out")
            source = asked or given()
            if source is None:
                raise click.UsageError(_NO_KEY)
            key = source.key()
        with _resumable("seal", store), Progress("sealing") as progress:
            store.seal(key, progress=progress)
        for folder in store._purger.mirrors.folders():
            warn(f"The mirror {plain(folder)} still has its sessions in clear text: remove the folder.")
        ctx.exit(_told(store, "is sealed", form, remind=True))


@click.command(
    short_help="Make a sealed store a plain one.",
    epilog="\b\nExample:\n  clew key unseal --key-file ~/keys/clew.key",
)
@json_options
@store_option
@click.pass_context
def unseal(ctx: click.Context, form: Form) -> None:
    """Decrypts everything in a sealed store, in place; from then on it opens without a key.

    Cut short, it goes on when it is asked again.
    """
    store, key = as_it_is()
    with store:
        if key is None:
            _told(store, "is not sealed", form)
            return
        with _resumable("unseal", store), Progress("unsealing") as progress:
            store.unseal(progress=progress)
        ctx.exit(_told(store, "is not sealed any more: whoever can read the file can read what is in it", form))


@click.command(
    short_help="Exchange the key of a sealed store for another.",
    epilog="\b\nExamples:\n  clew key generate --out new.key\n"
    "  clew key rotate --key-file old.key --new-key-file new.key\n  clew key rotate --deep --new-passphrase",
)
@click.option("--deep", is_flag=True, help="Encrypt everything again, not only the keys of the sessions.")
@click.option("--new-key-file", metavar="PATH", help="The file with the new key.  [default: CLEW_NEW_KEY_FILE]")
@click.option("--new-keyring", metavar="NAME", help="Its name in the keyring.  [default: CLEW_NEW_KEYRING]")
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
    """Exchanges the key of a sealed store for another, which has to be there already, while others go on.

    The old key opens the store until everything was read under the new one, and then no more. Cut short, the same
    command goes on. Without --deep, whoever has the old key and an old copy of the store can read what is in both.
    """
    flags = {
        "KEY_FILE:--new-key-file": new_key_file,
        "KEYRING:--new-keyring": new_keyring,
        f"{sources.ASKED}:--new-passphrase": "" if new_passphrase else None,
    }
    source = sources.find(sources.NEW_VARIABLES, flags)
    if source is None:
        raise click.UsageError(_NO_NEW_KEY)
    try:
        store, key = as_it_is()
    except clew.WrongKey as wrong:
        _told_if_done(source, wrong, form)
        return
    with store:
        if key is None:
            raise clew.Invalid(f"{store.path} is not sealed", hint="'clew key seal' seals it.")
        new = source.key()
        with _resumable("rotate", store), Progress("exchanging keys") as progress:
            store.rotate(new, deep=deep, progress=progress)
        ctx.exit(_told(store, "has the new key, and the old one opens it no more", form, remind=True))


def _told_if_done(source: sources.Source, wrong: clew.WrongKey, form: Form) -> None:
    """The old key fits no more: perhaps because an exchange for the new one was cut short after its last step."""
    if source.kind == sources.ASKED:
        raise wrong
    try:
        store = with_key(source.key())
    except clew.Sealed:
        raise wrong from None
    with store:
        _told(store, "has the new key already", form)


@contextmanager
def _resumable(command: str, store: clew.Store) -> Iterator[None]:
    """Says how far it was, and if it is cut short, that nothing is lost and what goes on."""
    before = store.key_status()
    if before.state == STATES[command]:
        warn(f"Going on where it was: {before.done:,} of {before.total:,} rows were done.")
    try:
        yield
    except (KeyboardInterrupt, clew.Unavailable):
        now = store.key_status()
        if now.total:
            warn(f"Cut short. Nothing is lost, and the same 'clew key {command}' again goes on.")
        elif now.unclean and now[:2] != before[:2]:  # it has another state, or another key
            warn(_NOT_CLEARED)
        raise


def _told(store: clew.Store, sentence: str, form: Form, *, remind: bool = False) -> int:
    """The id of the key, or all of it as JSON, to stdout; what happened, to stderr. Returns the exit code."""
    now = store.key_status()
    if form != "text":
        out_value(status_json(now), form)
        return PARTIAL if now.unclean else 0
    for id in now.key_ids:
        out(id)
    warn(f"{plain(store.path)} {sentence}")
    if now.unclean:
        warn(UNCLEAN)
    if remind and is_terminal(sys.stderr):
        warn(dim(_REMIND, sys.stderr))
    return PARTIAL if now.unclean else 0


def status_json(now: Status) -> dict[str, Any]:
    """How a store is kept, as JSON."""
    return {**now._asdict(), "key_ids": list(now.key_ids)}
