"""`clew redact --scan`: finds stored secrets; shows where they are, never their values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from clew.base.visible import plain
from clew.cli.exits import DAMAGED, FAILED
from clew.cli.options import examples
from clew.cli.output.json import Form, json_options, out_lines
from clew.cli.output.progress import ProgressLine
from clew.cli.output.text import bold, dim, list_counts, out_json, out_jsonl, pad, style, warn
from clew.cli.setup.open_store import open_for_reading, store_option
from clew.cli.setup.redaction_rules import also_option, rules

if TYPE_CHECKING:
    from clew import Store
    from clew.store.scan import Scan, Spot


@click.command(
    epilog=examples(
        "clew redact",
        "clew redact --also email --json | jq .counts",
        "clew append --redact < messages.jsonl      # removes secrets before storing",
    ),
)
@click.option("--scan", is_flag=True, expose_value=False, help="Scan the store; change nothing. This is the default.")
@also_option
@json_options
@store_option
@click.pass_context
def redact(ctx: click.Context, also: tuple[str, ...], form: Form) -> None:
    """Scan the store for secrets, and list their number, kind and location. Never prints the values.

    Exit code 1 if secrets were found; 7 if none were found but something could not be read. To remove a secret, purge
    its conversation. To avoid storing secrets, use 'clew append --redact' or the setting 'redact'.
    """
    from clew.store.scan import scan as scan_store

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
