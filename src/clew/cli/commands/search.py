"""`clew search`: finds messages by their words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from clew.base.messages import ROLES, Role
from clew.base.visible import plain
from clew.cli.exits import FAILED
from clew.cli.options import examples
from clew.cli.output.json import Form, json_options, node_json, out_lines, out_values
from clew.cli.output.progress import ProgressLine
from clew.cli.output.text import bold, clip, columns, dim, role_style, style, warn, width
from clew.cli.output.times import ago, since_option, until_option
from clew.cli.setup.find import find_point
from clew.cli.setup.open_store import open_for_reading, store_option
from clew.cli.setup.scope import Scope, scope_options
from clew.sources.registry import is_machine_match
from clew.store.origin import name_of, origin_of

SPARE = 20
"""Hits that are asked for beyond the limit: some are text of programs, and are left out."""

if TYPE_CHECKING:
    from clew import Session
    from clew.store.search.query import Hit


@click.command(
    epilog=examples(
        "clew search lint step",
        "clew search '\"lint step\"' --role assistant --since 2d",
        "clew search flaky test --tool claude-code --project ~/src/app",
        "clew search 設定",
        "clew search --substring _ingress",
    ),
)
@click.argument("words", nargs=-1, required=True)
@click.option("--session", metavar="ID", help="Only in this conversation, or the one with this message.")
@scope_options
@click.option("--role", type=click.Choice(ROLES), help="Only messages with this role.")
@since_option
@until_option
@click.option("--notes", is_flag=True, help="Also search text that a tool added: commands, reminders, its environment.")
@click.option("--substring", is_flag=True, help="Match any part of a word; for code.")
@click.option(
    "-n", "--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="Maximum number of results."
)
@json_options
@store_option
@click.pass_context
def search(
    ctx: click.Context,
    words: tuple[str, ...],
    session: str | None,
    scope: Scope,
    role: Role | None,
    since: datetime | None,
    until: datetime | None,
    notes: bool,
    substring: bool,
    limit: int,
    form: Form,
) -> None:
    """Find messages that contain all WORDS, best match first. Ignores case and accents. Exit code 1 if there is none.

    "Words in quotes" match a phrase; pre* matches words that start with pre.
    """
    with open_for_reading() as store:
        within = None if session is None else find_point(store, session)[0].id
        with ProgressLine("indexing") as progress:
            find = partial(
                store.search, " ".join(words), session=within, role=role, since=since, until=until,
                mode="substring" if substring else "words", progress=progress,
            )  # fmt: skip
            hits = _within(find, limit, scope, notes=notes)
        if form != "text":
            out_values(map(_json, hits), form)
        elif hits:
            out_lines(_lines(hits))
        else:
            used = {"--session": session, "--role": role, "--since": since, "--until": until}
            advice = scope.advice(*(flag for flag, value in used.items() if value is not None))
            warn(f"No messages found.{advice}{'' if substring else ' Use --substring to match parts of words.'}")
    ctx.exit(0 if hits else FAILED)


def _within(find: Callable[..., list[Hit]], limit: int, scope: Scope, *, notes: bool) -> list[Hit]:
    """The hits in sessions of the scope, which the index does not know; without `notes`, not the text of programs."""
    if not scope.flags and notes:
        return find(limit=limit)

    def is_kept(hit: Hit) -> bool:
        inside = not scope.flags or (hit.session is not None and scope.holds(hit.session))
        return inside and (notes or not is_machine_match(hit, hit.session))

    asked = 4 * limit if scope.flags else limit + SPARE
    while True:
        found = find(limit=asked)
        kept = [hit for hit in found if is_kept(hit)]
        if len(kept) >= limit or len(found) < asked:
            return kept[:limit]
        asked *= 4


def _json(hit: Hit) -> dict[str, Any]:
    return {
        "session": None if hit.session is None else _session_json(hit.session),
        "node": node_json(hit.node),
        "snippet": hit.snippet,
        "marks": [list(mark) for mark in hit.marks],
        "score": hit.score,
    }


def _session_json(session: Session) -> dict[str, Any]:
    origin = origin_of(session)
    return {
        "id": session.id,
        "handle": session.handle,
        "title": session.title,
        "cwd": session.cwd,
        "tool": origin.tool or None,
        "branch": origin.branch or None,
    }


def _lines(hits: Iterable[Hit]) -> Iterator[str]:
    now = datetime.now(UTC)
    for number, hit in enumerate(hits):
        if number:
            yield ""
        session, node = hit.session, hit.node
        tool = "" if session is None else plain(origin_of(session).tool)
        when = f"{tool}  {ago(node.created_at, now)}".strip()
        name = name_of(node)
        start = style(name, "33") + "  " + role_style(node.role, node.role.ljust(9))
        where = "no conversation" if session is None else f"{session.handle} {plain(session.title or 'untitled')}"
        room = columns()
        if room is not None:
            where = clip(where, max(8, room - len(name) - 11 - width(when) - 6))
        yield f"{start}  {bold(where)}  {dim(when)}"
        yield "    " + _highlight(*_escape(hit.snippet, hit.marks), None if room is None else max(20, room - 4))


def _escape(snippet: str, marks: Sequence[tuple[int, int]]) -> tuple[str, list[tuple[int, int]]]:
    """The snippet with control characters escaped, and the marks moved accordingly."""
    text, at, moved = "", 0, []
    for begin, end in marks:
        text += plain(snippet[at:begin])
        moved.append((len(text), len(text) + len(plain(snippet[begin:end]))))
        text, at = text + plain(snippet[begin:end]), end
    return text + plain(snippet[at:]), moved


def _highlight(snippet: str, marks: Sequence[tuple[int, int]], room: int | None) -> str:
    """The snippet on one line, with the matches in colour; clipped around the first match."""
    start, stop = 0, len(snippet)
    if room is not None and width(snippet) > room:
        room -= 2  # for the ellipses
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
