"""`clew key seal | unseal | rotate`: each can be interrupted, and continues when it is run again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

import clew
from clew.base.visible import plain
from clew.cli.exits import PARTIAL
from clew.cli.options import examples
from clew.cli.output.json import Form, json_options, out_value
from clew.cli.output.progress import ProgressLine
from clew.cli.output.text import is_terminal, note, out, warn
from clew.cli.setup import key_sources
from clew.cli.setup.open_store import key_source, open_with_its_key, open_with_key, store_option

if TYPE_CHECKING:
    from clew.upkeep.rekey import Status

_NO_KEY = "no key given; use --key-file, --passphrase, or a variable listed in 'clew --help'"
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
@json_options
@store_option
@click.pass_context
def seal(ctx: click.Context, passphrase: bool, form: Form) -> None:
    """Encrypt a plain store in place. Afterwards, the store can only be opened with the key.

    If interrupted, run the same command again to continue. Earlier copies, such as backups, are not encrypted. Exit
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
    """Replace the key of a sealed store with another existing key. The store stays usable meanwhile.

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
