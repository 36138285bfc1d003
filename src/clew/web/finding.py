"""Search over all conversations, grouped by conversation; and inside one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import urlencode

from markupsafe import Markup

from clew.base.messages import ROLES, Role, Thinking
from clew.engine.node import Node
from clew.errors import ClewError, Corrupted
from clew.exports.render.message import NAMES
from clew.sources.registry import is_machine_match
from clew.store.search.index import Progress, searchable
from clew.store.search.query import Hit
from clew.store.session import Session
from clew.store.store import Store, store_of
from clew.store.windows import window
from clew.web.listing import Filters, matches
from clew.web.secrets import SecretFinder
from clew.web.views import ToolBadge, ago, is_failure, mark_matches, project_of, tool_of

MOST = 200
"""Matches that one search looks at."""
TYPED = 12
"""Matches while typing."""
EACH = 5
"""Matches of one conversation that are listed before the link to all of them."""
SCANNED = 4_000
"""Matches that a search with filters looks at to fill a page: the index knows only words, roles and times."""
THINKING = 20_000
"""Messages of a conversation, the newest ones, whose thinking is searched. The index does not have it."""
STEP = 1_000
"""Messages that are read at a time."""
AROUND = 60
"""Characters shown on each side of a match that was found by reading."""
_KEYED = re.compile(r'(?<!\S)(tool|project|model|label|role|date|before|after|is):("[^"]*"|\S+)')
_RENAMED = {"before": "until", "after": "since"}


class Asked(NamedTuple):
    """A query with its filters."""

    words: str
    role: str = ""
    errors: bool = False
    newest: bool = False
    filters: Filters = Filters()
    notes: bool = False
    """Whether to find also what programs wrote in the user's name."""

    @classmethod
    def read(cls, query: Mapping[str, str]) -> Asked:
        """The query in a URL. ``tool:codex is:error before:2026-05-01`` in the words are filters too."""
        typed = query.get("q", "")[:1000]
        inside = {_RENAMED.get(name, name): value.strip('"') for name, value in _KEYED.findall(typed)}
        both = {**query, **inside}
        if inside.get("is") in ("error", "failed"):
            both["errors"] = "1"
        if inside.get("is") in ("note", "notes"):
            both["notes"] = "1"
        role = {"you": "user", "tool-result": "tool"}.get(both.get("role", ""), both.get("role", ""))
        return cls(
            _KEYED.sub("", typed).strip(),
            role if role in ROLES else "",
            both.get("errors") == "1",
            both.get("sort") == "new",
            Filters.read({**both, "title": ""}),
            both.get("notes") == "1",
        )

    def url(self, path: str = "/search", **change: str) -> str:
        """The URL of this search, with some values changed."""
        values = {
            **self.filters._asdict(), "q": self.words, "role": self.role, "errors": "1" if self.errors else "",
            "sort": "new" if self.newest else "", "notes": "1" if self.notes else "", **change,
        }  # fmt: skip
        return f"{path}?{urlencode({name: value for name, value in values.items() if value})}"

    @property
    def bare(self) -> str:
        """The URL of this search without filters."""
        return f"/search?{urlencode({'q': self.words})}"

    @property
    def chosen(self) -> dict[str, str]:
        """The filters that are set."""
        more = {"role": self.role, "errors": "1" if self.errors else "", "notes": "1" if self.notes else ""}
        return {**self.filters.chosen, **{name: value for name, value in more.items() if value}}


class Match(NamedTuple):
    """A message that matched."""

    node_id: str
    number: int
    who: str
    words: Markup
    text: str
    moment: str


class FoundConversation(NamedTuple):
    """The matches of one conversation."""

    key: str
    title: str
    tool: ToolBadge
    project: str
    when: str
    matches: list[Match]


_Found = tuple[Hit, Session]


class Results(NamedTuple):
    """What a search found."""

    groups: list[FoundConversation]
    found: int
    complete: bool
    """False if more than `MOST` messages matched."""


def find_all(
    store: Store, asked: Asked, now: datetime, finder: SecretFinder, progress: Progress, *, typing: bool = False
) -> Results:
    """Messages that match, by conversation; best first, or newest first. While typing, newest first: it is faster."""
    if not asked.words:
        return Results([], 0, complete=True)
    hits, complete = _filter_hits(store, asked, now, progress, typing=typing)
    groups: dict[str, FoundConversation] = {}
    for hit, session in hits:
        group = groups.get(session.id)
        if group is None:
            group = groups[session.id] = FoundConversation(
                session.id, session.title or "Untitled", tool_of(session), project_of(session),
                ago(session.updated_at, now), [],
            )  # fmt: skip
        group.matches.append(match(hit, finder))
    return Results(list(groups.values()), len(hits), complete)


