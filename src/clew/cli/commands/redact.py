"""`clew redact`: finds stored secrets, shows where they are, never their values; and removes one from a message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

import clew
from clew.base.visible import many, plain
from clew.cli.commands.purge import original_files, original_lines
from clew.cli.exits import DAMAGED, FAILED, PARTIAL, say
from clew.cli.options import dry_run_option, examples, yes_option
from clew.cli.output.json import Form, json_options, out_lines, out_value, out_values
from clew.cli.output.progress import ProgressLine
from clew.cli.output.text import bold, dim, list_counts, note, out_json, out_jsonl, pad, style, warn
from clew.cli.setup.ask import can_ask, confirm
from clew.cli.setup.find import describe_session, find
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
        "clew redact k3m9qa",
        "clew redact --apply 7dq2xe --dry-run",
        "clew redact --apply --all",
        "clew redact --also email --json | jq .counts",
        "clew append --redact < messages.jsonl      # removes secrets before storing",
    ),
)
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--scan", is_flag=True, expose_value=False, help="Scan the store; change nothing. This is the default.")
@click.option("--apply", "removes", is_flag=True, help="Remove the secrets that are found in the messages.")
@click.option("--all", "everything", is_flag=True, help="With --apply: in all messages of the store.")
@dry_run_option
@yes_option
@also_option
@json_options
@store_option
@click.pass_context
def redact(
    ctx: click.Context,
    ids: tuple[str, ...],
    removes: bool,
    everything: bool,
    dry_run: bool,
    yes: bool,
    also: tuple[str, ...],
    form: Form,
) -> None:
    """Find secrets in the store, and list their number, kind and location. Never prints the values.

    With ID, only these conversations and messages. Exit code 1 if it found secrets; 7 if it found none, but could
    not read everything.

    --apply removes secrets from the messages or conversations named, or from all with --all. It replaces each
    secret with ***; the message keeps its ID, and its old text is purged. Titles and imported records that repeat the
    secret are changed, too; attachments and saved working files are not. It shows what will change, and asks;
    without a terminal, it needs --yes. This cannot be undone. Importing the same history again does not bring the
    secret back.

    To keep secrets from being stored, use 'clew append --redact' or the setting 'redact'.
    """
    if everything and (ids or not removes):
        raise click.UsageError("--all is for --apply, without ID")
    if removes:
        if not ids and not everything:
            raise click.UsageError("name the messages or conversations to redact, or use --all")
        if not dry_run and not yes and not can_ask():
            raise click.UsageError("a redaction cannot be undone; use --yes to confirm, or --dry-run to preview")
        ctx.exit(_apply(ids, rules(also), form, dry_run=dry_run, yes=yes))
    with open_for_reading() as store:
        found = _scan(store, ids, rules(also))
        if form == "text":
            out_lines(_lines(found, store))
        else:
            spots = [_json(spot) for spot in found.spots]
            if form == "json":
                out_json({"counts": found.counts, "found": spots, "read": found.read, "unreadable": found.unreadable})
            else:
                out_jsonl(spots)
    _tell_unreadable(found)
    ctx.exit(FAILED if found.spots else DAMAGED if found.unreadable else 0)


def _scan(store: Store, ids: tuple[str, ...], found_by: Rules) -> Scan:
    from clew.store.scan import scan

    with ProgressLine("scanning") as progress:
        return scan(store, found_by, only=[find(store, id) for id in ids] if ids else None, progress=progress)


def _tell_unreadable(found: Scan) -> None:
    for damaged in found.unreadable:
        warn(f"{bold('clew:')} {plain(damaged)} cannot be read and was not scanned")


def _apply(ids: tuple[str, ...], found_by: Rules, form: Form, *, dry_run: bool, yes: bool) -> int:
    """Removes secrets from messages, and prints what was done; returns the exit code."""
    from clew.store.redact_message import redact_message

    refused = False
    with open_existing() as store:
        found = _scan(store, ids, found_by)
        _tell_unreadable(found)
        nodes = store.nodes.get(spot.id for spot in found.spots if spot.what == "message")
        asks = not dry_run and not yes
        done: list[RedactedMessage] = []
        for preview in (True, False) if asks else (dry_run,):
            done = []
            for node in nodes:
                try:
                    done.append(redact_message(store, node, found_by, dry_run=preview))
                except clew.ClewError as error:
                    if len(nodes) == 1:
                        raise
                    refused = True
                    say(f"message {node.handle}: {error.message}", "", FAILED)
            if asks and preview:
                for line in _change_lines(store, done, "This removes") if done else ():
                    warn(line)
                if done and not confirm("Remove? It cannot be undone."):
                    return say("nothing was changed", "", FAILED)
        if form != "text":
            rows = [_applied_json(one, dry_run) for one in done]
            if len(ids) == len(rows) == 1:
                out_value(rows[0], form)
            else:
                out_values(rows, form)
        elif not done:
            note("Nothing found. Nothing was changed.")
        else:
            _print_done(store, done, dry_run=dry_run)
    failures = [failure for one in done if one.receipt is not None for failure in one.receipt.failures]
    for failure in failures:
        say(f"{failure.session}: {failure.error}", "", FAILED)
    pending = any(one.receipt is not None and one.receipt.pending for one in done)
    return PARTIAL if failures or pending or refused or found.unreadable else 0


def _print_done(store: Store, done: list[RedactedMessage], *, dry_run: bool) -> None:
    out_lines(_change_lines(store, done, "would remove" if dry_run else "removed"), paged=False)
    if not dry_run:
        receipts = [one.receipt.id for one in done if one.receipt is not None]
        out_lines([dim(f"  receipt {id}") for id in receipts[:NAMED]], paged=False)
    sessions = dict.fromkeys(id for one in done for id in one.sessions)
    files = [path for paths in original_files(store, sessions).values() for path in paths]
    out_lines(original_lines([*dict.fromkeys(files)]), paged=False)


def _change_lines(store: Store, done: Sequence[RedactedMessage], verb: str) -> Iterator[str]:
    """What is removed, and the conversations that show the messages."""
    counts = Counter[str]()
    for one in done:
        counts.update(_counts(one))
    what = ", ".join(f"{rule} {count:,}" for rule, count in counts.items())
    (handle,) = store.nodes.handles([done[0].id])
    yield f"{verb} {what} from {f'message {handle}' if len(done) == 1 else many(len(done), 'message')}"
    if copies := sum(one.copies for one in done):
        whose = "its" if len(done) == 1 else "their"
        yield f"  and {many(copies, 'time')} from titles, data and logs of {whose} conversations"
    sessions = [*dict.fromkeys(id for one in done for id in one.sessions)]
    for id in sessions[:NAMED]:
        yield f"  in {describe_session(store, id)}"
    if len(sessions) > NAMED:
        yield f"  … and {many(len(sessions) - NAMED, 'more conversation')}"


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
        yield dim("remove them from messages with: clew redact --apply ID, or --apply --all")
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
