"""`clew usage`: tokens and cost by day, week, month, model, project or tool; or of one conversation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from typing import Any

import click

from clew.base.visible import many, plain
from clew.cli.commands.stats import bar, damage, short
from clew.cli.exits import DAMAGED
from clew.cli.options import examples
from clew.cli.output.json import Form, home_short, json_options, out_lines, out_value
from clew.cli.output.progress import ProgressLine
from clew.cli.output.text import bold, clip, columns, dim, pad, style, warn, width, wrap
from clew.cli.output.times import since_option, until_option
from clew.cli.setup.find import find_session
from clew.cli.setup.open_store import open_for_reading, store_option
from clew.cli.setup.scope import Scope, scope_options
from clew.cli.setup.settings import prices
from clew.store.stats import Stats, stats
from clew.store.usage import ConversationUsage, Spent, UsageGroup, conversation_usage, sum_of
from clew.turns.words import money, price_origin, short_models

MOST = 30
"""Maximum rows of a table; further rows are summed up in one."""
EARLIER = "earlier"
LATEST = {"day": 31, "week": 26, "month": 24}
"""Rows of a table by time: the newest ones."""

EXPLANATION = """
clew counts what the providers reported, from the answers as the tools stored them:

input    sent to the model; neither read from a cache nor written to one
cached   read from the prompt cache
written  written to the prompt cache
output   written by the model, with its reasoning

Each answer counts once. Claude Code stores an answer as several lines, each with the usage so far: the largest counts.
Forks, resumed copies and retries repeat lines of earlier answers: they add nothing. Subagents count with the
conversation that called them; 'clew usage ID' lists them. Lines that no model wrote count nothing.

The cost is the one that the tool noted, where it did: opencode, pi, early versions of Claude Code. All others are
priced per answer by your own prices ('clew config set prices.MODEL "input=3 output=15"'), then by the list: the price
of its day, for the size of its prompt, with cache writes for an hour apart. These are list prices: subscriptions, batch
and fast modes, taxes and discounts are not in it. Without a price, a cost is unknown and not a guess.

Why another tool shows another figure:

- It reads only files that still exist. Claude Code deletes conversations after 30 days; imported ones stay.
- It counts the first line of an answer, whose output is not complete, or the sum of all lines, which is too much.
  ccusage takes one line of each answer.
- It leaves out subagents, or counts copies of an answer in every file.
- It shows input without the cached part, or reasoning beside the output.
- Its days are those of another time zone: clew uses that of this machine.
- Its prices are of another day, or without the price of cache writes for an hour and of large prompts.
- Claude Code notes one sum for a conversation, with requests that no transcript has, such as those for titles. It is
  not divided by day or model: 'clew usage ID' and the page show it for the conversation, the other tables do not.
