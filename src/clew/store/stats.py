"""What is in a store, counted: by model, day, project, tool and git branch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, tzinfo
from typing import NamedTuple

from clew.engine.node import run_info
from clew.errors import Corrupted
from clew.providers.prices import Prices
from clew.providers.usage import usage_of
from clew.store.origin import origin_of
from clew.store.session import Session, row_of
from clew.store.store import Store
from clew.store.usage import Answers, Spent, UsageGroup

Progress = Callable[[int, int], None]
PAGE = 500
UNKNOWN = ""
"""The name used for an answer without a model and a session without a directory."""


class Tally(NamedTuple):
    """Counts and sums."""

    sessions: int = 0
    messages: int = 0
    turns: int = 0
    """Messages from the user."""
    tokens_in: int = 0
    """All that the models read, cached or not."""
    tokens_out: int = 0
    cost: int = 0
    """In millionths of a dollar: as the programs noted it, else at the user's own prices or at list price."""
    cost_unknown: int = 0
    """Answers whose cost is unknown. If there are any, `cost` is a lower bound."""

    def plus(self, other: Tally) -> Tally:
        """The sum of both."""
        return Tally(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


class Stats(NamedTuple):
    """The statistics. A message is counted once, however many sessions share it.

    So are the tokens of an answer, however many lines and copies of it there are: see `clew.store.usage`.
    """

    total: Tally
    by_model: dict[str, Tally]
    """Answers, by the model that gave them; an answer of several lines is one."""
    by_day: dict[str, Tally]
    """Messages by their date, oldest first."""
    by_project: dict[str, Tally]
    """Messages by the directory of the first session of their tree."""
    by_tool: dict[str, Tally]
    """Messages by the tool that their conversation was imported from; "" for those of clew itself."""
    by_branch: dict[str, Tally]
    """Messages by the git branch of their conversation, if it has one."""
    unknown: int
    """Answers whose tokens are unknown. If there are any, the sums are lower bounds."""
    damaged: int
    """Messages that cannot be read. They are not counted."""
    usage: dict[UsageGroup, Spent]
    """The answers by day, model, directory, tool and git branch."""
    prices: str
    """The day of the price list."""


def stats(
    store: Store,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    zone: tzinfo | None = None,
    keep: Callable[[Session], bool] | None = None,
    prices: Prices | None = None,
    progress: Progress | None = None,
) -> Stats:
    """Counts the messages from `since` up to `until`, and the sessions active in that time.

    What is in the trash is not counted. Days are those of `zone`, or UTC. With `keep`, only sessions for which it is
    true, and the messages of trees that began with one of them. `prices` are a user's own and the list; without them
    the list alone. Reads every message once.
    """
    prices = prices or Prices()
    homes, sessions = _homes(store, since, until, keep)
    answers, damaged, seen = Answers(prices), 0, 0
    counted: dict[tuple[str, _Home], Tally] = {}
    nowhere = _Home()
    for page in store.nodes.list(limit=PAGE, ascending=True, trashed=False).pages():
        for node in page.items:
            at = node.created_at
            if (since is not None and at < since) or (until is not None and at >= until):
                continue
            home = homes.get(run_info(node).tree)
            if home is None:
                if keep is not None:
                    continue
                home = nowhere
            day = (at if zone is None else at.astimezone(zone)).date().isoformat()
            role = node.role
            if role == "assistant":
                try:
                    used = usage_of(node.said)
                except Corrupted:
                    damaged += 1
                    continue
                if used is not None:
                    answers.add(used, UsageGroup(day, used.model, *home))
            before = counted.get((day, home), _NOTHING)
            counted[day, home] = before._replace(messages=before.messages + 1, turns=before.turns + (role == "user"))
        seen += len(page.items)
        if progress is not None:
            progress(seen, 0)
    return _summed(counted, answers.groups(), sessions, damaged, prices.date)


_NOTHING = Tally()


def _summed(
    counted: dict[tuple[str, _Home], Tally],
    usage: dict[UsageGroup, Spent],
    sessions: tuple[dict[str, int], ...],
    damaged: int,
    prices: str,
) -> Stats:
    """The tables, from the messages of each day and place and the answers of each group."""
    total, unknown = Tally(sessions=sum(sessions[0].values())), 0
    models: dict[str, Tally] = {}
    days: dict[str, Tally] = {}
    projects, tools, branches = ({name: Tally(sessions=n) for name, n in one.items()} for one in sessions)

    def put(one: Tally, day: str, project: str, tool: str, branch: str) -> None:
        for table, name in ((days, day), (projects, project), (tools, tool), (branches, branch)):
            table[name] = table.get(name, _NOTHING).plus(one)

    for (day, home), one in counted.items():
        total = total.plus(one)
        put(one, day, home.project, home.tool, home.branch)
    for group, spent in usage.items():
        lanes = spent.lanes
        one = Tally(0, 0, 0, lanes.all_input, lanes.output, round(spent.cost), spent.unpriced)
        total, unknown = total.plus(one), unknown + spent.uncounted
        put(one, group.day, group.project, group.tool, group.branch)
        of_model = models.get(group.model, _NOTHING)
        models[group.model] = of_model.plus(one._replace(messages=spent.answers))
    branches.pop(UNKNOWN, None)
    return Stats(total, models, dict(sorted(days.items())), projects, tools, branches, unknown, damaged, usage, prices)


class _Home(NamedTuple):
    project: str = UNKNOWN
    tool: str = UNKNOWN
    branch: str = UNKNOWN
    subagent: bool = False


def _homes(
    store: Store, since: datetime | None, until: datetime | None, keep: Callable[[Session], bool] | None
) -> tuple[dict[int, _Home], tuple[dict[str, int], ...]]:
    """Where each tree belongs, by its first session; and how many sessions of each directory, tool and branch."""
    homes: dict[int, tuple[tuple[datetime, int], _Home | None]] = {}
    owners: dict[str, _Home] = {}
    counts: tuple[dict[str, int], ...] = ({}, {}, {})
    for session in store.sessions.list(limit=PAGE, include_expired=True).all():
        try:
            home, at, row = _home(session), session.created_at, row_of(session)
            kept = keep is None or keep(session)
        except Corrupted:
            continue
        if kept and (since is None or session.updated_at >= since) and (until is None or at < until):
            for table, name in zip(counts, home[:3], strict=True):
                table[name] = table.get(name, 0) + 1
        if kept:
            owners[session.id] = home
        tree, first = row.tree, (at, row.ref)  # imported copies of a conversation began at the same time
        if tree is not None and (tree not in homes or first < homes[tree][0]):
            homes[tree] = first, home if kept else None
    found = {tree: home for tree, (_, home) in homes.items() if home is not None}
    for trace in store.sessions.list(limit=PAGE, include_expired=True, subagents=True).all():
        with suppress(Corrupted):  # a trace counts with its session
            home, tree = owners.get(trace.owner_id or "", _home(trace)), row_of(trace).tree
            if tree is not None and tree not in homes and (keep is None or trace.owner_id in owners or keep(trace)):
                found[tree] = home._replace(subagent=True)
    return found, counts


def _home(session: Session) -> _Home:
    origin = origin_of(session)
    return _Home(session.cwd or UNKNOWN, origin.tool, origin.branch)
