"""`clew verify | backup | copy | gc | audit`: checks, copies and tidies a whole store, and shows its audit log."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from clew.base.visible import many, plain
from clew.cli.exits import DAMAGED
from clew.cli.options import dry_run_option, examples
from clew.cli.output.json import Form, iso, json_options, out_lines, out_value, out_values
from clew.cli.output.progress import ProgressLine, size
from clew.cli.output.text import bold, dim, list_counts, out, out_json, out_jsonl, style, warn, wrap
from clew.cli.output.times import local, since_option, until_option
from clew.cli.setup import settings
from clew.cli.setup.open_store import open_existing, open_for_reading, open_untouched, store_option

if TYPE_CHECKING:
    from clew.engine.audit import AuditEvent
    from clew.upkeep.verify import Damage, Report


@click.command(
    epilog=examples(
        "clew verify",
        "clew verify --json | jq .damage",
        "clew verify --print-head",
        "clew verify --since clew-head-1.3gAQxAjm1l",
    ),
)
@click.option("--print-head", is_flag=True, help="Print the current head for a later --since; check nothing.")
@click.option("--since", metavar="HEAD", help="Also report if the store is older than HEAD (a rollback).")
@json_options
@store_option
@click.pass_context
def verify(ctx: click.Context, form: Form, print_head: bool, since: str | None) -> None:
    """Check everything in the store, and list what is damaged. Writes nothing.

    To detect that the store was replaced by an older copy, print its head (a line of text without content) with
    --print-head, keep it in another place, and pass it to --since later. Exit code 7 if the store is damaged or
    older.
    """
    if print_head:
        if since is not None:
            raise click.UsageError("--print-head and --since cannot be used together")
        with open_untouched() as store:
            head = store.head()
        if form == "text":
            out(head)
        else:
            out_value({"head": head}, form)
        return
    with open_untouched() as store, ProgressLine("verifying") as progress:
        report = store.verify(since=since, progress=progress)
        path = store.path
    if unread := report.counts.get("unread"):
        left = many(unread, "attachment")
        warn(f"{left} in object storage not checked; set its location with --blobs or CLEW_BLOBS")
    if form == "text":
        out_lines(_lines(report))
        if not report.ok:
            warn(f"{bold('clew:')} {plain(path)} is damaged; everything not listed above is intact")
    else:
        damage = [_json(one) for one in report.damage]
        if form == "json":
            out_json({"ok": report.ok, "counts": report.counts, "damage": damage})
        else:
            out_jsonl(damage)
    ctx.exit(0 if report.ok else DAMAGED)


def _lines(report: Report) -> Iterator[str]:
    for one in report.damage:
        where = one.where if one.where.startswith(one.what) else f"{one.what} {one.where}"
        yield f"{style('damaged', '1;31')}  {plain(where)}: {plain(one.why)}"
        if one.session is not None:
            place = "" if one.position is None else f", message {one.position + 1}"
            yield dim(f"         in conversation {plain(str(one.session))}{place}")
    yield style("ok", "1;32") if report.ok else style("not ok", "1;31")
    checked = list_counts({what: count for what, count in report.counts.items() if what not in ("damage", "unread")})
    yield from (dim(line) for line in wrap(f"checked {checked or 'an empty store'}"))


def _json(one: Damage) -> dict[str, Any]:
    return {"what": one.what, "where": one.where, "why": one.why, "session": one.session, "position": one.position}


@click.command(epilog=examples("clew backup ~/clew-backup.db", "clew verify --db ~/clew-backup.db"))
@click.argument("path", type=click.Path(dir_okay=False))
@json_options
@store_option
def backup(path: str, form: Form) -> None:
    """Copy the store to the new file PATH, and print the path. Other programs can write meanwhile."""
    with open_existing() as store, ProgressLine("copying") as progress:
        made = store.backup(path, progress=progress)
    if form == "text":
        out(plain(str(made.path)))
        warn(f"{size(made.size)}. Check the copy with: clew verify --db PATH")
    else:
        out_value({"path": str(made.path), "size": made.size}, form)


@click.command(epilog=examples("clew copy chats.db postgresql://app@db.example/app", "clew copy old.db new.db"))
@click.argument("source", metavar="SOURCE")
@click.argument("target", metavar="TARGET")
@click.option("--blobs", metavar="URL", help="Object storage of SOURCE.  [default: CLEW_BLOBS, or your settings]")
@click.option("--target-blobs", metavar="URL", help="Object storage of TARGET.  [default: inside TARGET]")
@json_options
def copy(source: str, target: str, blobs: str | None, target_blobs: str | None, form: Form) -> None:
    """Copy the store SOURCE to the new store TARGET, and compare both row by row.

    IDs do not change. A sealed store stays sealed; no key is needed. SOURCE can be used during the copy, but messages
    written meanwhile are not copied. If interrupted, run the same command again to continue. Attachments in object
    storage are copied to another bucket or prefix, or into TARGET.
    """
    from clew.upkeep.copy_store import copy as copy_store

    with ProgressLine("copying") as progress:
        blobs = settings.current().value("blobs") if blobs is None else blobs
        made = copy_store(source, target, blobs=blobs, target_blobs=target_blobs, progress=progress)
    if form == "text":
        out(plain(made.target))
        warn(f"{many(made.rows, 'row')} copied and compared")
    else:
        out_value({"source": made.source, "target": made.target, "rows": made.rows}, form)


@click.command(epilog=examples("clew gc --dry-run", "clew gc --days 30"))
@click.option(
    "--days", type=click.IntRange(0), default=7, show_default=True,
    help="Keep unknown objects that are younger than this.",
)  # fmt: skip
@dry_run_option
@json_options
@store_option
def gc(days: int, dry_run: bool, form: Form) -> None:
    """Remove unused objects of this store from object storage.

    Unused objects are deleted attachments, unfinished uploads, and objects of a store that was lost or replaced by an
    older copy. Deleted attachments are normally removed with the next upload, or when a program closes the store.

    Do not run this on a copy that shares bucket and prefix with the original: it would remove newer attachments of the
    original.
    """
    with open_existing(tidy=not dry_run) as store:
        gone = store.blobs.sweep(older=timedelta(days=days), dry_run=dry_run)
    if form == "text":
        word = "would be removed" if dry_run else "removed"
        out(f"{many(gone.objects, 'object')} ({size(gone.bytes)}) {word}")
    else:
        out_value({**gone._asdict(), "dry_run": dry_run}, form)


@click.command(epilog=examples("clew audit", "clew audit --kind purge --since 30d", "clew audit --jsonl > audit.jsonl"))
@click.option("--kind", metavar="KIND", help="Show only this kind: purge, hold, release, sweep, rotate, …")
@since_option
@until_option
@json_options
@store_option
def audit(kind: str | None, since: datetime | None, until: datetime | None, form: Form) -> None:
    """Show the audit log, oldest first: who did what to the store, and when. It contains no messages."""
    with open_for_reading() as store:
        events = store.audit.read(since=since, until=until, kind=kind)
        if form != "text":
            out_values(map(_event_json, events), form)
            return
        lines = [_event_line(event) for event in events]
        out_lines(lines)
        if not lines:
            warn("The audit log is empty.")


def _event_json(event: AuditEvent) -> dict[str, Any]:
    return {**event._asdict(), "at": iso(event.at)}


def _event_line(event: AuditEvent) -> str:
    who = plain(event.actor) if event.actor else "-"
    why = dim(f"  {event.reason}") if event.reason else ""
    return f"{dim(local(event.at))}  {bold(event.kind.ljust(9))}  {event.subject}  {who}{why}"
