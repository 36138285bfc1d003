"""`clew redact`: finds stored secrets, shows where they are, never their values; and removes one from a message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from clew.base.visible import plain
from clew.cli.exits import DAMAGED, FAILED
from clew.cli.options import dry_run_option, examples
from clew.cli.output.json import Form, json_options, out_lines, out_value
from clew.cli.output.progress import ProgressLine
from clew.cli.output.text import bold, dim, list_counts, many, note, out, out_json, out_jsonl, pad, style, warn
from clew.cli.setup.open_store import open_existing, open_for_reading, store_option
from clew.cli.setup.redaction_rules import also_option, rules

if TYPE_CHECKING:
    from clew import Store
    from clew.redaction import Rules
    from clew.store.scan import Scan, Spot


@click.command(
    epilog=examples(
        "clew redact",
        "clew redact --apply 7dq2xe",
        "clew redact --also email --json | jq .counts",
        "clew append --redact < messages.jsonl      # removes secrets before storing",
    ),
)
@click.option("--scan", is_flag=True, expose_value=False, help="Scan the store; change nothing. This is the default.")
@click.option("--apply", "message", metavar="MESSAGE", help="Remove the secrets that are found in this message.")
@dry_run_option
@also_option
@json_options
@store_option
@click.pass_context
def redact(ctx: click.Context, message: str | None, dry_run: bool, also: tuple[str, ...], form: Form) -> None:
    """Scan the store for secrets, and list their number, kind and location. Never prints the values.

    Exit code 1 if secrets were found; 7 if none were found but something could not be read. To remove a secret, purge
    its conversation, or name the message with --apply: a version without the secret takes its place, the messages
    after it are stored again with new IDs, and the old ones are purged. Attachments, logs and saved files are not
    changed, and importing the same history again brings the old message back.

    To avoid storing secrets, use 'clew append --redact' or the setting 'redact'.
    """
    from clew.store.scan import scan as scan_store

    if message is not None:
        _apply(message, dry_run, rules(also), form)
        return
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
        warn(f"{bold('clew:')} {plain(damaged)} is damaged and was not scanned")
    ctx.exit(FAILED if found.spots else DAMAGED if found.unreadable else 0)


def _apply(typed: str, dry_run: bool, found_by: Rules, form: Form) -> None:
    """Removes secrets from one message, and prints what was done."""
    from clew.store.redact_message import redact_message

    with open_existing() as store:
        node = store.nodes.get(typed)[0]
        before = node.handle
        done = redact_message(store, node, found_by, dry_run=dry_run)
        handle = None if done.new is None else store.nodes.get(done.new)[0].handle
    counts = {one.rule: one.count for one in done.findings}
    receipt = None if done.receipt is None else done.receipt.id
    if form != "text":
        row = {"old": done.old, "new": done.new, "counts": counts, "sessions": done.sessions, "copied": done.copied}
        out_value({**row, "receipt": receipt}, form)
        return
    what = ", ".join(f"{rule} {count:,}" for rule, count in counts.items())
    if not counts:
        note(f"Nothing found in message {before}. Nothing was changed.")
    elif dry_run:
        out(f"would remove {what} from message {before}, and store {many(done.copied, 'later message')} again")
    else:
        later = f"; {many(done.copied, 'later message')} stored again" if done.copied else ""
        out(f"removed {what}; message {before} is now {handle}{later}")
        out(dim(f"  receipt {receipt}"))


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
