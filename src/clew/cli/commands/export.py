"""`clew export`: writes conversations to files."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from datetime import datetime
from typing import Literal

import click

import clew
from clew.base.visible import many, paragraphs, plain
from clew.cli.exits import DAMAGED, PARTIAL
from clew.cli.options import examples
from clew.cli.output.json import Form as Output
from clew.cli.output.json import json_options, out_value
from clew.cli.output.progress import ProgressLine
from clew.cli.output.text import is_terminal, out, warn
from clew.cli.output.times import since_option
from clew.cli.setup.find import find_point
from clew.cli.setup.open_store import open_for_reading, store_option
from clew.cli.setup.settings import prices
from clew.exports.to_files import FORMS, Exported, Form, cpeconvo, exportable, parts, write
from clew.store.jsonl import jsonl, restore

Detail = Literal["prompts", "conversation", "full"]


@click.command(
    epilog=examples(
        "clew export -o chats.jsonl",
        "clew export k3m9qa --as markdown -o notes.md",
        "clew export --as html --since 30d -o pages/",
        "clew export k3m9qa --as native > session.jsonl",
        "clew export k3m9qa --as cpeconvo -o .cpeconvo",
        "clew import chats.jsonl   # reads a JSONL export back, ids included",
    ),
)
@click.argument("what", nargs=-1, metavar="[ID]...")
@click.option(
    "--as", "kind", type=click.Choice(list(FORMS)), default="jsonl", show_default=True,
    help="jsonl: everything, for clew. native: the files of the original tool, byte for byte."
    " cpeconvo: a new file for the agent CPE.",
)  # fmt: skip
@click.option("--output", "-o", metavar="PATH", help="The file, or a folder for several; default: standard output.")
@click.option(
    "--detail", type=click.Choice(["prompts", "conversation", "full"]), default="full", show_default=True,
    help="Markdown and HTML: prompts only, tool calls on one line, or everything.",
)  # fmt: skip
@click.option("--project", type=click.Path(), metavar="DIR", help="Only conversations of this directory.")
@since_option
@json_options
@store_option
@click.pass_context
def export(
    ctx: click.Context,
    what: tuple[str, ...],
    kind: Form,
    output: str | None,
    detail: Detail,
    project: str | None,
    since: datetime | None,
    form: Output,
) -> None:
    """Write the conversations with these IDs, or all of them, to a file or a folder.

    If ID is a message, write the messages up to it. A JSONL export has everything that belongs to the
    conversations: branches, attachments, logs and saved working files. An export is not encrypted, even if the
    store is. Only you can read the files that clew writes.
    """
    if what and (project is not None or since is not None):
        raise click.UsageError("--project and --since cannot be used with IDs")
    if output is None and form != "text":
        raise click.UsageError("--json and --jsonl describe the files that were written; use them with --output")
    with ExitStack() as stack:
        store = stack.enter_context(open_for_reading())
        points = [find_point(store, one) for one in dict.fromkeys(what)]
        chosen = [session for session, _ in points] if what else _choose(store, project, since)
        if any(until is not None for _, until in points):
            exportable(chosen)
            cut = stack.enter_context(clew.open(":memory:"))
            chosen, store = [_cut(store, cut, *point) for point in points], cut
        if output is None:
            ctx.exit(_print(store, chosen, kind, detail))
        with ProgressLine("exporting") as progress:
            done = write(store, output, chosen, form=kind, detail=detail, progress=progress, prices=prices())
    _report(done, form)
    ctx.exit(_warn(done.damaged, done.refused))


def _choose(store: clew.Store, project: str | None, since: datetime | None) -> list[clew.Session] | None:
    """The conversations to export; None for all of them."""
    if project is None and since is None:
        return None
    cwd = None if project is None else os.path.abspath(project)
    return [one for one in store.sessions.list(cwd=cwd).all() if since is None or one.updated_at >= since]


def _cut(store: clew.Store, into: clew.Store, session: clew.Session, until: str | None) -> clew.Session:
    """A copy of a conversation in another store, with the messages up to `until` or all of them."""
    restore(into, jsonl(store, [session]))
    copy = into.sessions.get(session.id)
    return copy if until is None else copy.fork(at=until)


def _print(store: clew.Store, chosen: list[clew.Session] | None, kind: Form, detail: Detail) -> int:
    """Writes one file to standard output; returns the exit code."""
    damaged: list[str] = []
    refused: list[str] = []
    chosen = exportable(chosen)
    pieces: Iterable[bytes]
    if kind == "jsonl":
        pieces = jsonl(store, chosen, damaged=damaged, refused=refused)
    elif kind == "cpeconvo":
        if is_terminal(sys.stdout):
            raise click.UsageError("a cpeconvo file is not text; name it with --output")
        pieces = cpeconvo(store, chosen, damaged=damaged)
    elif chosen is not None and len(chosen) == 1:
        pieces = parts(store, chosen[0], kind, detail, prices=prices())
    else:
        raise click.UsageError(f"several conversations as {kind} are several files; name a folder with --output")
    if is_terminal(sys.stdout):
        for piece in pieces:  # a terminal must not obey what a tool wrote
            out("\n".join(paragraphs(piece.decode(errors="replace").removesuffix("\n"))))
    else:
        sys.stdout.flush()
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
    return _warn(damaged, refused)


def _report(done: Exported, form: Output) -> None:
    if form != "text":
        out_value(done._asdict(), form)
        return
    for name in done.files[:10]:
        out(plain(name))
    if len(done.files) > 10:
        out(f"… and {many(len(done.files) - 10, 'more file')}")


def _warn(damaged: Iterable[str], refused: Iterable[str]) -> int:
    """Names what is missing or marked in the files; returns the exit code."""
    for one in refused:
        warn(f"not exported: {plain(one)}")
    for one in damaged:
        warn(f"clew: {plain(one)} is damaged")
    return DAMAGED if damaged else PARTIAL if refused else 0
