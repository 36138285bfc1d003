"""`clew verify | backup`: the store as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from clew.cli.exits import DAMAGED
from clew.cli.forms import Form, json_options, out_lines, out_value
from clew.cli.place import existing, looking, store_option
from clew.cli.progress import Progress
from clew.cli.text import bold, counted, dim, fitted, many, out, out_json, out_jsonl, plain, style, warn

if TYPE_CHECKING:
    from clew.verify import Damage, Report


@click.command(
    short_help="Read everything and name what is damaged.",
    epilog="\b\nExamples:\n  clew verify\n  clew verify --json | jq .damage\n"
    "  clew verify --print-head\n  clew verify --since clew-head-1.3gAQxAjm1l",
)
@click.option("--print-head", is_flag=True, help="Print a short text to keep elsewhere, for --since; check nothing.")
@click.option("--since", metavar="HEAD", help="Report also if the store is an earlier copy than the one HEAD is of.")
@json_options
@store_option
@click.pass_context
def verify(ctx: click.Context, form: Form, print_head: bool, since: str | None) -> None:
    """Reads everything in the store, checks it, and names what is damaged. Writes nothing.

    A head says how far the store has come, without content. Kept where nobody who can write the store can write, it
    shows later that the whole store was replaced by an earlier copy. Exit code 7 on damage, or on such a rollback.
    """
    if print_head:
        if since is not None:
            raise click.UsageError("--print-head and --since cannot be used together.")
        with looking() as store:
            head = store.head()
        if form == "text":
            out(head)
        else:
            out_value({"head": head}, form)
        return
    with looking() as store, Progress("verifying") as progress:
        report = store.verify(since=since, progress=progress)
        path = store.path
    if unread := report.counts.get("unread"):
        left = many(unread, "attachment")
        warn(f"without a look at {left} in object storage: --blobs or CLEW_BLOBS says where that is")
    if form == "text":
        out_lines(_lines(report))
        if not report.ok:
            warn(f"{bold('clew:')} {plain(path)} is damaged; what is not named above is sound")
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
            yield dim(f"         in session {plain(str(one.session))}{place}")
    yield style("ok", "1;32") if report.ok else style("not ok", "1;31")
    checked = counted({what: count for what, count in report.counts.items() if what not in ("damage", "unread")})
    yield from (dim(line) for line in fitted(f"checked {checked or 'an empty store'}"))


def _json(one: Damage) -> dict[str, Any]:
    return {"what": one.what, "where": one.where, "why": one.why, "session": one.session, "position": one.position}


@click.command(
    short_help="Copy the store to a file, safe while others write.",
    epilog="\b\nExamples:\n  clew backup ~/clew-backup.db\n  clew verify --db ~/clew-backup.db",
)
@click.argument("path", type=click.Path(dir_okay=False))
@json_options
@store_option
def backup(path: str, form: Form) -> None:
    """Copies the store as it is now to PATH, a new file, while others go on writing. Prints where it is."""
    with existing() as store, Progress("copying") as progress:
        made = store.backup(path, progress=progress)
    if form == "text":
        out(plain(str(made.path)))
        warn(f"{made.size:,} bytes; 'clew verify --db' checks them, and --db or CLEW_DB uses them")
    else:
        out_value({"path": str(made.path), "size": made.size}, form)
