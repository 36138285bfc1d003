"""`clew gc`: object storage is left with what the store needs."""

from __future__ import annotations

from datetime import timedelta

import click

from clew.cli.forms import Form, json_options, out_value
from clew.cli.place import existing, store_option
from clew.cli.text import many, out


@click.command(
    short_help="Remove attachments from object storage that nothing needs.",
    epilog="\b\nExamples:\n  clew gc --dry-run\n  clew gc --days 30",
)
@click.option(
    "--days", type=click.IntRange(0), default=7, show_default=True,
    help="Leave alone what the store does not know if it is younger.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Say what would go, and change nothing.")
@json_options
@store_option
def gc(days: int, dry_run: bool, form: Form) -> None:
    """Removes objects of this store that nothing in it needs: what was deleted, what was begun and never finished, and
    what is left of a store that was lost or replaced by an older copy.

    Not for a copy that is used beside the original with the same bucket and prefix: what the original has put since
    would go. What is deleted goes by itself otherwise, with the next attachment or when a program closes the store.
    """
    with existing(tidy=not dry_run) as store:
        gone = store.blobs.sweep(older=timedelta(days=days), dry_run=dry_run)
    if form == "text":
        word = "would be removed" if dry_run else "removed"
        out(f"{many(gone.objects, 'object')} {word}, {many(gone.bytes, 'byte')}")
    else:
        out_value({**gone._asdict(), "dry_run": dry_run}, form)
