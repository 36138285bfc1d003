"""Two paths of one tree side by side, from where they part."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, NamedTuple
from urllib.parse import urlencode

from markupsafe import Markup

from clew.base.visible import many, plain
from clew.engine.node import Node
from clew.errors import Invalid
from clew.exports.render.message import Renderer
from clew.exports.to_markdown import markdown
from clew.providers.prices import Prices
from clew.providers.usage import usage_of
from clew.sources.registry import rules_for
from clew.store.session import Session
from clew.store.usage import Answers, UsageGroup, sum_of
from clew.store.windows import leaving, number_of, window
from clew.turns.derive import items
from clew.turns.model import Entry, entry
from clew.turns.words import money, short_model
from clew.web.conversation import hide_secrets, media_links
from clew.web.files import ChangedFile, changed_files
from clew.web.outline import url, window_start
from clew.web.site import Site
from clew.web.views import node_value, snippet

SHOWN = 60
"""Messages of each side."""


class Side(NamedTuple):
    """One of the two paths after the fork."""

    title: str
    head: str
    total: int
    messages: int
    model: str
    tokens: str
    cost: str
    files: list[ChangedFile]
    failed: int
    nodes: list[Node]
    articles: list[Markup]
    url: str
    rest: str
    """The URL of the first message that is not shown; empty if all are."""


class Choice(NamedTuple):
    """A path that can be compared."""

    head: str
    title: str


class Comparison(NamedTuple):
    """Two paths and the number of messages that both have."""

    common: int
    last: str
    common_url: str
    a: Side
    b: Side
    pairs: list[tuple[Markup, Markup]]
    choices: list[Choice]
    swapped: str


def comparison(site: Site, session: Session, a: str | None, b: str | None) -> Comparison:
    """The paths to two messages of the tree; by default the current one and the first other. Invalid; NotFound."""
    choices = _choices(site, session)
    a = a or session.head_id
    b = b or next((one.head for one in choices if one.head != a), None)
    if a is None or b is None:
        raise Invalid("the conversation has no other branch to compare")
    common = _common(session, a, b)
    before = window(session, common, common, head=a).nodes if common else []
    sides = [_side(site, session, head, common, choices) for head in (a, b)]
    pairs = list(zip_longest(sides[0].articles, sides[1].articles, fillvalue=Markup("")))
    last = snippet(before[0], site.secrets) if before else ""
    where = url(session, head=a, start=window_start(common), anchor=f"m{common}") if common else ""
    swapped = f"/c/{session.id}/compare?{urlencode({'a': b, 'b': a})}"
    return Comparison(common, last, where, sides[0], sides[1], pairs, choices, swapped)


def comparison_value(found: Comparison) -> dict[str, Any]:
    """A comparison as JSON."""
    return {
        "common": found.common,
        **{
            name: {"head": side.head, "messages": side.messages, "shown": [node_value(node) for node in side.nodes]}
            for name, side in (("a", found.a), ("b", found.b))
        },
    }


def comparison_lines(session: Session, found: Comparison) -> Iterator[str]:
    """A comparison as Markdown."""
    yield f"Common messages: {found.common}"
    for name, side in (("A", found.a), ("B", found.b)):
        yield from ("", f"# {name}: {plain(side.title)}, {many(side.messages, 'message')}", "")
        yield from markdown(None, side.nodes, of=session)


def _choices(site: Site, session: Session) -> list[Choice]:
    found = [Choice(session.head_id, "Current path")] if session.head_id is not None else []
    for one in leaving(session):
        title = site.secrets.in_line(one.session.title or "") if one.session is not None else ""
        found.append(Choice(one.head_id, title or snippet(one.first, site.secrets, 60) or "Branch"))
    return found


def _common(session: Session, a: str, b: str) -> int:
    """The number of the last message that both paths have, found by halving: paths part once."""
    low, high = 0, min(window(session, 1, 0, head=a).total, window(session, 1, 0, head=b).total)
    while low < high:
        middle = (low + high + 1) // 2
        node = window(session, middle, middle, head=a).nodes[0]
        if number_of(session, node.id, head=b) == middle:
            low = middle
        else:
            high = middle - 1
    return low


def _side(site: Site, session: Session, head: str, common: int, choices: list[Choice]) -> Side:
    found = window(session, common + 1, common + SHOWN, head=head)
    entries = [hide_secrets(site, entry(node)) for node in found.nodes]
    renderer = Renderer(media_links(session))
    shown = items(entries, rules_for(session), project=session.cwd or "")
    articles = [Markup(html) for item in shown if (html := renderer.article(item))]
    named = next((one.title for one in choices[1:] if one.head == head), "")
    title = named or (snippet(entries[0].node, site.secrets, 60) if entries else "Nothing after the fork")
    tokens, cost = _usage_of(entries, site.usage.prices)
    at = None if head == session.head_id else head
    upto = common + len(entries)
    rest = url(session, head=at, start=window_start(upto + 1), anchor=f"m{upto + 1}") if upto < found.total else ""
    failed = sum(result.is_error for one in entries for result in one.results)
    models = dict.fromkeys(one.message.model for one in entries if one.message and one.message.model)
    return Side(
        title, head, found.total, found.total - common, ", ".join(map(short_model, models)), tokens, cost,
        changed_files(entries, session.cwd), failed, found.nodes, articles,
        url(session, head=at, start=window_start(common + 1), anchor=f"m{common + 1}"), rest,
    )  # fmt: skip


def _usage_of(entries: list[Entry], prices: Prices) -> tuple[str, str]:
    """Tokens and cost of the answers shown, with the number of those for which they are unknown."""
    answers = Answers(prices)
    for one in entries:
        used = usage_of(one.node.said) if one.message is not None and one.message.role == "assistant" else None
        if used is not None:
            answers.add(used, UsageGroup(one.node.created_at.date().isoformat(), used.model))
    total = sum_of(answers.groups().values())
    tokens = f"{total.lanes.all_input:,} in · {total.lanes.output:,} out"
    return (
        _say_known(tokens, total.answers - total.uncounted, total.answers),
        _say_known(money(total.cost) if total.cost else "$0", total.answers - total.unpriced, total.answers),
    )


def _say_known(words: str, known: int, of: int) -> str:
    if known == of:
        return words
    unknown = f"unknown for {many(of - known, 'answer')}"
    return f"{words}, {unknown}" if known else unknown