- A bill has what was used outside of these conversations.
"""


@click.command(
    epilog=examples(
        "clew usage",
        "clew usage --by model --since 30d",
        "clew usage --by project --tool claude-code",
        "clew usage k3m9qa",
        "clew usage --by day --json | jq .rows",
        "clew usage --explain",
    )
)
@click.argument("conversation", required=False)
@click.option(
    "--by", default="day", help="What a row is (day).",
    type=click.Choice(["day", "week", "month", "model", "project", "tool"]),
)  # fmt: skip
@click.option("--explain", is_flag=True, help="Explain how tokens are counted, and why other tools count others.")
@scope_options
@since_option
@until_option
@json_options
@store_option
@click.pass_context
def usage(
    ctx: click.Context, conversation: str | None, by: str, explain: bool, scope: Scope, since: datetime | None,
    until: datetime | None, form: Form,
) -> None:  # fmt: skip
    """Show tokens and cost by day, week, month, model, project or tool; or of one conversation with its subagents.

    Every answer counts once, however many lines and copies of it are stored. The cost is the one that the tool noted,
    else the list price, or your own: clew config set prices.MODEL 'input=3 output=15'. Exit code 7 if a message is
    damaged and cannot be counted.
    """
    if explain:
        out_lines(part for line in EXPLANATION.strip().splitlines() for part in (wrap(line) if line else [""]))
        return
    known = prices()
    if conversation is not None:
        if scope.flags or since or until:
            raise click.UsageError("options that choose conversations or times cannot be used with an ID")
        with open_for_reading() as store:
            session = find_session(store, conversation)
            titles = {one.id: one.agent or one.title or one.handle for one in session.subagents()}
            spent = conversation_usage(session, known)
        out_lines(_conversation(spent, titles)) if form == "text" else out_value(_conversation_json(spent), form)
        ctx.exit(DAMAGED if spent.damaged else 0)
    with open_for_reading() as store, ProgressLine("counting") as progress:
        found = stats(
            store, since=since, until=until, zone=datetime.now().astimezone().tzinfo,
            keep=scope.holds if scope.flags else None, prices=known, progress=progress,
        )  # fmt: skip
    rows = grouped(found, by)
    if form != "text":
        out_value(_json(found, by, rows), form)
    elif rows:
        out_lines(_lines(found, by, rows))
    else:
        used = {"--since": since, "--until": until}
        warn(f"No answers.{scope.advice(*(flag for flag, value in used.items() if value is not None))}")
    ctx.exit(DAMAGED if found.damaged else 0)


def grouped(found: Stats, by: str) -> dict[str, Spent]:
    """The answers by what a row is: times in order, other rows with the most tokens first."""
    rows: dict[str, Spent] = {}
    for group, spent in found.usage.items():
        name = _NAMES[by](group)
        rows[name] = rows.get(name, Spent()).plus(spent)
    if by in LATEST:
        return dict(sorted(rows.items()))
    return dict(sorted(rows.items(), key=lambda row: -row[1].lanes.total))


def _week(day: str) -> str:
    """The Monday of a day's week."""
    one = date.fromisoformat(day)
    return (one - timedelta(days=one.weekday())).isoformat()


_NAMES: dict[str, Callable[[UsageGroup], str]] = {
    "day": lambda group: group.day,
    "week": lambda group: _week(group.day),
    "month": lambda group: group.day[:7],
    "model": lambda group: group.model,
    "project": lambda group: group.project,
    "tool": lambda group: group.tool,
}
_EMPTY = {"model": "unknown", "project": "no directory", "tool": "clew"}


def _lines(found: Stats, by: str, rows: dict[str, Spent]) -> Iterator[str]:
    total = sum_of(rows.values())
    shown = list(rows.items())
    if by in LATEST and len(shown) > LATEST[by]:
        rest = dict(shown[: -LATEST[by]])
        shown = [(EARLIER, sum_of(rest.values())), *shown[-LATEST[by] :]]
    elif len(shown) > MOST:
        rest = dict(shown[MOST - 1 :])
        shown = [*shown[: MOST - 1], (f"{len(rest)} others", sum_of(rest.values()))]
    models = short_models(name for name, _ in shown) if by == "model" else {}
    named = [(home_short(name) if by == "project" else models.get(name, name), one) for name, one in shown]
    yield from _table(by, [(name or _EMPTY.get(by, name), one) for name, one in named], total)
    traces = sum_of(one for group, one in found.usage.items() if group.subagent)
    if traces.answers:
        yield dim(f"{many(traces.answers, 'answer')} of subagents are included: {short(traces.lanes.total)} tokens.")
    if total.cost:
        yield dim(f"Cost {price_origin(total, found.prices)}.")
    yield from _unknown(total, grouped(found, "model"), found.damaged)
    yield dim("Another tool shows other figures? clew usage --explain")


