"""`clew ls`: lists sessions, most recently active first; or those in the trash."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Any, NamedTuple

import click

import clew
from clew.base.visible import plain
from clew.cli.exits import DAMAGED
from clew.cli.options import examples
from clew.cli.output.json import Form, home_short, json_options, out_lines, session_json
from clew.cli.output.text import clip, colourful, columns, note, out_json, out_jsonl, pad, style, warn, width
from clew.cli.output.times import ago
from clew.cli.setup.open_store import open_for_reading, store_option
from clew.store.summaries import Brief, briefs


class Filter(NamedTuple):
    """Which sessions to list."""

    limit: int
    cursor: str | None
    cwd: str | None
    label: str | None
    title: str | None
    trash: bool


@click.command(
    epilog=examples(
        "clew ls --here", "clew ls --label work --limit 5", "clew ls --all --jsonl | jq -r .id", "clew ls --trash"
    ),
)
@click.option(
    "-n", "--limit", type=click.IntRange(1, 10_000), default=20, help="List at most this many.  [default: 20]"
)
@click.option("--all", "everything", is_flag=True, help="List all, without a limit.")
@click.option("--here", is_flag=True, help="Only those of the current directory.")
@click.option("--cwd", metavar="DIR", help="Only those of exactly this directory.")
@click.option("--label", metavar="LABEL", help="Only those with this label.")
@click.option("--title", metavar="TEXT", help="Only those with this text in the title.")
@click.option("--trash", is_flag=True, help="List the trash, most recently deleted first.")
@click.option("--cursor", metavar="CURSOR", help="Continue after a page: its next_cursor.")
@json_options
@store_option
@click.pass_context
def ls(
    ctx: click.Context,
    limit: int,
    everything: bool,
    here: bool,
    cwd: str | None,
    label: str | None,
    title: str | None,
    trash: bool,
    cursor: str | None,
    form: Form,
) -> None:
    """List conversations, most recently active first: handle, time, number of messages, title, directory."""
    if here and cwd is not None:
        raise click.UsageError("--here and --cwd cannot be used together")
    if trash and (here or (cwd, label, title) != (None, None, None)):
        raise click.UsageError("--trash cannot be used with --here, --cwd, --label or --title")
    place = os.path.abspath(cwd or ".") if here or cwd is not None else None
    wanted = Filter(1000 if everything else limit, cursor, place, label, title, trash)
    damaged: list[str] = []
    with open_for_reading() as store:
        rest: list[str | None] = [None]
        found = _pages(store, wanted, rest, everything=everything)
        if form == "json":
            sessions = [_json(session, damaged) for session in found]
            out_json({"sessions": sessions, "next_cursor": rest[0]})
        elif form == "jsonl":
            out_jsonl(_json(session, damaged) for session in found)
        else:
            rows = list(_rows(found, damaged))
            out_lines(_table(rows))
            if not rows:
                warn(_empty_notice(wanted))
        if form != "json" and rest[0] is not None:
            if form == "text":
                note("There are more. Use --all or a larger --limit.")
            else:
                warn(f"next_cursor {rest[0]}")
    for id in damaged:
        warn(f"clew: conversation {id} is damaged")
    ctx.exit(DAMAGED if damaged else 0)


def _empty_notice(wanted: Filter) -> str:
    if wanted.trash:
        return "The trash is empty."
    return "No conversations found." if any(wanted[1:]) else "No conversations yet. Start one with: clew chat"


def _pages(store: clew.Store, wanted: Filter, rest: list[str | None], *, everything: bool) -> Iterator[clew.Session]:
    """The sessions; sets `rest` to the cursor of the next page."""
    cursor = wanted.cursor
    while True:
        if wanted.trash:
            page = store.sessions.trashed(limit=wanted.limit, cursor=cursor)
        else:
            page = store.sessions.list(
                limit=wanted.limit, cursor=cursor, cwd=wanted.cwd, label=wanted.label, title=wanted.title
            )
        yield from page.items
        cursor = page.next_cursor
        if cursor is None or not everything:
            rest[0] = cursor
            return


def _json(session: clew.Session, damaged: list[str]) -> dict[str, Any]:
    try:
        return session_json(session)
    except clew.Corrupted as error:
        damaged.append(session.id)
        return {"id": session.id, "handle": session.handle, "damaged": error.why}


class Row(NamedTuple):
    """A session as a line of the table."""

    handle: str
    when: str
    messages: str
    title: str
    cwd: str
    titled: bool


def _rows(sessions: Iterator[clew.Session], damaged: list[str]) -> Iterator[Row]:
    """The sessions as rows, read in batches."""
    now, home = datetime.now(UTC), os.path.expanduser("~")
    while some := list(islice(sessions, 500)):
        for session, brief in zip(some, briefs(some), strict=True):
            yield _row(session, brief or session, damaged, now, home)


def _row(session: clew.Session, brief: clew.Session | Brief, damaged: list[str], now: datetime, home: str) -> Row:
    try:
        when = ago(session.trashed_at or session.updated_at, now)
        first = session.title or next((node.text[:200] for node in session.iter()), "")
        messages, cwd = str(brief.counters.messages), home_short(session.cwd or "", home)
    except clew.Corrupted:
        damaged.append(session.id)
        return Row(session.handle, "?", "?", "damaged", "", False)
    return Row(brief.handle, when, messages, plain(first), plain(cwd), bool(session.title))


def _table(rows: list[Row]) -> Iterator[str]:
    """The rows as a table, clipped to the width of the terminal; the title gets most of the space."""
    if not rows:
        return
    handles, whens, counts = (max(map(len, column)) for column in zip(*(row[:3] for row in rows), strict=True))
    titles, room = max(width(row.title) for row in rows), columns()
    cwds = max(width(row.cwd) for row in rows)
    if room is not None:
        room = max(8, room - handles - whens - counts - 6)
        spare = room - 2 - min(cwds, max(room // 3, room - 2 - titles))
        titles = min(titles, spare) if cwds else min(titles, room)
        cwds = max(0, room - 2 - titles)
    titles = min(titles, 72)
    coloured = colourful(sys.stdout)
    for row in rows:
        title, cwd = pad(clip(row.title, titles), titles), _tail(row.cwd, cwds)
        parts = [row.handle.ljust(handles), row.when.rjust(whens), row.messages.rjust(counts), title, cwd]
        if coloured:
            looks = ("33", "2", "", "1" if row.titled else "2", "2")
            parts = [style(part, look) if look else part for part, look in zip(parts, looks, strict=True)]
        yield "  ".join(parts).rstrip()


def _tail(path: str, limit: int) -> str:
    """A path clipped at its start."""
    return clip(path[::-1], limit)[::-1]
