"""`clew checkpoint ls | show | diff`: shows saved versions of working files."""

from __future__ import annotations

from typing import Any

import click

from clew.base import ids
from clew.base.visible import many, plain
from clew.checkpoints import Checkpoint, FileDiff
from clew.checkpoints.diff import LineCount, count
from clew.checkpoints.serial import display_path
from clew.cli.options import Group, examples
from clew.cli.output.json import Form, iso, json_options, out_lines, out_value, out_values
from clew.cli.output.text import dim, style, warn
from clew.cli.output.times import local
from clew.cli.output.working_files import checkpoints_of, diff_lines, line_of, pair, root_option, summary
from clew.cli.setup.find import find_session, message_id
from clew.cli.setup.open_store import open_existing, store_option
from clew.errors import ClewError


@click.group(cls=Group, epilog=examples("clew checkpoint ls", "clew checkpoint diff 7dq2xe"))
def checkpoint() -> None:
    """Inspect checkpoints: files as they were before an agent changed them for a message."""


@checkpoint.command("ls", epilog=examples("clew checkpoint ls k3m9qa"))
@click.argument("session", required=False, metavar="[CONVERSATION]")
@root_option
@json_options
@store_option
def ls(session: str | None, root: str | None, form: Form) -> None:
    """List checkpoints, oldest first.

    Without CONVERSATION, uses the latest conversation of this directory.
    """
    with open_existing() as store:
        found = checkpoints_of(find_session(store, session), root).list()
        if form == "text":
            out_lines(map(_line, found))
        else:
            out_values(map(_json, found), form)


@checkpoint.command("show", epilog=examples("clew checkpoint show 7dq2xe"))
@click.argument("names", nargs=-1, required=True, metavar="[CONVERSATION] MESSAGE")
@root_option
@json_options
@store_option
def show(names: tuple[str, ...], root: str | None, form: Form) -> None:
    """Show the files of the checkpoint for MESSAGE."""
    typed, message = pair(names)
    with open_existing() as store:
        found = checkpoints_of(find_session(store, typed), root).show(message_id(store, message))
        if form != "text":
            out_value(found.manifest(), form)
            return
        out_lines([_line(found), *(_file(one) for one in found.manifest()["files"])])


@checkpoint.command("diff", epilog=examples("clew checkpoint diff k3m9qa 7dq2xe"))
@click.argument("names", nargs=-1, required=True, metavar="[CONVERSATION] MESSAGE")
@click.option("--stat", is_flag=True, help="Print one line per file.")
@root_option
@json_options
@store_option
def diff(names: tuple[str, ...], stat: bool, root: str | None, form: Form) -> None:
    """Show how a rewind to MESSAGE would change the files."""
    typed, message = pair(names)
    with open_existing() as store:
        found = checkpoints_of(find_session(store, typed), root).diff(message_id(store, message))
        if form != "text":
            out_values(map(_diff_json, found), form)
            return
        out_lines(line for one in found for line in ([line_of(one)] if stat else diff_lines(one)))
        counts = [count(one.before or b"", one.after or b"") for one in found]
        warn(summary(len(found), LineCount(sum(one[0] for one in counts), sum(one[1] for one in counts))))


def _line(one: Checkpoint) -> str:
    files = sum(state.kind != "dir" for state in one.states.values())
    about = many(files, "file")
    if one.skipped:
        about += f", {len(one.skipped):,} skipped"
    before = "" if one.rewound_to is None else dim(f"  before a rewind to {_handle(one.rewound_to)}")
    return f"{style(_handle(one.message), '33')}  {local(one.created_at)}  {about}{before}"


def _file(wire: dict[str, Any]) -> str:
    if wire.get("type") == "unseen":
        return f"  {dim('unseen')}   {plain(wire['path'])}"
    if not wire["exists"]:
        return f"  {dim('missing')}  {plain(wire['path'])}"
    about = {"link": f" -> {plain(wire.get('target', ''))}", "skipped": dim(f"  {wire.get('skipped')}")}
    size = f"  {many(wire['size'], 'byte')}" if wire["type"] == "file" else ""
    return f"  {wire['type']:<7}  {plain(wire['path'])}{about.get(wire['type'], '')}{size}"


def _handle(message: str) -> str:
    try:
        return ids.handle(ids.parse(message))
    except ClewError:
        return plain(message)


def _json(one: Checkpoint) -> dict[str, Any]:
    return {**one.manifest(), "created_at": iso(one.created_at), "handle": _handle(one.message)}


def _diff_json(one: FileDiff) -> dict[str, Any]:
    added, removed = count(one.before or b"", one.after or b"")
    return {
        "path": display_path(one.path),
        "from": {"type": one.old.kind, "mode": f"{max(one.old.mode, 0):04o}", "hash": one.old.digest or None},
        "to": {"type": one.new.kind, "mode": f"{max(one.new.mode, 0):04o}", "hash": one.new.digest or None},
        "insertions": added,
        "deletions": removed,
    }
