"""The list of conversations: filters from the URL, a page by keyset, and counts for each filter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlencode

from clew.engine.node import Counters
from clew.errors import ClewError, Corrupted
from clew.sources.registry import rules_for
from clew.store.origin import origin_of
from clew.store.session import Session
from clew.store.store import Store
from clew.store.summaries import briefs
from clew.turns.words import short_models
from clew.web.secrets import SecretFinder
from clew.web.views import PINNED, ToolBadge, ago, day, project_of, snippet, tool, tool_of

PAGE = 50
FACETED = 2_000
"""Conversations, newest first, that the counts beside the filters cover."""
SCANNED = 10_000
"""Conversations that one request looks at to fill a page; the next page continues there."""
STEP = 200
SHOWN = 40
"""Values of a filter that are listed, the most frequent ones."""
_SPANS = {"today": 1, "7d": 7, "30d": 30}
NO_PROJECT = "none"


class Filters(NamedTuple):
    """What a list is limited to; empty means everything."""

    tool: str = ""
    project: str = ""
    model: str = ""
    label: str = ""
    date: str = ""
    since: str = ""
    until: str = ""
    title: str = ""

    @classmethod
    def read(cls, query: Mapping[str, str]) -> Filters:
        """The filters in a query string; unknown names are ignored."""
        return cls(**{name: query.get(name, "")[:200] for name in cls._fields})

    def url(self, path: str = "/", **change: str) -> str:
        """The URL of the list with these filters, and some changed."""
        values = {**self._asdict(), **change}
        chosen = {name: value for name, value in values.items() if value}
        return f"{path}?{urlencode(chosen)}" if chosen else path

    @property
    def chosen(self) -> dict[str, str]:
        """The filters that are set."""
        return {name: value for name, value in self._asdict().items() if value}

    def start(self, now: datetime) -> datetime | None:
        """The earliest time of activity."""
        if self.date in _SPANS:
            midnight = now.astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
            return midnight - timedelta(days=_SPANS[self.date] - 1)
        return day_of(self.since)

    def end(self) -> datetime | None:
        """The time before which the activity was."""
        return day_of(self.until, timedelta(days=1))

    def match(self, session: Session, now: datetime) -> bool:
        """True if a session is to be listed. Corrupted."""
        start, end = self.start(now), self.end()
        return (
            (not self.tool or tool_of(session).name == self.tool)
            and (not self.project or (project_of(session) or NO_PROJECT) == self.project)
            and (not self.model or session.model == self.model)
            and (start is None or session.updated_at >= start)
            and (end is None or session.updated_at < end)
        )


class Row(NamedTuple):
    """One line of the list."""

    session: Session | None
    key: str
    title: str
    tool: ToolBadge
    project: str
    branch: str
    model: str
    labels: tuple[str, ...]
    messages: int
    preview: str
    fork: bool
    day: str
    when: str
    moment: str
    damaged: str = ""


class Facet(NamedTuple):
    """One filter with its most frequent values."""

    name: str
    title: str
    values: list[tuple[str, str, int]]
    """Value, words for it, count."""


class Listing(NamedTuple):
    """One page of the list."""

    rows: list[Row]
    pinned: list[Row]
    facets: list[Facet]
    total: int | None
    """The number of all conversations, if no filter is set."""
    counted: int
    """How many conversations the counts cover."""
    next: str | None


def titled(store: Store, title: str, now: datetime, finder: SecretFinder) -> list[Row]:
    """Conversations whose title contains these words, among the newest: fast enough for results while typing."""
    wanted, found = title.casefold(), []
    for session in _newest(store, SCANNED):
        with suppress(Corrupted):
            if session.head_id is not None and wanted in (session.title or "").casefold():
                found.append(session)
        if len(found) == SHOWN:
            break
    return rows(store, found, now, finder)


def listing(store: Store, filters: Filters, cursor: str | None, now: datetime, finder: SecretFinder) -> Listing:
    """A page of conversations. Invalid if the cursor is not one of this list."""
    found: list[Session] = []
    seen, following = 0, cursor
    first = True
    while (first or following) and len(found) < PAGE and seen < SCANNED:
        first = False
        page = store.sessions.list(
            limit=STEP if filters.chosen else PAGE,
            cursor=following,
            label=filters.label or None,
            title=filters.title or None,
        )
        seen += len(page.items)
        found += [one for one in page.items if one.head_id is not None and matches(filters, one, now)]
        following = page.next_cursor
    plain = not filters.chosen
    top = store.sessions.list(limit=PAGE, label=PINNED).items if plain and cursor is None else []
    found = [one for one in found if one not in top]
    facets, counted, empty = _facets(store, now)
    total = (store.sessions.list(limit=1, total=True).total or 0) - empty if plain else None
    return Listing(rows(store, found, now, finder), rows(store, top, now, finder), facets, total, counted, following)


def rows(store: Store, sessions: list[Session], now: datetime, finder: SecretFinder) -> list[Row]:
    """Lines for these sessions."""
    return [_row(store, one, None if brief is None else brief.counters, now, finder) for one, brief in
            zip(sessions, briefs(sessions), strict=True)]  # fmt: skip


def _row(store: Store, session: Session, counters: Counters | None, now: datetime, finder: SecretFinder) -> Row:
    try:
        head = session.head_id
        last = store.nodes.get(head)[0] if head is not None else None
        updated = session.updated_at
        return Row(
            session, session.id, session.title or "Untitled", tool_of(session), project_of(session),
            origin_of(session).branch, session.model or "", tuple(label for label in session.labels if label != PINNED),
            (counters or session.counters).messages, "No messages" if last is None
            else snippet(last, finder, rules=rules_for(session)),
            session.forked_from is not None, day(updated, now), ago(updated, now), updated.isoformat(),
        )  # fmt: skip
    except ClewError as error:
        key = getattr(session, "id", "")
        return Row(None, key, "Damaged conversation", tool("clew"), "", "", "", (), 0, "", False, "Damaged", "", "",
                   error.message)  # fmt: skip


def matches(filters: Filters, session: Session, now: datetime) -> bool:
    """`Filters.match`; a damaged session is listed unless a filter is set."""
    try:
        return filters.match(session, now)
    except Corrupted:
        return not filters.chosen


def _facets(store: Store, now: datetime) -> tuple[list[Facet], int, int]:
    """The filters with counts, the number of counted conversations, and of those without messages among them."""
    tools: Counter[str] = Counter()
    projects: Counter[str] = Counter()
    models: Counter[str] = Counter()
    labels: Counter[str] = Counter()
    moments: list[datetime] = []
    starts = {name: Filters(date=name).start(now) for name in _SPANS}
    counted = empty = 0
    for session in _newest(store, FACETED):
        if session.head_id is None:  # not listed
            empty += 1
            continue
        try:
            updated = session.updated_at
            tools[tool_of(session).name] += 1
        except ClewError:
            continue
        counted += 1
        projects[project_of(session) or NO_PROJECT] += 1
        models[session.model or ""] += 1
        if session.labels:
            labels.update(session.labels)
        moments.append(updated)
    del models[""], labels[PINNED]
    dates = {name: sum(one >= start for one in moments) for name, start in starts.items() if start is not None}
    names = short_models(models)
    return [
        Facet("tool", "Tool", [(name, tool(name).title, count) for name, count in tools.most_common(SHOWN)]),
        Facet("project", "Project", [(name, "No project" if name == NO_PROJECT else name, count)
                                     for name, count in projects.most_common(SHOWN)]),
        Facet("model", "Model", [(name, names[name], count) for name, count in models.most_common(SHOWN)]),
        Facet("label", "Label", _same(labels.most_common(SHOWN))),
        Facet("date", "Date", [(name, words, dates[name]) for name, words in
                               (("today", "Today"), ("7d", "Last 7 days"), ("30d", "Last 30 days"))]),
    ], counted, empty  # fmt: skip


def _newest(store: Store, most: int) -> Iterator[Session]:
    seen = 0
    for page in store.sessions.list(limit=500).pages():
        yield from page.items
        seen += len(page.items)
        if seen >= most:
            return


def _same(counts: Iterable[tuple[str, int]]) -> list[tuple[str, str, int]]:
    return [(name, name, count) for name, count in counts]


def day_of(text: str, more: timedelta = timedelta(0)) -> datetime | None:
    """The beginning of a day written as 2026-05-14, or `more` after it; None if the text is not a day."""
    if not text:  # called for every conversation of a list
        return None
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).astimezone() + more
    except (ValueError, OverflowError):
        return None


def row_value(row: Row) -> dict[str, Any]:
    """A line as JSON."""
    return {
        "id": row.key, "title": row.title, "tool": row.tool.name, "project": row.project, "branch": row.branch,
        "model": row.model, "labels": row.labels, "messages": row.messages, "updated_at": row.moment,
        "preview": row.preview, "damaged": row.damaged or None,
    }  # fmt: skip
