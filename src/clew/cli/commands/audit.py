"""`clew audit`: shows the audit log."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from clew.base.visible import plain
from clew.cli.options import examples
from clew.cli.output.json import Form, iso, json_options, out_lines, out_values
from clew.cli.output.text import bold, dim, warn
from clew.cli.output.times import local, since_option, until_option
from clew.cli.setup.open_store import open_for_reading, store_option

if TYPE_CHECKING:
    from clew.engine.audit import AuditEvent


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
            out_values(map(_json, events), form)
            return
        lines = [_line(event) for event in events]
        out_lines(lines)
        if not lines:
            warn("The audit log is empty.")


def _json(event: AuditEvent) -> dict[str, Any]:
    return {**event._asdict(), "at": iso(event.at)}


def _line(event: AuditEvent) -> str:
    who = plain(event.actor) if event.actor else "-"
    why = dim(f"  {event.reason}") if event.reason else ""
    return f"{dim(local(event.at))}  {bold(event.kind.ljust(9))}  {event.subject}  {who}{why}"
