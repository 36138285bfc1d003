"""`clew redact --scan`: what should not have been stored, and where; never what it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from clew.cli.exits import DAMAGED, FAILED
from clew.cli.forms import Form, json_options, out_lines
from clew.cli.place import reading, store_option
from clew.cli.progress import Progress
from clew.cli.rules import also_option, rules
from clew.cli.text import bold, counted, dim, out_json, out_jsonl, pad, plain, style, warn

if TYPE_CHECKING:
    from clew import Store
    from clew.scan import Scan, Spot


@click.command(
    short_help="Find secrets that are stored.",
    epilog="\b\nExamples:\n"
    "  clew redact --scan\n"
    "  clew redact --scan --also email --json | jq .counts\n"
    "  clew append --redact < messages.jsonl      # so that they are not stored in the first place",
)
@click.option("--scan", is_flag=True, help="Look through the store, and change nothing.")
@also_option
@json_options
@store_option
@click.pass_context
def redact(ctx: click.Context, scan: bool, also: tuple[str, ...], form: Form) -> None:
    """Looks through everything stored for secrets, and says how many there are, of which kind and where.

    The values are never shown. Exit code 1 if something was found, 7 if nothing was but something could not be read.
    What is found can be purged with its session; 'clew append --redact' keeps it out from the beginning.
    """
    if not scan:
        raise click.UsageError("what is stored is never changed, only looked through: give --scan")
    from clew.scan import scan as look

    with reading() as store, Progress("scanning") as progress:
        found = look(store, rules(also), progress=progress)
        if form == "text":
            out_lines(_lines(found, store))
        else:
            spots = [_json(spot) for spot in found.spots]
            if form == "json":
                out_json({"counts": found.counts, "found": spots, "read": found.read, "unreadable": found.unreadable})
            else:
                out_jsonl(spots)
    for damaged in found.unreadable:
        warn(f"{bold('clew:')} {plain(damaged)} is damaged, and was not looked through")
    ctx.exit(FAILED if found.spots else DAMAGED if found.unreadable else 0)


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
            where += f" in session {store.sessions.get(spot.session).handle}"
        rules = ", ".join(f"{rule} {count:,}" for rule, count in spot.counts.items())
        yield f"{plain(where)}  {rules}"
    yield dim(f"looked through {counted(found.read) or 'an empty store'}")


def _json(spot: Spot) -> dict[str, Any]:
    return {
        "what": spot.what,
        "session": spot.session,
        "id": spot.id,
        "findings": [
            {"rule": one.rule, "block": one.block, "kind": one.kind, "count": one.count} for one in spot.findings
        ],
    }
