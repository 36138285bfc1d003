"""`clew audit`: who did what, and when."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from clew.cli.forms import Form, iso, json_options, out_lines, out_values
from clew.cli.moments import local, since, until
from clew.cli.place import reading, store_option
from clew.cli.text import bold, dim, plain, warn

if TYPE_CHECKING:
    from clew.audit import Deed


@click.command(
    short_help="Show who did what, and when.",
    epilog="\b\nExamples:\n  clew audit\n  clew audit --kind purge --since 30d\n  clew audit --jsonl > audit.jsonl",
)
@click.option("--kind", metavar="WORD", help="Only this: purge, hold, release, sweep, rotate, …")
@click.option("--since", metavar="TIME", callback=since, help="From then on: 2026-01-31, or 2d for how long ago.")
@click.option("--until", metavar="TIME", callback=until, help="Up to then.")
@json_options
@store_option
def audit(kind: str | None, since: datetime | None, until: datetime | None, form: Form) -> None:
    """Shows who did what to the store and when, oldest first, without a word of what was said."""
    with reading() as store:
        deeds = store.audit.read(since=since, until=until, kind=kind)
        if form != "text":
            out_values(map(_json, deeds), form)
            return
        lines = [_line(deed) for deed in deeds]
        out_lines(lines)
        if not lines:
            warn("Nothing is noted.")


def _json(deed: Deed) -> dict[str, Any]:
    return {**deed._asdict(), "at": iso(deed.at)}


def _line(deed: Deed) -> str:
    who = plain(deed.actor) if deed.actor else "-"
    why = dim(f"  {deed.reason}") if deed.reason else ""
    return f"{dim(local(deed.at))}  {bold(deed.kind.ljust(9))}  {deed.subject}  {who}{why}"
