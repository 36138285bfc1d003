"""`clew quarantine ls | sweep | restore | purge`: damaged messages, out of the way and kept."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

import clew
from clew.cli.exits import DAMAGED, FAILED, PARTIAL, show_help
from clew.cli.forms import Form, iso, json_options, out_lines, out_value, out_values
from clew.cli.moments import ago
from clew.cli.outcomes import Done, each, told
from clew.cli.place import existing, reading, store_option
from clew.cli.progress import Progress
from clew.cli.purge import left
from clew.cli.text import dim, many, out, plain, style, warn

if TYPE_CHECKING:
    from clew.quarantine import Quarantined, Swept
    from clew.receipts import Receipt


@click.group(
    short_help="Deal with damaged messages.",
    invoke_without_command=True,
    epilog="\b\nExamples:\n  clew quarantine sweep --dry-run\n  clew quarantine ls",
)
@store_option
@click.pass_context
def quarantine(ctx: click.Context) -> None:
    """Takes damaged messages out of the way, keeps their bytes, and brings them back or purges them.

    A message in quarantine keeps its place in the talk; its words cannot be read.
    """
    if ctx.invoked_subcommand is None:
        show_help(ctx)


@quarantine.command(
    short_help="List what is in quarantine.",
    epilog="\b\nExamples:\n  clew quarantine ls\n  clew quarantine ls --jsonl | jq -r .node",
)
@json_options
@store_option
def ls(form: Form) -> None:
    """Lists the messages in quarantine: handle, since when, bytes kept, why, session."""
    with reading() as store:
        found = store.quarantine.list()
        if form == "text":
            handles = store.nodes.handles(one.node for one in found)
            out_lines(_lines(found, handles))
    if form != "text":
        out_values(map(_json, found), form)
    elif not found:
        warn("Nothing is in quarantine.")


@quarantine.command(
    short_help="Put every damaged message in quarantine.",
    epilog="\b\nExamples:\n"
    "  clew quarantine sweep --dry-run\n"
    "  clew quarantine sweep\n"
    "  clew quarantine sweep --strict",
)
@click.option("--force", is_flag=True, help="Also if more than 3 bodies, or one in a hundred, are damaged.")
@click.option("--strict", is_flag=True, help="Purge the damaged bytes at once; without it they are kept.")
@click.option("--dry-run", is_flag=True, help="Say what would be moved, and change nothing.")
@json_options
@store_option
@click.pass_context
def sweep(ctx: click.Context, force: bool, strict: bool, dry_run: bool, form: Form) -> None:
    """Reads everything that is stored, and puts each message whose bytes are damaged in quarantine.

    If more than a few are damaged nothing is moved: look for the cause first, then use --force. Damaged log entries,
    attachments and data of sessions are named, and stay. Exit code 8 if some of the damage stays, 7 if all of it does.
    """
    with existing() as store, Progress("reading") as progress:
        swept = store.quarantine.sweep(force=force, strict=strict, dry_run=dry_run, progress=progress)
    if form == "text":
        _tell_sweep(swept, dry_run)
    else:
        out_value(_sweep_json(swept), form)
    ctx.exit(0 if not swept.left else PARTIAL if swept.moved else DAMAGED)


@quarantine.command(
    short_help="Bring messages back that can be read again.",
    epilog="\b\nExample:\n  clew quarantine restore 7dq2xe",
)
@click.argument("messages", nargs=-1, required=True, metavar="MESSAGE...")
@json_options
@store_option
@click.pass_context
def restore(ctx: click.Context, messages: tuple[str, ...], form: Form) -> None:
    """Brings each MESSAGE back, if what was kept of it can be read now. Exit code 8 if only some came back.

    That is so when its place in the store was damaged, not its bytes, and has been repaired.
    """
    with existing() as store:
        ctx.exit(told(each(messages, lambda asked: _restored(store.quarantine.restore(asked))), form))


def _restored(node: clew.Node) -> Done:
    return Done(node.id, f"message {node.handle} is back", {"node": node.id})


@quarantine.command(
    short_help="Destroy what was kept, for good.",
    epilog="\b\nExamples:\n  clew quarantine purge --dry-run --all\n  clew quarantine purge 7dq2xe",
)
@click.argument("messages", nargs=-1, metavar="MESSAGE...")
@click.option("--all", "everything", is_flag=True, help="Of all that is in quarantine.")
@click.option("--dry-run", is_flag=True, help="Say what would go, and change nothing.")
@json_options
@store_option
@click.pass_context
def purge(ctx: click.Context, messages: tuple[str, ...], everything: bool, dry_run: bool, form: Form) -> None:
    """Destroys what was kept of each MESSAGE, and every trace of it in the files. The message keeps its place.

    What a hold covers stays: exit code 8 if some does, 1 if all does.
    """
    if bool(messages) == everything:
        raise click.UsageError("name messages, or give --all")
    with existing() as store:
        receipt = store.quarantine.purge(None if everything else messages, everything=everything, dry_run=dry_run)
    for failure in receipt.failures:
        warn(f"clew: session {failure.session}: {plain(failure.error)}")
    if form == "text":
        gone = f"{many(receipt.messages, 'message')}, {many(receipt.bytes, 'byte')}"
        warn(f"{gone}: {'would be purged' if dry_run else 'purged'}")
        if receipt.messages and not dry_run:
            out(receipt.id)
            for line in left(receipt._replace(failures=())):
                warn(line)
    else:
        out_value(_receipt_json(receipt), form)
    ctx.exit(0 if not receipt.failures else PARTIAL if receipt.messages else FAILED)


def _lines(found: Iterable[Quarantined], handles: Iterable[str]) -> Iterator[str]:
    now = datetime.now(UTC)
    for one, handle in zip(found, handles, strict=True):
        kept = many(one.bytes, "byte") if one.kept else "purged"
        session = f"in session {one.session}" if one.session else "in no session"
        yield "  ".join([style(handle, "33"), dim(ago(one.at, now)), kept, plain(one.why), dim(session)])


def _tell_sweep(swept: Swept, dry_run: bool) -> None:
    for node in swept.moved:
        out(node)
    for one in swept.left:
        warn(f"{style('damaged', '1;31', sys.stderr)}  {plain(one.where)}: {plain(one.why)}; it stays where it is")
    count = len(swept.moved)
    ending = "would go to quarantine" if dry_run else f"{'is' if count == 1 else 'are'} in quarantine"
    if count:
        warn(f"{many(count, 'message')} of {swept.bodies:,} stored things {ending}")
    else:
        warn(f"read {swept.bodies:,} stored things; no message is damaged")
    if swept.receipt is not None:
        gone = f"{many(swept.receipt.messages, 'message')}, {many(swept.receipt.bytes, 'byte')}"
        warn(f"purged at once: {gone}; receipt {swept.receipt.id}")
        for failure in swept.receipt.failures:
            warn(f"clew: session {failure.session}: {plain(failure.error)}; its bytes are kept")


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
