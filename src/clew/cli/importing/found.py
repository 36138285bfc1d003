"""The histories on this machine as a table, and the question which of them to import."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import click

from clew.base.visible import many, plain
from clew.cli.exits import PARTIAL
from clew.cli.output.json import home_short, iso, out_lines
from clew.cli.output.progress import size
from clew.cli.output.text import bold, clip, columns, dim, out, pad, warn, width
from clew.sources.contract import Home
from clew.sources.survey import History

HEAD = ("TOOL", "PROJECTS", "CONVERSATIONS", "MESSAGES", "SIZE", "OLDEST", "NEWEST")
RIGHT = (False, True, True, True, True, False, False)
"""Which columns of the table are numbers."""
GAP = "  "
PAGE = "clew.page"
"""Key in the context for the address of the web page, if it is offered after the import."""
CHOSEN = "clew.chosen"
"""Key in the context for the answer."""
SPACE = 1.3
"""Bytes that a store takes for each byte of a history, as seen with logs of Claude Code."""


HISTORY = "history of another tool"
"""What is not found if no other tool was used here."""


def this_home() -> Home:
    """The machine that clew runs on, for sources."""
    return Home(os.path.expanduser("~"), os.environ, sys.platform)


def table(found: Sequence[History]) -> list[str]:
    """The histories as lines of a table, with a warning below for those that are deleted after some days.

    On a narrow terminal, days become months, and long names are clipped.
    """
    rows = [_row(one, "%Y-%m-%d") for one in found]
    room = columns()
    if room is not None and _widths(rows, GAP) > room:
        rows = [_row(one, "%Y-%m") for one in found]
        spare = room - (_widths(rows, GAP) - max(width(row[0]) for row in rows))
        rows = [(clip(row[0], max(8, spare)), *row[1:]) for row in rows]
    sizes = [max(width(row[n]) for row in (HEAD, *rows)) for n in range(len(HEAD))]
    lines = [GAP.join(map(_aligned, row, sizes, RIGHT)).rstrip() for row in (HEAD, *rows)]
    lines[0] = dim(lines[0])
    short = [one for one in found if one.deletes_after is not None]
    days = "{} deletes conversations after {} days; imported ones stay."
    lines += [bold(days.format(one.title, one.deletes_after)) for one in short]
    return lines


def _widths(rows: Sequence[Sequence[str]], gap: str) -> int:
    """The width of a table."""
    return sum(max(width(row[n]) for row in (HEAD, *rows)) + len(gap) for n in range(len(HEAD))) - len(gap)


def _aligned(cell: str, room: int, right: bool) -> str:
    return " " * (room - width(cell)) + cell if right else pad(cell, room)


def _row(one: History, day: str) -> tuple[str, ...]:
    about = "" if one.exact else "about "
    return (
        plain(one.title),
        str(one.projects),
        f"{about}{one.conversations:,}",
        f"{about}{one.messages:,}",
        size(one.size),
        _day(one.oldest, day),
        _day(one.newest, day),
    )


def _day(moment: datetime | None, form: str) -> str:
    return "" if moment is None else moment.astimezone().strftime(form)


def json_rows(found: Sequence[History]) -> list[dict[str, Any]]:
    """The histories as data."""
    times = ("oldest", "newest")
    return [
        {name: iso(value) if name in times and value is not None else value for name, value in one._asdict().items()}
        for one in found
    ]


def tell_unreadable(found: Mapping[str, str]) -> int:
    """Names files and folders that cannot be read, with the reasons; returns the exit code."""
    for path, why in found.items():
        warn(f"{bold('unreadable')} {plain(path)}: {plain(why)}")
    return PARTIAL if found else 0


def looked_at(paths: Sequence[str]) -> str:
    """Paths, shortened, for a sentence."""
    return ", ".join(plain(home_short(path)) for path in paths)


def choose(found: Sequence[History]) -> list[History]:
    """Asks which histories to import; the user may choose none.

    If the context offers the web page, the user may also choose all histories and then the page.
    """
    total = sum(one.size for one in found)
    warn(f"The store needs about {size(round(total * SPACE))} for all of them.")
    meta = click.get_current_context().meta
    choices = {"a": "all", "w": f"all, then show them in a browser: {meta.get(PAGE)}", "c": "choose", "n": "not now"}
    if PAGE not in meta:
        del choices["w"]
    else:
        warn("Import them?")
        for letter, what in choices.items():
            warn(f"  {bold(letter, sys.stderr)}  {what}")
    question = "Your choice" if PAGE in meta else "Import [a]ll, [c]hoose, or [n]ot now?"
    answer = click.prompt(question, type=click.Choice(list(choices)), default="a", err=True, show_choices=False)
    meta[CHOSEN] = answer
    if answer == "n":
        return []
    if answer in ("a", "w"):
        return list(found)
    return [
        one for one in found if click.confirm(f"{one.title} ({many(one.files, 'file')})?", default=True, err=True)
    ]  # fmt: skip


def show_found() -> None:
    """The histories on this machine as a table, or where they were looked for; asks nothing."""
    from clew.sources.survey import survey

    unreadable: dict[str, str] = {}
    found = survey(this_home(), unreadable=unreadable)
    out()
    out(bold("Your histories"))
    out()
    if found:
        out_lines(table(found), paged=False)
        out("Import them with: clew import --yes")
    else:
        show_looked_at()
    tell_unreadable(unreadable)


def show_looked_at() -> None:
    """Where histories were looked for, and none was found."""
    from clew.sources.registry import sources

    home = this_home()
    out("No histories of other tools found. Looked at ('clew sources' lists all places):")
    for source in sorted(sources(), key=lambda source: source.title.casefold()):
        places = list(source.discover(home))
        if places:
            out(f"  {source.title}: {looked_at(places[:1])}{' …' if len(places) > 1 else ''}")
