"""Statistics of a store: messages, tokens and cost by model, by day, by project."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, tzinfo
from typing import NamedTuple

from clew.engine.node import Node, run_info
from clew.errors import Corrupted
from clew.store.session import row_of
from clew.store.store import Store

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
    tokens_out: int = 0
    cost: int = 0
    """In millionths of the currency's unit."""
    cost_unknown: int = 0
    """Answers whose cost is unknown. If there are any, `cost` is a lower bound."""

    def plus(self, other: Tally) -> Tally:
        """The sum of both."""
        return Tally(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


class Stats(NamedTuple):
    """The statistics. A message is counted once, however many sessions share it."""

    total: Tally
    by_model: dict[str, Tally]
    """Answers, by the model that gave them."""
    by_day: dict[str, Tally]
    """Messages by their date, oldest first."""
    by_project: dict[str, Tally]
    """Messages by the directory of the first session of their tree."""
    unknown: int
    """Answers whose tokens are unknown. If there are any, the sums are lower bounds."""
    damaged: int
    """Messages that cannot be read. They are not counted."""


def stats(
    store: Store,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    zone: tzinfo | None = None,
    progress: Progress | None = None,
) -> Stats:
    """Counts the messages from `since` up to `until`, and the sessions active in that time.

    Sessions in the trash are not counted. Days are those of `zone`, or UTC. Reads every message once.
    """
    homes, sessions = _projects(store, since, until)
    total, unknown, damaged, seen = Tally(), 0, 0, 0
    models: dict[str, Tally] = {}
    days: dict[str, Tally] = {}
    projects = {name: Tally(sessions=count) for name, count in sessions.items()}
    for page in store.nodes.list(limit=PAGE, ascending=True, trashed=False).pages():
        for node in page.items:
            if (since is not None and node.created_at < since) or (until is not None and node.created_at >= until):
                continue
            try:
                one, model, known = _read(node)
            except Corrupted:
                damaged += 1
                continue
            unknown += not known
            total = total.plus(one)
            if model is not None:
                models[model] = models.get(model, Tally()).plus(one)
            day = (node.created_at.astimezone(zone) if zone is not None else node.created_at).date().isoformat()
            days[day] = days.get(day, Tally()).plus(one)
            home = homes.get(run_info(node).tree, UNKNOWN)
            projects[home] = projects.get(home, Tally()).plus(one)
        seen += len(page.items)
        if progress is not None:
            progress(seen, 0)
    everything = total.plus(Tally(sessions=sum(sessions.values())))
    return Stats(everything, models, dict(sorted(days.items())), projects, unknown, damaged)


def _read(node: Node) -> tuple[Tally, str | None, bool]:
    """The tally of one message, its model if it is an answer, and whether its tokens are known."""
    if node.role != "assistant":
        return Tally(messages=1, turns=int(node.role == "user")), None, True
    message = node.message
    used = message.usage
    if used is None:
        return Tally(messages=1, cost_unknown=1), message.model or UNKNOWN, False
    known = used.input is not None and used.output is not None
    spent = Tally(0, 1, 0, used.input or 0, used.output or 0, used.cost or 0, int(used.cost is None))
    return spent, message.model or UNKNOWN, known


def _projects(store: Store, since: datetime | None, until: datetime | None) -> tuple[dict[int, str], dict[str, int]]:
    """The directory of each tree, taken from its first session, and the number of active sessions per directory."""
    homes: dict[int, tuple[datetime, str]] = {}
    counts: dict[str, int] = {}
    for session in store.sessions.list(limit=PAGE, include_expired=True).all():
        try:
            home, at, tree = session.cwd or UNKNOWN, session.created_at, row_of(session).tree
        except Corrupted:
            continue
        if (since is None or session.updated_at >= since) and (until is None or at < until):
            counts[home] = counts.get(home, 0) + 1
        if tree is not None and (tree not in homes or at < homes[tree][0]):
            homes[tree] = at, home
    return {tree: home for tree, (_, home) in homes.items()}, counts
