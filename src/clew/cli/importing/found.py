"""The histories on this machine as a table, and the question which of them to import."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click

from clew.base.visible import plain
from clew.cli.output.json import home_short, iso
from clew.cli.output.progress import size
from clew.cli.output.text import bold, dim, many, pad, warn, width
from clew.sources.contract import Home
from clew.sources.survey import History

SPACE = 1.3
"""Bytes that a store takes for each byte of a history, as seen with logs of Claude Code."""


def this_home() -> Home:
    """The machine that clew runs on, for sources."""
    return Home(os.path.expanduser("~"), os.environ, sys.platform)


def table(found: Sequence[History]) -> list[str]:
    """The histories as lines of a table, with a warning below for those that are deleted after some days."""
    head = ("TOOL", "PROJECTS", "CONVERSATIONS", "MESSAGES", "SIZE", "OLDEST", "NEWEST")
    rows = [_row(one) for one in found]
    sizes = [max(width(row[n]) for row in (head, *rows)) for n in range(len(head))]
    lines = [
        "  ".join(pad(cell, room) for cell, room in zip(row, sizes, strict=True)).rstrip() for row in (head, *rows)
    ]
    lines[0] = dim(lines[0])
    short = [one for one in found if one.deletes_after is not None]
    days = "{} deletes conversations after {} days; imported ones stay."
    lines += [bold(days.format(one.title, one.deletes_after)) for one in short]
    return lines


def _row(one: History) -> tuple[str, ...]:
    about = "" if one.exact else "about "
    return (
        plain(one.title),
        str(one.projects),
        f"{about}{one.conversations:,}",
        f"{about}{one.messages:,}",
        size(one.size),
        _day(one.oldest),
        _day(one.newest),
    )


def _day(moment: datetime | None) -> str:
    return "" if moment is None else moment.astimezone().strftime("%Y-%m-%d")


def json_rows(found: Sequence[History]) -> list[dict[str, Any]]:
    """The histories as data."""
    times = ("oldest", "newest")
    return [
        {name: iso(value) if name in times and value is not None else value for name, value in one._asdict().items()}
        for one in found
    ]


def looked_at(paths: Sequence[str]) -> str:
    """Paths, shortened, for a sentence."""
    return ", ".join(plain(home_short(path)) for path in paths)


def choose(found: Sequence[History]) -> list[History]:
    """Asks which histories to import; none of them is an answer, too."""
    total = sum(one.size for one in found)
    warn(f"The store needs about {size(round(total * SPACE))} for all of them.")
    answer = click.prompt(
        "Import [a]ll, [c]hoose, or [n]ot now?", type=click.Choice(["a", "c", "n"]), default="a", err=True,
        show_choices=False,
    )  # fmt: skip
    if answer == "n":
        return []
    if answer == "a":
        return list(found)
    return [
        one for one in found if click.confirm(f"{one.title} ({many(one.files, 'file')})?", default=True, err=True)
    ]  # fmt: skip
