"""`clew redact`: finds stored secrets, shows where they are, never their values; and removes one from a message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from clew.base.visible import plain
from clew.cli.commands.purge import original_files, original_lines
from clew.cli.exits import DAMAGED, FAILED, PARTIAL, say
from clew.cli.options import dry_run_option, examples, yes_option
from clew.cli.output.json import Form, json_options, out_lines, out_value
from clew.cli.output.progress import ProgressLine
from clew.cli.output.text import bold, dim, list_counts, many, note, out_json, out_jsonl, pad, style, warn
from clew.cli.setup.ask import can_ask, confirm
from clew.cli.setup.find import describe_session, find_message
from clew.cli.setup.open_store import also_option, open_existing, open_for_reading, rules, store_option

if TYPE_CHECKING:
    from clew import Store
    from clew.redaction import Rules
    from clew.store.redact_message import RedactedMessage
    from clew.store.scan import Scan, Spot


NAMED = 10
"""Most conversations that are listed before and after a redaction."""


@click.command(
    epilog=examples(
        "clew redact",
        "clew redact --apply 7dq2xe --dry-run",
        "clew redact --apply 7dq2xe",
        "clew redact --also email --json | jq .counts",
        "clew append --redact < messages.jsonl      # removes secrets before storing",
    ),
)
@click.option("--scan", is_flag=True, expose_value=False, help="Scan the store; change nothing. This is the default.")
@click.option("--apply", "message", metavar="MESSAGE", help="Remove the secrets that are found in this message.")
@dry_run_option
@yes_option
@also_option
@json_options
@store_option
@click.pass_context
def redact(
    ctx: click.Context, message: str | None, dry_run: bool, yes: bool, also: tuple[str, ...], form: Form
) -> None:
    """Scan the store for secrets, and list their number, kind and location. Never prints the values.

    Exit code 1 if secrets were found; 7 if none were found but something could not be read.

    To remove a secret, purge its conversation, or name the message with --apply: a version without the secret takes
    its place in every conversation that has the message, with the same ID, and the old one is purged. Titles and
    imported records that repeat the secret are redacted, too. It shows what will change, and asks; off a terminal it
    needs --yes. It cannot be undone. Attachments and saved working files are not changed. Importing the same history
    again does not bring the secret back.

    To avoid storing secrets, use 'clew append --redact' or the setting 'redact'.
    """
    from clew.store.scan import scan as scan_store

    if message is not None:
        if not dry_run and not yes and not can_ask():
            raise click.UsageError("a redaction cannot be undone; use --yes to confirm, or --dry-run to preview")
        ctx.exit(_apply(message, rules(also), form, dry_run=dry_run, yes=yes))
    with open_for_reading() as store, ProgressLine("scanning") as progress:
        found = scan_store(store, rules(also), progress=progress)
        if form == "text":
            out_lines(_lines(found, store))
        else:
            spots = [_json(spot) for spot in found.spots]
            if form == "json":
                out_json({"counts": found.counts, "found": spots, "read": found.read, "unreadable": found.unreadable})
            else:
                out_jsonl(spots)
    for damaged in found.unreadable:
        warn(f"{bold('clew:')} {plain(damaged)} cannot be read and was not scanned")
    ctx.exit(FAILED if found.spots else DAMAGED if found.unreadable else 0)


def _apply(typed: str, found_by: Rules, form: Form, *, dry_run: bool, yes: bool) -> int:
    """Removes secrets from one message, and prints what was done; returns the exit code."""
    from clew.store.redact_message import redact_message

    with open_existing() as store:
        node = find_message(store, typed)
        asks = not dry_run and not yes
        done = redact_message(store, node, found_by, dry_run=dry_run or asks)
        if asks and done.findings:
            for line in _change_lines(store, node.handle, done, "This removes"):
                warn(line)
            if not confirm("Remove? It cannot be undone."):
                return say("nothing was changed", "", FAILED)
            done = redact_message(store, node, found_by)
        if form != "text":
            out_value(_applied_json(done, dry_run), form)
        elif not done.findings:
            note(f"Nothing found in message {node.handle}. Nothing was changed.")
        else:
            out_lines(_change_lines(store, node.handle, done, "would remove" if dry_run else "removed"), paged=False)
            if done.receipt is not None and not dry_run:
                out_lines([dim(f"  receipt {done.receipt.id}")], paged=False)
            files = [path for paths in original_files(store, done.sessions).values() for path in paths]
            out_lines(original_lines([*dict.fromkeys(files)]), paged=False)
    failures = () if done.receipt is None else done.receipt.failures
    for failure in failures:
        say(f"{failure.session}: {failure.error}", "", FAILED)
    return PARTIAL if failures or (done.receipt is not None and done.receipt.pending) else 0


def _change_lines(store: Store, handle: str, done: RedactedMessage, verb: str) -> Iterator[str]:
    """What is removed, and the conversations that show the message."""
    what = ", ".join(f"{rule} {count:,}" for rule, count in _counts(done).items())
    yield f"{verb} {what} from message {handle}"
    if done.copies:
        yield f"  and {many(done.copies, 'time')} from titles, data and logs of its conversations"
    for id in done.sessions[:NAMED]:
        yield f"  in {describe_session(store, id)}"
    if len(done.sessions) > NAMED:
        yield f"  … and {many(len(done.sessions) - NAMED, 'more conversation')}"


def _applied_json(done: RedactedMessage, dry_run: bool) -> dict[str, Any]:
    receipt = None if done.receipt is None or dry_run else done.receipt.id
    return {
        "message": done.id, "counts": _counts(done), "sessions": done.sessions, "copies": done.copies,
        "receipt": receipt,
    }  # fmt: skip


def _counts(done: RedactedMessage) -> dict[str, int]:
    counts: dict[str, int] = {}
    for one in done.findings:
        counts[one.rule] = counts.get(one.rule, 0) + one.count
    return counts


def _lines(found: Scan, store: Store) -> Iterator[str]:
    wide = max(map(len, found.counts), default=0)
    for rule, count in found.counts.items():
        yield f"{style(pad(rule, wide), '1;33')}  {count:,}"
    for spot in found.spots:
        where = f"{spot.what} {spot.id}"
        if spot.what == "message":
            (handle,) = store.nodes.handles([spot.id])
            where = f"message {handle}"
        if spot.session is not None and spot.what != "session":
            where += f" in conversation {store.sessions.get(spot.session).handle}"
        rules = ", ".join(f"{rule} {count:,}" for rule, count in spot.counts.items())
        yield f"{plain(where)}  {rules}"
    if any(spot.what == "message" for spot in found.spots):
        yield dim("remove them from a message with: clew redact --apply MESSAGE")
    if any(spot.what == "state" for spot in found.spots):
        yield dim("a state cannot be redacted: prune the states, or purge the conversation")
    yield dim(f"scanned {list_counts(found.read) or 'an empty store'}")


def _json(spot: Spot) -> dict[str, Any]:
    return {
        "what": spot.what,
        "session": spot.session,
        "id": spot.id,
        "findings": [
            {"rule": one.rule, "block": one.block, "kind": one.kind, "count": one.count} for one in spot.findings
        ],
    }
