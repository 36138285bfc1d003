"""`clew sources`: the histories that clew can import, where it looks for them, and what was imported."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import click

import clew
from clew.base.visible import many, plain
from clew.cli.options import examples
from clew.cli.output.json import Form, home_short, iso, json_options, out_lines
from clew.cli.output.text import bold, dim, out_json, out_jsonl, pad
from clew.cli.output.times import local
from clew.cli.setup.open_store import open_for_reading, store_option

if TYPE_CHECKING:
    from clew.sources.contract import Source

SYSTEMS = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}


class _Imported(NamedTuple):
    files: int
    last: datetime


@click.command(epilog=examples("clew sources", "clew sources claude-code", "clew sources --json"))
@click.argument("name", required=False)
@json_options
@store_option
@click.pass_context
def sources(ctx: click.Context, name: str | None, form: Form) -> None:
    """List the formats that 'clew import' reads: where each is looked for, what is there, what was imported when.

    Formats of which clew found files come first. Exit code 8 if files or folders could not be read; they are listed on
    stderr.
    """
    from clew.cli.importing.found import tell_unreadable, this_home
    from clew.sources.contract import Home
    from clew.sources.registry import find, places, source_named
    from clew.sources.registry import sources as all_sources

    home, imported = this_home(), _imported()
    rows: list[dict[str, Any]] = []
    unreadable: dict[str, str] = {}
    found: list[str] = []
    missing: list[str] = []
    by_title = sorted(all_sources(), key=lambda source: source.title.casefold())
    for source in by_title if name is None else (source_named(name),):
        looked = {system: list(source.discover(Home(_HOMES[system], {}, system))) for system in SYSTEMS}
        there = list(find(places(source, home), only=source))
        unreadable |= {one.item.path: one.why for one in there if one.unreadable}
        files = [one.item for one in there if one.source is not None]
        done = imported.get(source.name)
        rows.append({
            "name": source.name, "title": source.title, "looked_for": looked,
            "here": list(source.discover(home)), "files": len(files), "bytes": sum(item.size for item in files),
            "deletes_after": source.deletes_after, "imported_files": 0 if done is None else done.files,
            "imported_at": None if done is None else iso(done.last),
        })  # fmt: skip
        (found if files else missing).extend(_lines(source, looked, files=len(files), done=done))
    if form == "text":
        out_lines([*found, *missing], paged=False)
    elif form == "json":
        out_json(rows)
    elif form == "jsonl":
        out_jsonl(rows)
    ctx.exit(tell_unreadable(unreadable))


_HOMES = {"linux": "~", "darwin": "~", "win32": "%USERPROFILE%"}


def _imported() -> dict[str, _Imported]:
    """The files that were imported from each source; none if there is no store yet."""
    from clew.sources.imported_files import ImportedFiles

    found: dict[str, _Imported] = {}
    try:
        store = open_for_reading()
    except clew.NotFound:
        return found
    with store:
        for file, last in ImportedFiles(store).files():
            before = found.get(file.source)
            found[file.source] = (
                _Imported(1, last) if before is None else _Imported(before.files + 1, max(last, before.last))
            )
    return found


def _lines(source: Source, looked: dict[str, list[str]], *, files: int, done: _Imported | None) -> list[str]:
    lines = [f"{bold(plain(source.name))}  {plain(source.title)}"]
    if not any(looked.values()):
        lines.append("  an export: name the file or the archive")
    for system, paths in looked.items():
        lines += [f"  {dim(pad(SYSTEMS[system], 7))}  {plain(home_short(path))}" for path in paths]
    if files:
        lines.append(f"  found: {many(files, 'file')}")
    if done is not None:
        lines.append(f"  imported: {many(done.files, 'file')}, last on {local(done.last)}")
    if source.deletes_after is not None:
        lines.append(f"  {plain(source.title)} deletes its conversations after {source.deletes_after} days")
    return lines
