"""`clew ls`: lists sessions, most recently active first. `clew trash ls` lists with it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

import click

import clew
from clew.base.visible import plain
from clew.cli.exits import DAMAGED
from clew.cli.options import examples
from clew.cli.output.json import Form, home_short, json_options, out_lines, session_json
from clew.cli.output.text import clip, colourful, columns, note, out_json, out_jsonl, pad, style, warn, width
from clew.cli.output.times import ago, since_option, until_option
from clew.cli.setup.find import CPE_FILE
from clew.cli.setup.open_store import open_for_reading, store_option
from clew.cli.setup.scope import Scope, scope_options
from clew.engine.titles import prompt_title, title_line
from clew.sources.registry import rules_for
from clew.store.origin import CPE_NOTE, origin_of
from clew.store.summaries import Brief, Handles, all_handles, briefs
from clew.turns.derive import is_prompt, split_prompt
from clew.turns.model import entry

FIRST = 10
"""Messages that are read to name a conversation without a title."""
SCAN = 200
"""Sessions read at once if some of them are left out."""
BATCH = 500
"""Sessions whose handles and counters are read at once."""


class Filter(NamedTuple):
    """Which sessions to list."""

    limit: int
    cursor: str | None
    scope: Scope = Scope()
    title: str | None = None
    trash: bool = False
    subagents: bool = False
    since: datetime | None = None
    until: datetime | None = None
    empty: bool = False
    """Also conversations without messages."""

    def holds(self, session: clew.Session) -> bool:
        """True if a conversation matches. Corrupted if its data is damaged."""
        at = session.updated_at
        return (
            (self.empty or session.head_id is not None)
            and (self.since is None or at >= self.since)
            and (self.until is None or at < self.until)
            and (self.scope.indexed or self.scope.holds(session))
        )

    @property
    def is_sparse(self) -> bool:
        """True if many conversations that are read may not match."""
        return not self.scope.indexed or self.since is not None or self.until is not None

    @property
    def flags(self) -> list[str]:
        """The options that narrow the list, besides those of the scope."""
        named = {"--title": self.title, "--since": self.since, "--until": self.until}
        return [flag for flag, value in named.items() if value is not None]


limit_option = click.option(
    "-n", "--limit", type=click.IntRange(1, 10_000), default=20, help="List at most this many.  [default: 20]"
)
everything_option = click.option("--all", "everything", is_flag=True, help="List all, without a limit.")
cursor_option = click.option("--cursor", metavar="CURSOR", help="List the next page: the next_cursor of this one.")


@click.command(
    epilog=examples(
        "clew ls --here",
        "clew ls --tool claude-code --project ~/src/app",
        "clew ls --label work --since 2d --limit 5",
        "clew ls --all --jsonl | jq -r .id",
        "clew ls --subagents",
    ),
)
@limit_option
@everything_option
@scope_options
@click.option("--title", metavar="TEXT", help="Only those with this text in the title.")
@since_option
@until_option
@click.option("--empty", is_flag=True, help="Also list conversations without messages.")
@click.option("--subagents", is_flag=True, help="List the conversations of subagents: name, run and caller.")
@cursor_option
@json_options
@store_option
@click.pass_context
def ls(
    ctx: click.Context,
    limit: int,
    everything: bool,
    scope: Scope,
    title: str | None,
    since: datetime | None,
    until: datetime | None,
    empty: bool,
    subagents: bool,
    cursor: str | None,
    form: Form,
) -> None:
    """List conversations, most recently active first: handle, time, number of messages, title, tool, directory.

    The tool is the one a conversation was imported from; ⑂ marks forks.
    """
    most = 1000 if everything else limit
    wanted = Filter(most, cursor, scope, title, False, subagents, since, until, empty)
    ctx.exit(list_sessions(wanted, form, everything=everything))


def list_sessions(wanted: Filter, form: Form, *, everything: bool) -> int:
    """Prints the sessions that a filter selects. Returns the exit code."""
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
            kind = None if wanted.trash else "subagent" if wanted.subagents else "session"
            rows = list(_rows(store, found, damaged, kind))
            out_lines(_table(rows))
            if not rows:
                warn(_empty_notice(wanted))
            mention_cpe(store)
        if form != "json" and rest[0] is not None:
            if form == "text":
                note("There are more. Use --all or a larger --limit.")
            else:
                warn(f"next_cursor {rest[0]}")
    for id in damaged:
        warn(f"clew: conversation {id} is damaged")
    return DAMAGED if damaged else 0


def mention_cpe(store: clew.Store) -> None:
    """Says that there is a file of CPE in this directory, unless it is the store, or all of it is imported."""
    if not os.path.isfile(CPE_FILE):
        return
    from clew.agents.cpe.reader import roots

    found = roots(CPE_FILE)
    here = os.getcwd()
    for subagents in (False, True):
        for session in store.sessions.list(cwd=here, limit=500, subagents=subagents).all():
            found.discard(str(session.extra.get(CPE_NOTE)))
    if found:
        count = f"{len(found):,} conversation{'' if len(found) == 1 else 's'}"
        note(f"{CPE_FILE} here has {count} of CPE that {'is' if len(found) == 1 else 'are'} not in clew.")
        note(f"Import: clew import {CPE_FILE}   Read: clew --db {CPE_FILE} ls")


def _empty_notice(wanted: Filter) -> str:
    if wanted.trash:
        return "The trash is empty."
    what = "conversations of subagents" if wanted.subagents else "conversations"
    advice = wanted.scope.advice(*wanted.flags)
    if advice or wanted.cursor is not None:
        return f"No {what} found.{advice}"
    return f"No {what} yet.{'' if wanted.subagents else ' Import some with: clew import   Start one with: clew chat'}"


def _pages(store: clew.Store, wanted: Filter, rest: list[str | None], *, everything: bool) -> Iterator[clew.Session]:
    """The sessions; sets `rest` to the cursor of the next page."""
    cursor, left = wanted.cursor, wanted.limit
    while True:
        if wanted.trash:
            page = store.sessions.trashed(limit=wanted.limit, cursor=cursor)
            yield from page.items
        else:
            page = _page(store, wanted, cursor, SCAN if wanted.is_sparse else wanted.limit)
            for at, session in enumerate(page.items, 1):
                if not _keep(wanted, session):
                    continue
                yield session
                left -= 1
                if not left and not everything and at < len(page.items):
                    page = _page(store, wanted, cursor, at)  # for the cursor after this session
                    break
        cursor = page.next_cursor
        if cursor is None or (not everything and (wanted.trash or left <= 0)):
            rest[0] = cursor
            return


def _page(store: clew.Store, wanted: Filter, cursor: str | None, limit: int) -> clew.Page[clew.Session]:
    scope = wanted.scope
    return store.sessions.list(
        limit=limit, cursor=cursor, cwd=scope.cwd, label=scope.label, title=wanted.title, subagents=wanted.subagents
    )


def _keep(wanted: Filter, session: clew.Session) -> bool:
    try:
        return wanted.holds(session)
    except clew.Corrupted:
        return False


def _json(session: clew.Session, damaged: list[str]) -> dict[str, Any]:
    try:
        origin = origin_of(session)
        return {**session_json(session), "tool": origin.tool or None, "branch": origin.branch or None}
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
    tool: str = ""


def _rows(store: clew.Store, sessions: Iterator[clew.Session], damaged: list[str], kind: str | None) -> Iterator[Row]:
    """The sessions as rows, read in batches. `kind` is the kind of all of them."""
    now, home = datetime.now(UTC), os.path.expanduser("~")
    short = cache(lambda cwd: plain(home_short(cwd or "", home)))  # many sessions have the same few folders
    handles: Handles | None = None
    while some := list(islice(sessions, BATCH)):
        if kind is not None and handles is None and len(some) == BATCH:
            handles = all_handles(store, kind)
        for session, brief in zip(some, briefs(some, handles), strict=True):
            yield _row(store, session, brief or session, damaged, now, short)


def _row(
    store: clew.Store,
    session: clew.Session,
    brief: clew.Session | Brief,
    damaged: list[str],
    now: datetime,
    short: Callable[[str | None], str],
) -> Row:
    try:
        when = ago(session.trashed_at or session.updated_at, now)
        if session.head_id is None and session.trashed_at is None:
            when = "-"  # its time is that of the import
        data = session.data
        first = data.title or _first_words(session)
        messages, cwd = str(brief.counters.messages), short(data.cwd)
        tool = plain(origin_of(session).tool) if data.extra else ""
        fork = "" if data.forked_from is None else "⑂ "
        if session.is_subagent:
            first, cwd = _subagent(session), plain(_owner(store, session))
    except clew.Corrupted:
        damaged.append(session.id)
        return Row(session.handle, "?", "?", "damaged", "", False)
    return Row(brief.handle, when, messages, fork + plain(first), cwd, bool(data.title), tool)


def _first_words(session: clew.Session) -> str:
    """What a title would be made of; without a prompt, the first message, or the line of what a program wrote there."""
    rules = rules_for(session)
    found = [entry(node) for node in islice(session.iter(), FIRST)]
    asked = prompt_title(one.node.text for one in found if is_prompt(one, rules))
    if asked or not found:
        return asked or ""
    notes = split_prompt(found[0], rules).notes
    return title_line(notes[0].title if notes else found[0].node.text) or ""


def _subagent(session: clew.Session) -> str:
    """The name of a subagent and its run, as `clew run` labels it."""
    run = next((one.rpartition(":")[2] for one in session.labels if one.startswith(f"subagent:{session.agent}:")), "")
    title = None if session.title in session.labels else session.title
    return " ".join(part for part in (session.agent, run, title) if part)


def _owner(store: clew.Store, session: clew.Session) -> str:
    if session.owner_id is None:
        return ""
    try:
        owner = store.sessions.get(session.owner_id)
    except clew.ClewError:  # it is in the trash, or damaged
        return f"of {session.owner_id}"
    return f"of {owner.handle} {owner.title or ''}".rstrip()


def _table(rows: list[Row]) -> Iterator[str]:
    """The rows as a table, clipped to the width of the terminal; the title gets most of the space."""
    if not rows:
        return
    handles, whens, counts = (max(map(len, column)) for column in zip(*(row[:3] for row in rows), strict=True))
    titles, room = max(width(row.title) for row in rows), columns()
    tools, cwds = (max(map(width, column)) for column in ({row.tool for row in rows}, {row.cwd for row in rows}))
    if room is not None:
        room = max(8, room - handles - whens - counts - 6 - (tools + 2 if tools else 0))
        spare = room - 2 - min(cwds, max(room // 3, room - 2 - titles))
        titles = min(titles, spare) if cwds else min(titles, room)
        cwds = max(0, room - 2 - titles)
    titles = min(titles, 72)
    coloured, tail = colourful(sys.stdout), cache(lambda cwd: _tail(cwd, cwds))
    for row in rows:
        title, cwd = pad(clip(row.title, titles), titles), tail(row.cwd)
        parts = [row.handle.ljust(handles), row.when.rjust(whens), row.messages.rjust(counts), title, cwd]
        if tools:
            parts.insert(4, pad(row.tool, tools))
        if coloured:
            looks = ["33", "2", "", "1" if row.titled else "2", *(["35"] if tools else []), "2"]
            parts = [style(part, look) if look else part for part, look in zip(parts, looks, strict=True)]
        yield "  ".join(parts).rstrip()


def _tail(path: str, limit: int) -> str:
    """A path clipped at its start."""
    return clip(path[::-1], limit)[::-1]
