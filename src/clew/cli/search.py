"""`clew search`: messages by their words."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from clew.cli import moments
from clew.cli.forms import Form, json_options, node_json, out_lines, out_values
from clew.cli.moments import ago
from clew.cli.place import reading, store_option
from clew.cli.progress import Progress
from clew.cli.text import bold, clip, columns, dim, plain, role_style, style, warn, width
from clew.model import ROLES, Role

if TYPE_CHECKING:
    from clew.search import Hit


@click.command(
    short_help="Find messages by their words.",
    epilog="\b\nExamples:\n"
    "  clew search lint step\n"
    "  clew search '\"lint step\"' --role assistant --since 2d\n"
    "  clew search --substring 設定",
)
@click.argument("words", nargs=-1, required=True)
@click.option("--session", metavar="ID", help="Only in this session.")
@click.option("--here", is_flag=True, help="Only in sessions of the current directory.")
@click.option("--cwd", metavar="DIR", help="Only in sessions of exactly this directory.")
@click.option("--label", help="Only in sessions with this label.")
@click.option("--role", type=click.Choice(ROLES), help="Only what this role said.")
@click.option("--since", callback=moments.since, metavar="WHEN", help="Only from then on: a date, or 2d, 3h, 15m ago.")
@click.option("--until", callback=moments.until, metavar="WHEN", help="Only up to then.")
@click.option("--substring", is_flag=True, help="Find any run of characters: for code, and text without spaces.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="How many at most.")
@json_options
@store_option
def search(
    words: tuple[str, ...],
    session: str | None,
    here: bool,
    cwd: str | None,
    label: str | None,
    role: Role | None,
    since: datetime | None,
    until: datetime | None,
    substring: bool,
    limit: int,
    form: Form,
) -> None:
    """Finds messages that have all the WORDS, best first; capitals and accents do not matter.

    "Words in quotes" are a phrase, pre* is the beginning of a word.
    """
    if here and cwd is not None:
        raise click.UsageError("--here is --cwd of the current directory: give one")
    place = os.path.abspath(cwd or ".") if here or cwd is not None else None
    with reading() as store:
        with Progress("indexing") as progress:
            find = partial(
                store.search, " ".join(words), session=session, role=role, since=since, until=until,
                mode="substring" if substring else "words", progress=progress,
            )  # fmt: skip
            hits = _within(find, limit, place, label)
        if form != "text":
            out_values(map(_json, hits), form)
        elif hits:
            out_lines(_lines(hits))
        else:
            warn("Nothing found." if substring else "Nothing found. --substring finds parts of words.")


def _within(find: Callable[..., list[Hit]], limit: int, cwd: str | None, label: str | None) -> list[Hit]:
    """The hits whose session is of this directory and has this label: the index knows neither."""
    if cwd is None and label is None:
        return find(limit=limit)
    asked = 4 * limit
    while True:
        found = find(limit=asked)
        kept = [hit for hit in found if _is_there(hit, cwd, label)]
        if len(kept) >= limit or len(found) < asked:
            return kept[:limit]
        asked *= 4


def _is_there(hit: Hit, cwd: str | None, label: str | None) -> bool:
    session = hit.session
    if session is None:
        return False
    return (cwd is None or session.cwd == cwd) and (label is None or label in session.labels)


def _json(hit: Hit) -> dict[str, Any]:
    session = hit.session
    return {
        "session": None if session is None else {"id": session.id, "handle": session.handle, "title": session.title},
        "node": node_json(hit.node),
        "snippet": hit.snippet,
        "marks": [list(mark) for mark in hit.marks],
        "score": hit.score,
    }


def _lines(hits: Iterable[Hit]) -> Iterator[str]:
    now = datetime.now(UTC)
    for number, hit in enumerate(hits):
        if number:
            yield ""
        session, node = hit.session, hit.node
        when = ago(node.created_at, now)
        start = style(node.handle, "33") + "  " + role_style(node.role, node.role.ljust(9))
        where = "no session" if session is None else f"{session.handle} {plain(session.title or 'untitled')}"
        room = columns()
        if room is not None:
            where = clip(where, max(8, room - len(node.handle) - 11 - width(when) - 6))
        yield f"{start}  {bold(where)}  {dim(when)}"
        yield "    " + _marked(*_shown(hit.snippet, hit.marks), None if room is None else max(20, room - 4))


def _shown(snippet: str, marks: Sequence[tuple[int, int]]) -> tuple[str, list[tuple[int, int]]]:
    """The snippet with its control characters shown, which makes it longer, and where the marks are then."""
    text, at, moved = "", 0, []
    for begin, end in marks:
        text += plain(snippet[at:begin])
        moved.append((len(text), len(text) + len(plain(snippet[begin:end]))))
        text, at = text + plain(snippet[begin:end]), end
    return text + plain(snippet[at:]), moved


def _marked(snippet: str, marks: Sequence[tuple[int, int]], room: int | None) -> str:
    """The snippet on one line, with what matched made to stand out; cut around the first match if there is no room."""
    start, stop = 0, len(snippet)
    if room is not None and width(snippet) > room:
        room -= 2  # for what says that it is cut
        room = room * len(snippet) // width(snippet)
        first = marks[0][0] if marks else 0
        start = max(0, min(first - room // 3, stop - room))
        stop = start + room
    parts, at = [], start
    for begin, end in marks:
        if start <= begin and end <= stop:
            parts += [plain(snippet[at:begin]), style(plain(snippet[begin:end]), "1;31")]
            at = end
    cut = ("…" if start else ""), ("…" if stop < len(snippet) else "")
    return cut[0] + "".join([*parts, plain(snippet[at:stop])]) + cut[1]
