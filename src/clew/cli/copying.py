"""`clew copy`: the whole store to another place."""

from __future__ import annotations

import click

from clew.cli import settings
from clew.cli.forms import Form, json_options, out_value
from clew.cli.progress import Progress
from clew.cli.text import many, out, plain, warn


@click.command(
    short_help="Copy a whole store: a file to a server, or back.",
    epilog="\b\nExamples:\n  clew copy chats.db postgresql://app@db.example/app\n  clew copy old.db new.db",
)
@click.argument("source", metavar="SOURCE")
@click.argument("target", metavar="TARGET")
@click.option(
    "--blobs", metavar="URL", help="Where large attachments of SOURCE are.  [default: CLEW_BLOBS, or your settings]"
)
@click.option("--target-blobs", metavar="URL", help="Where those of TARGET go.  [default: into TARGET itself]")
@json_options
def copy(source: str, target: str, blobs: str | None, target_blobs: str | None, form: Form) -> None:
    """Copies the store SOURCE to TARGET, where none is yet, and compares both row by row.

    Ids stay, and a sealed store stays sealed: no key is needed. Others may go on using SOURCE; what they write
    meanwhile is not in the copy. If it is cut short, the same command goes on. Attachments in object storage are copied
    too, to another bucket or prefix, or into TARGET.
    """
    from clew.copying import copy as copied

    with Progress("copying") as progress:
        blobs = settings.current().value("blobs") if blobs is None else blobs
        made = copied(source, target, blobs=blobs, target_blobs=target_blobs, progress=progress)
    if form == "text":
        out(plain(made.target))
        warn(f"{many(made.rows, 'row')} copied and compared")
    else:
        out_value({"source": made.source, "target": made.target, "rows": made.rows}, form)
