"""What is in a store, counted: by model, day, project, tool and git branch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, tzinfo
from typing import NamedTuple

from clew.engine.node import Node, run_info
from clew.errors import Corrupted
from clew.store.origin import origin_of
from clew.store.session import Session, row_of
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
    by_tool: dict[str, Tally]
    """Messages by the tool that their conversation was imported from; "" for those of clew itself."""
    by_branch: dict[str, Tally]
    """Messages by the git branch of their conversation, if it has one."""
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
    keep: Callable[[Session], bool] | None = None,
    progress: Progress | None = None,
) -> Stats:
    """Counts the messages from `since` up to `until`, and the sessions active in that time.

    What is in the trash is not counted. Days are those of `zone`, or UTC. With `keep`, only sessions for which it is
    true, and the messages of trees that began with one of them. Reads every message once.
    """
    homes, sessions = _homes(store, since, until, keep)
    total, unknown, damaged, seen = Tally(), 0, 0, 0
    models: dict[str, Tally] = {}
    days: dict[str, Tally] = {}
    projects, tools, branches = ({name: Tally(sessions=n) for name, n in one.items()} for one in sessions)
    for page in store.nodes.list(limit=PAGE, ascending=True, trashed=False).pages():
        for node in page.items:
            if (since is not None and node.created_at < since) or (until is not None and node.created_at >= until):
                continue
            home = homes.get(run_info(node).tree)
            if home is None and keep is not None:
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
            project, tool, branch = (UNKNOWN, UNKNOWN, UNKNOWN) if home is None else home
            projects[project] = projects.get(project, Tally()).plus(one)
            tools[tool] = tools.get(tool, Tally()).plus(one)
            branches[branch] = branches.get(branch, Tally()).plus(one)
        seen += len(page.items)
        if progress is not None:
            progress(seen, 0)
    everything = total.plus(Tally(sessions=sum(sessions[0].values())))
    branches.pop(UNKNOWN, None)
    return Stats(everything, models, dict(sorted(days.items())), projects, tools, branches, unknown, damaged)


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


class _Home(NamedTuple):
    project: str
    tool: str
    branch: str


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
            for table, name in zip(counts, home, strict=True):
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
                found[tree] = home
    return found, counts


def _home(session: Session) -> _Home:
    origin = origin_of(session)
    return _Home(session.cwd or UNKNOWN, origin.tool, origin.branch)
