"""`clew quarantine ls | sweep | restore | purge`: isolates damaged messages."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

import clew
from clew.base.visible import many, plain
from clew.cli.commands.purge import remaining_lines
from clew.cli.exits import DAMAGED, FAILED, PARTIAL
from clew.cli.options import Group, dry_run_option, examples
from clew.cli.output.json import Form, iso, json_options, out_lines, out_value, out_values
from clew.cli.output.outcomes import Success, for_each, report_outcomes
from clew.cli.output.progress import ProgressLine
from clew.cli.output.text import dim, out, style, warn
from clew.cli.output.times import ago
from clew.cli.setup.open_store import open_existing, open_for_reading, store_option

if TYPE_CHECKING:
    from clew.engine.receipts import Receipt
    from clew.upkeep.quarantine import Quarantined, Swept


@click.group(cls=Group, epilog=examples("clew quarantine sweep --dry-run", "clew quarantine ls"))
@store_option
def quarantine() -> None:
    """Isolate damaged messages, keep their bytes, and restore or purge them later.

    A message in quarantine keeps its position in the conversation, but cannot be read.
    """


@quarantine.command(epilog=examples("clew quarantine ls", "clew quarantine ls --jsonl | jq -r .node"))
@json_options
@store_option
def ls(form: Form) -> None:
    """List messages in quarantine: handle, age, bytes kept, reason, conversation."""
    with open_for_reading() as store:
        found = store.quarantine.list()
        if form == "text":
            handles = store.nodes.handles(one.node for one in found)
            out_lines(_lines(found, handles))
    if form != "text":
        out_values(map(_json, found), form)
    elif not found:
        warn("The quarantine is empty.")


@quarantine.command(
    epilog=examples("clew quarantine sweep --dry-run", "clew quarantine sweep", "clew quarantine sweep --strict")
)
@click.option("--force", is_flag=True, help="Proceed even if more than 3 items, or more than 1 %, are damaged.")
@click.option("--strict", is_flag=True, help="Purge the damaged bytes instead of keeping them.")
@dry_run_option
@json_options
@store_option
@click.pass_context
def sweep(ctx: click.Context, force: bool, strict: bool, dry_run: bool, form: Form) -> None:
    """Move all damaged messages to quarantine, after reading the whole store.

    If many items are damaged, nothing is moved: find the cause first, then use --force. Damaged log entries,
    attachments and conversation data are listed but not moved. Exit code 8 if some damage remains, 7 if all of it does.
    """
    with open_existing() as store, ProgressLine("reading") as progress:
        swept = store.quarantine.sweep(force=force, strict=strict, dry_run=dry_run, progress=progress)
    if form == "text":
        _print_sweep(swept, dry_run)
    else:
        out_value(_sweep_json(swept), form)
    ctx.exit(0 if not swept.left else PARTIAL if swept.moved else DAMAGED)


@quarantine.command(epilog=examples("clew quarantine restore 7dq2xe"))
@click.argument("messages", nargs=-1, required=True, metavar="MESSAGE...")
@json_options
@store_option
@click.pass_context
def restore(ctx: click.Context, messages: tuple[str, ...], form: Form) -> None:
    """Restore each MESSAGE that is readable again. Exit code 8 if only some were restored.

    This works if the damage was outside the message and has been repaired.
    """
    with open_existing() as store:
        ctx.exit(report_outcomes(for_each(messages, lambda asked: _restore(store, asked)), form))


def _restore(store: clew.Store, asked: str) -> Success:
    node = store.quarantine.restore(asked)
    return Success(node.id, f"message {node.handle} restored", {"node": node.id})


@quarantine.command(epilog=examples("clew quarantine purge --dry-run --all", "clew quarantine purge 7dq2xe"))
@click.argument("messages", nargs=-1, metavar="MESSAGE...")
@click.option("--all", "everything", is_flag=True, help="Purge the whole quarantine.")
@dry_run_option
@json_options
@store_option
@click.pass_context
def purge(ctx: click.Context, messages: tuple[str, ...], everything: bool, dry_run: bool, form: Form) -> None:
    """Delete the kept bytes of each MESSAGE permanently, with all traces in the files.

    The message keeps its position in the conversation. Messages on hold are kept: exit code 8 if some are, 1 if all
    are.
    """
    if bool(messages) == everything:
        raise click.UsageError("name messages, or use --all")
    with open_existing() as store:
        receipt = store.quarantine.purge(None if everything else messages, everything=everything, dry_run=dry_run)
    for failure in receipt.failures:
        warn(f"clew: conversation {failure.session}: {plain(failure.error)}")
    if form == "text":
        gone = f"{many(receipt.messages, 'message')} ({many(receipt.bytes, 'byte')})"
        warn(f"{gone} {'would be purged' if dry_run else 'purged'}")
        if receipt.messages and not dry_run:
            out(receipt.id)
            for line in remaining_lines(receipt._replace(failures=())):
                warn(line)
    else:
        out_value(_receipt_json(receipt), form)
    ctx.exit(0 if not receipt.failures else PARTIAL if receipt.messages else FAILED)


def _lines(found: Iterable[Quarantined], handles: Iterable[str]) -> Iterator[str]:
    now = datetime.now(UTC)
    for one, handle in zip(found, handles, strict=True):
        kept = many(one.bytes, "byte") if one.kept else "purged"
        session = f"in conversation {one.session}" if one.session else "in no conversation"
        yield "  ".join([style(handle, "33"), dim(ago(one.at, now)), kept, plain(one.why), dim(session)])


def _print_sweep(swept: Swept, dry_run: bool) -> None:
    for node in swept.moved:
        out(node)
    for one in swept.left:
        warn(f"{style('damaged', '1;31', sys.stderr)}  {plain(one.where)}: {plain(one.why)}; not moved")
    count = len(swept.moved)
    ending = "would be moved to quarantine" if dry_run else "moved to quarantine"
    if count:
        warn(f"{many(count, 'message')} of {many(swept.bodies, 'item')} {ending}")
    else:
        warn(f"{many(swept.bodies, 'item')} read; no damaged messages")
    if swept.receipt is not None:
        gone = f"{many(swept.receipt.messages, 'message')} ({many(swept.receipt.bytes, 'byte')})"
        warn(f"{gone} purged; receipt {swept.receipt.id}")
        for failure in swept.receipt.failures:
            warn(f"clew: conversation {failure.session}: {plain(failure.error)}; bytes kept")


def _json(one: Quarantined) -> dict[str, Any]:
    return {**one._asdict(), "at": iso(one.at)}


def _sweep_json(swept: Swept) -> dict[str, Any]:
    return {
        "bodies": swept.bodies,
        "moved": list(swept.moved),
        "left": [one._asdict() for one in swept.left],
        "receipt": None if swept.receipt is None else _receipt_json(swept.receipt),
    }


def _receipt_json(receipt: Receipt) -> dict[str, Any]:
    return {
        "id": receipt.id,
        "reason": receipt.reason,
        "started_at": iso(receipt.started_at),
        "finished_at": None if receipt.finished_at is None else iso(receipt.finished_at),
        "messages": receipt.messages,
        "bytes": receipt.bytes,
        "failures": [one._asdict() for one in receipt.failures],
        "pending": list(receipt.pending),
    }
