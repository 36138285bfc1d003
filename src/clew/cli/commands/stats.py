"""`clew stats`: counts sessions, messages, tokens and cost, with bars."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import click

from clew.base.visible import many, plain
from clew.cli.exits import DAMAGED
from clew.cli.options import examples
from clew.cli.output.json import Form, home_short, json_options, out_lines, out_value
from clew.cli.output.progress import ProgressLine
from clew.cli.output.text import bold, clip, columns, dim, pad, style, warn, width
from clew.cli.output.times import since_option, until_option
from clew.cli.setup.open_store import open_for_reading, store_option
from clew.cli.setup.scope import Scope, scope_options
from clew.cli.setup.settings import prices
from clew.store.stats import Stats, Tally
from clew.store.stats import stats as count_all
from clew.store.usage import sum_of
from clew.turns.words import money, price_origin, short_models

MOST = 10
"""Maximum rows of a table; further rows are summed up in one."""
DAYS = 14
_WHOLE, _PARTS = "█", " ▏▎▍▌▋▊▉"


@click.command(
    epilog=examples("clew stats", "clew stats --since 30d --tool claude-code", "clew stats --json | jq .by_model")
)
@scope_options
@since_option
@until_option
@json_options
@store_option
@click.pass_context
def stats(ctx: click.Context, scope: Scope, since: datetime | None, until: datetime | None, form: Form) -> None:
    """Count conversations, messages, tokens and cost: in total, and by model, day, project, tool and git branch.

    Messages shared by forks are counted once, and so are the lines and copies of one answer. Tokens in include cached
    input; 'clew usage' lists them apart. Exit code 7 if a message is damaged and cannot be counted.
    """
    known = prices()
    with open_for_reading() as store, ProgressLine("counting") as progress:
        found = count_all(
            store, since=since, until=until, zone=datetime.now().astimezone().tzinfo,
            keep=scope.holds if scope.flags else None, prices=known, progress=progress,
        )  # fmt: skip
    if form == "text":
        out_lines(_lines(found))
        if not found.total.messages:
            used = {"--since": since, "--until": until}
            warn(f"No messages.{scope.advice(*(flag for flag, value in used.items() if value is not None))}")
    else:
        out_value(_json(found), form)
    ctx.exit(DAMAGED if found.damaged else 0)


def _json(found: Stats) -> dict[str, Any]:
    names = ("by_model", "by_day", "by_project", "by_tool", "by_branch")
    tables = {name: getattr(found, name) for name in names}
    shown = {name: {key: _tally(one) for key, one in table.items()} for name, table in tables.items()}
    return {"total": _tally(found.total), **shown, "unknown": found.unknown, "damaged": found.damaged}


def _tally(one: Tally) -> dict[str, int | None]:
    """A tally as JSON; its cost is null if unknown."""
    return {**one._asdict(), "cost": one.cost if one.cost or not one.cost_unknown else None}


def _lines(found: Stats) -> Iterator[str]:
    total = found.total
    rows = [("conversations", total.sessions), ("messages", total.messages), ("turns", total.turns)]
    rows += [("tokens in", total.tokens_in), ("tokens out", total.tokens_out)]
    for name, count in rows:
        yield f"{name:<14}{bold(f'{count:>14,}')}"
    if total.cost:
        spent = sum_of(found.usage.values())
        yield f"{'cost':<14}{bold(money(total.cost).rjust(14))}  {dim(price_origin(spent, found.prices))}".rstrip()
    if total.cost_unknown:
        yield dim(f"Cost unknown for {many(total.cost_unknown, 'answer')}.")
    if found.damaged:
        yield damage(found.damaged)
    models = sorted(found.by_model.items(), key=lambda item: -_tokens(item[1]) or -item[1].messages)
    short = short_models(found.by_model)
    yield from _table("by model", [(short[name] or "unknown", one) for name, one in models], "answers")
    days = list(found.by_day.items())[-DAYS:]
    yield from _table("by day", days, "messages", most=DAYS)
    projects = sorted(found.by_project.items(), key=lambda item: -item[1].messages)
    yield from _table("by project", [(home_short(name) or "no directory", one) for name, one in projects], "messages")
    if any(found.by_tool):
        tools = sorted(found.by_tool.items(), key=lambda item: -item[1].messages)
        yield from _table("by tool", [(name or "clew", one) for name, one in tools], "messages")
    branches = sorted(found.by_branch.items(), key=lambda item: -item[1].messages)
    yield from _table("by branch", branches, "messages")


def damage(count: int) -> str:
    """The line on damaged messages."""
    return style(f"{many(count, 'damaged message')}. List them with: clew verify", "31")


def _table(title: str, rows: list[tuple[str, Tally]], what: str, *, most: int = MOST) -> Iterator[str]:
    if not rows:
        return
    if len(rows) > most:
        others = Tally()
        for _, one in rows[most - 1 :]:
            others = others.plus(one)
        rows = [*rows[: most - 1], (f"{len(rows) - most + 1} others", others)]
    room = columns() or 80
    names = min(max(width(plain(name)) for name, _ in rows), max(12, room - 54))
    space = max(4, min(40, room - names - 34))
    largest = max(one.messages for _, one in rows) or 1
    yield ""
    yield f"{bold(pad(title, names))}  {dim(what.rjust(9))}  {dim('tokens'.rjust(9))}"
    for name, one in rows:
        filled = style(bar(one.messages, largest, space), "36")
        cost = dim(money(one.cost).rjust(9)) if one.cost else ""
        label = pad(clip(plain(name), names), names)
        yield f"{label}  {one.messages:>9,}  {short(_tokens(one)):>9}  {filled} {cost}".rstrip()


def bar(value: float, largest: float, space: int) -> str:
    """A bar of blocks, in eighths of a column."""
    eighths = round(value * space * 8 / largest) if value else 0
    return _WHOLE * (eighths // 8) + _PARTS[eighths % 8].strip()


def _tokens(one: Tally) -> int:
    return one.tokens_in + one.tokens_out


def short(count: int) -> str:
    """A number in at most six characters."""
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**4, "k")):
        if count >= size:
            return f"{count / (1000 if unit == 'k' else size):.1f}{unit}"
    return f"{count:,}"