def _filter_hits(
    store: Store, asked: Asked, now: datetime, progress: Progress, *, typing: bool
) -> tuple[list[_Found], bool]:
    """The matches that pass the filters, as many as are shown; and whether these are all."""
    wanted, most = (TYPED, SCANNED // 2) if typing else (MOST, SCANNED)
    words = _prefixed(asked.words) if typing else asked.words
    role: Role | None = asked.role or None  # type: ignore[assignment]
    only = asked.filters._replace(date="", since="", until="")
    start, end = asked.filters.start(now), asked.filters.end()
    limit = wanted if asked.chosen.keys() <= {"role", "date", "since", "until", "notes"} else wanted * 8
    passing: dict[str, bool] = {}
    while True:
        hits = store.search(
            words, limit=limit, role=role, since=start, until=end, newest=typing or asked.newest, progress=progress
        )
        found: list[_Found] = []
        for hit in hits:
            session = _session(hit)
            if session is None or (asked.errors and not is_failure(hit.node)):
                continue
            if not asked.notes and is_machine_match(hit, session):
                continue
            if session.id not in passing:
                passing[session.id] = _passes(only, session, now)
            if passing[session.id]:
                found.append((hit, session))
        complete = len(hits) < limit and len(found) <= wanted
        if complete or len(found) >= wanted or limit >= most:
            return found[:wanted], complete
        limit = min(limit * 8, most)


def find_here(
    session: Session, words: str, finder: SecretFinder, progress: Progress, *, typing: bool = False
) -> list[Match]:
    """Messages of one conversation that match, in their order: also folded parts, and parts of words.

    The index has neither thinking nor parts of words: for these the messages are read, while typing only the newest.
    """
    hits = store_of(session).search(_prefixed(words), limit=MOST, session=session, progress=progress)
    total = window(session, 1, 0).total
    most = THINKING // 5 if typing else THINKING if hits else total
    read = _scan(session, words, finder, progress, range(max(1, total - most + 1), total + 1, STEP), whole=not hits)
    return sorted([*(match(hit, finder) for hit in hits), *islice(read, MOST)], key=lambda one: one.number)[:MOST]


def _scan(
    session: Session, words: str, finder: SecretFinder, progress: Progress, starts: range, *, whole: bool
) -> Iterator[Match]:
    """Messages with the exact words in their thinking; with `whole`, also those with the words elsewhere."""
    pattern = re.compile(re.escape(words.strip().strip('"*')), re.IGNORECASE)
    for start in starts:
        for node in window(session, start, min(start + STEP, starts.stop) - 1).nodes:
            try:
                message = node.message
            except Corrupted:
                continue
            thinking = "\n".join(block.text for block in message.blocks if isinstance(block, Thinking))
            texts = [("Thinking", thinking), (NAMES.get(node.role, node.role), searchable(message) if whole else "")]
            for who, text in texts:
                if text and (one := pattern.search(text)):
                    low, high = max(0, one.start() - AROUND), one.end() + AROUND
                    part = f"{'…' * (low > 0)}{text[low:high]}{'…' * (high < len(text))}"
                    marks = [other.span() for other in pattern.finditer(part)]
                    yield _match(node, who, mark_matches(part, marks, finder.in_snippet(part, text)), part)
                    break
        progress(start, starts.stop)


def match(hit: Hit, finder: SecretFinder) -> Match:
    """A hit as the page shows it."""
    node = hit.node
    try:
        whole = searchable(node.message)
    except Corrupted:
        whole = hit.snippet
    shown = mark_matches(hit.snippet, hit.marks, finder.in_snippet(hit.snippet, whole))
    return _match(node, NAMES.get(node.role, node.role), shown, hit.snippet)


def _match(node: Node, who: str, words: Markup, text: str) -> Match:
    return Match(node.id, node.counters.messages, who, words, text, node.created_at.isoformat())


def results_value(results: Results, write: Callable[[str], str]) -> dict[str, Any]:
    """Results as JSON. `write` renders names, which may have hidden characters."""
    return {
        "count": results.found,
        "complete": results.complete,
        "conversations": [
            {
                "id": group.key, "title": write(group.title), "tool": group.tool.name, "project": write(group.project),
                "badge": group.tool.badge, "hue": group.tool.hue, "when": group.when,
                "matches": list(map(match_value, group.matches)),
            }
            for group in results.groups
        ],
    }  # fmt: skip


def match_value(one: Match) -> dict[str, Any]:
    """A match as JSON."""
    return {"id": one.node_id, "number": one.number, "role": one.who, "text": one.text, "html": str(one.words)}


def _session(hit: Hit) -> Session | None:
    """The session of a match; None if there is none, or if the sessions of its tree are damaged."""
    try:
        return hit.session
    except ClewError:
        return None


def _passes(only: Filters, session: Session, now: datetime) -> bool:
    return matches(only, session, now) and (not only.label or only.label in session.labels)


def _prefixed(words: str) -> str:
    """The query with its last word as a prefix, while it is being typed."""
    return words if not words or words[-1] in ' "*' else f"{words}*"
