"""Search over all conversations, grouped by conversation; and inside one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import urlencode

from markupsafe import Markup

from clew.base.messages import ROLES, Role
from clew.errors import ClewError
from clew.exports.render.message import NAMES
from clew.store.search.query import Hit
from clew.store.session import Session
from clew.store.store import Store
from clew.web.listing import Filters, matches
from clew.web.views import ToolBadge, ago, is_failure, mark_matches, project_of, tool_of

MOST = 200
"""Matches that one search looks at."""
TYPED = 12
"""Matches while typing."""
EACH = 5
"""Matches of one conversation that are listed before the link to all of them."""
_KEYED = re.compile(r"(?<!\S)(tool|project|model|label|role|before|after):(\S+)")


class Asked(NamedTuple):
    """A query with its filters."""

    words: str
    role: str = ""
    errors: bool = False
    newest: bool = False
    filters: Filters = Filters()

    @classmethod
    def read(cls, query: Mapping[str, str]) -> Asked:
        """The query in a URL. ``tool:codex before:2026-05-01`` in the words are filters too."""
        typed = query.get("q", "")[:1000]
        inside: dict[str, str] = dict(_KEYED.findall(typed))
        renamed = {{"before": "until", "after": "since"}.get(name, name): value for name, value in inside.items()}
        both = {**query, **renamed}
        role = both.get("role", "")
        return cls(
            _KEYED.sub("", typed).strip(),
            role if role in ROLES else "",
            both.get("errors") == "1",
            both.get("sort") == "new",
            Filters.read({**both, "title": ""}),
        )

    def url(self, path: str = "/search", **change: str) -> str:
        """The URL of this search, with some values changed."""
        values = {
            **self.filters._asdict(), "q": self.words, "role": self.role, "errors": "1" if self.errors else "",
            "sort": "new" if self.newest else "", **change,
        }  # fmt: skip
        return f"{path}?{urlencode({name: value for name, value in values.items() if value})}"

    @property
    def chosen(self) -> dict[str, str]:
        """The filters that are set."""
        more = {"role": self.role, "errors": "1" if self.errors else ""}
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


class Results(NamedTuple):
    """What a search found."""

    groups: list[FoundConversation]
    found: int
    complete: bool
    """False if more than `MOST` messages matched."""


def find_all(store: Store, asked: Asked, now: datetime, *, typing: bool = False) -> Results:
    """Messages that match, by conversation; best first, or newest first."""
    if not asked.words:
        return Results([], 0, complete=True)
    words = _prefixed(asked.words) if typing else asked.words
    limit = TYPED if typing else MOST
    role: Role | None = asked.role or None  # type: ignore[assignment]
    hits = store.search(words, limit=limit, role=role, since=asked.filters.start(now), until=asked.filters.end())
    if asked.newest:
        hits.sort(key=lambda hit: hit.node.created_at, reverse=True)
    groups: dict[str, FoundConversation] = {}
    count = 0
    for hit in hits:
        session = _session(hit)
        if session is None or (asked.errors and not is_failure(hit.node)) or not _is_wanted(asked, session, now):
            continue
        count += 1
        group = groups.get(session.id)
        if group is None:
            group = groups[session.id] = FoundConversation(
                session.id, session.title or "Untitled", tool_of(session), project_of(session),
                ago(session.updated_at, now), [],
            )  # fmt: skip
        group.matches.append(match(hit))
    return Results(list(groups.values()), count, len(hits) < limit)


def find_here(store: Store, session: Session, words: str) -> list[Match]:
    """Messages of one conversation that match, in their order; also parts of words."""
    hits = store.search(_prefixed(words), limit=MOST, session=session)
    if not hits:
        hits = store.search(words, limit=MOST, session=session, mode="substring")
    return sorted((match(hit) for hit in hits), key=lambda one: one.number)


def match(hit: Hit) -> Match:
    """A hit as the page shows it."""
    node = hit.node
    words = mark_matches(hit.snippet, hit.marks)
    return Match(
        node.id,
        node.counters.messages,
        NAMES.get(node.role, node.role),
        words,
        hit.snippet,
        node.created_at.isoformat(),
    )


def results_value(results: Results) -> dict[str, Any]:
    """Results as JSON."""
    return {
        "count": results.found,
        "complete": results.complete,
        "conversations": [
            {
                "id": group.key, "title": group.title, "tool": group.tool.name, "project": group.project,
                "matches": [
                    {"id": one.node_id, "number": one.number, "role": one.who, "text": one.text, "html": str(one.words)}
                    for one in group.matches
                ],
            }
            for group in results.groups
        ],
    }  # fmt: skip


def _session(hit: Hit) -> Session | None:
    try:
        return hit.session
    except ClewError:
        return None


def _is_wanted(asked: Asked, session: Session, now: datetime) -> bool:
    only = asked.filters._replace(date="", since="", until="")
    return matches(only, session, now) and (not only.label or only.label in session.labels)


def _prefixed(words: str) -> str:
    """The query with its last word as a prefix, while it is being typed."""
    return words if not words or words[-1] in ' "*' else f"{words}*"
