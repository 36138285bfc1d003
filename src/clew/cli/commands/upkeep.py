"""`clew verify | backup`: checks or copies the whole store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from clew.base.visible import plain
from clew.cli.exits import DAMAGED
from clew.cli.options import examples
from clew.cli.output.json import Form, json_options, out_lines, out_value
from clew.cli.output.progress import ProgressLine
from clew.cli.output.text import bold, dim, list_counts, many, out, out_json, out_jsonl, style, warn, wrap
from clew.cli.setup.open_store import open_existing, open_untouched, store_option

if TYPE_CHECKING:
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

    A head is a short text that identifies the current state, without content. Keep it where an attacker cannot change
    it: --since then detects if the store was replaced by an older copy. Exit code 7 on damage or rollback.
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
        warn(f"{made.size:,} bytes. Check the copy with: clew verify --db PATH")
    else:
        out_value({"path": str(made.path), "size": made.size}, form)