def _unknown(total: Spent, models: dict[str, Spent], damaged: int) -> Iterator[str]:
    """The answers whose cost or tokens are unknown, and damaged messages."""
    if total.unpriced:
        names = sorted(plain(name) for name, one in models.items() if one.unpriced > one.uncounted and name)
        of = f" of {', '.join(names[:3])}{' …' if len(names) > 3 else ''}" if names else ""
        yield dim(f"Cost unknown for {many(total.unpriced, 'answer')}{of}.")
    if total.uncounted:
        yield dim(f"Tokens unknown for {many(total.uncounted, 'answer')}.")
    if damaged:
        yield damage(damaged)


def _table(title: str, rows: list[tuple[str, Spent]], total: Spent) -> Iterator[str]:
    room = columns() or 80
    names = min(max(width(plain(name)) for name, _ in (*rows, (title, total))), max(12, room - 60))
    space = max(0, min(30, room - names - 60))
    drawn = [one for name, one in rows if name != EARLIER]
    most = max(one.cost for one in drawn) or max(one.lanes.total for one in drawn) or 1
    heads = f"{''.join(head.rjust(9) for head in ('input', 'cached', 'written', 'output'))}{'cost':>11}"
    yield f"{bold(pad(title, names))}  {dim('answers'.rjust(7))}{dim(heads)}"
    for name, one in rows:
        size = 0.0 if name == EARLIER else one.cost if total.cost else one.lanes.total
        filled = bar(size, most, space) if space else ""
        yield f"{_row(pad(clip(plain(name), names), names), one)}  {style(filled, '36')}".rstrip()
    if len(rows) > 1:
        yield bold(_row(pad("total", names), total).rstrip())


def _row(name: str, one: Spent) -> str:
    lanes = one.lanes
    counts = (lanes.input, lanes.cached, lanes.cache_write, lanes.output)
    cost = money(one.cost) + ("+" if one.unpriced else "") if one.cost else "?" if one.unpriced else "$0"
    return f"{name}  {one.answers:>7,}{''.join(short(count).rjust(9) for count in counts)}{cost.rjust(11)}"


def _conversation(found: ConversationUsage, titles: dict[str, str]) -> Iterator[str]:
    rows = [("conversation", found.own)]
    rows += [(f"subagent {titles.get(id, id[:8])}", spent) for id, spent in found.subagents.items()]
    yield from _table("part", rows, found.total)
    if found.is_noted_whole:
        yield dim(f"The tool noted a cost of {money(found.total.noted)} for all of it.")
    elif found.total.cost:
        yield dim(f"Cost {price_origin(found.total, found.priced_on or '')}.")
    yield from _unknown(found.total, found.models, found.damaged)


def _spent_json(one: Spent) -> dict[str, Any]:
    """Counts as JSON; the cost, in millionths of a dollar, is null if unknown."""
    lanes = {**one.lanes._asdict(), "tokens": one.lanes.total}
    cost = round(one.cost) if one.cost or not one.unpriced else None
    parts = {"cost_noted": round(one.noted), "cost_own": round(one.own), "cost_listed": round(one.listed)}
    unknown = {"cost_unknown": one.unpriced, "tokens_unknown": one.uncounted}
    return {"answers": one.answers, **lanes, "cost": cost, **parts, **unknown}


def _json(found: Stats, by: str, rows: dict[str, Spent]) -> dict[str, Any]:
    return {
        "by": by,
        "rows": [{by: name, **_spent_json(one)} for name, one in rows.items()],
        "total": _spent_json(sum_of(rows.values())),
        "subagents": _spent_json(sum_of(one for group, one in found.usage.items() if group.subagent)),
        "prices": found.prices,
        "damaged": found.damaged,
    }


def _conversation_json(found: ConversationUsage) -> dict[str, Any]:
    return {
        "own": _spent_json(found.own),
        "subagents": {id: _spent_json(one) for id, one in found.subagents.items()},
        "models": {name: _spent_json(one) for name, one in found.models.items()},
        "total": _spent_json(found.total),
        "prices": found.priced_on,
        "damaged": found.damaged,
    }
