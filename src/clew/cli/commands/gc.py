"""`clew gc`: removes unused objects from object storage."""

from __future__ import annotations

from datetime import timedelta

import click

from clew.cli.options import dry_run_option, examples
from clew.cli.output.json import Form, json_options, out_value
from clew.cli.output.text import many, out
from clew.cli.setup.open_store import open_existing, store_option


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
        out(f"{many(gone.objects, 'object')} ({many(gone.bytes, 'byte')}) {word}")
    else:
        out_value({**gone._asdict(), "dry_run": dry_run}, form)
