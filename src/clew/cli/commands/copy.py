"""`clew copy`: copies a whole store to another file or server."""

from __future__ import annotations

import click

from clew.base.visible import plain
from clew.cli.options import examples
from clew.cli.output.json import Form, json_options, out_value
from clew.cli.output.progress import ProgressLine
from clew.cli.output.text import many, out, warn
from clew.cli.setup import settings


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
