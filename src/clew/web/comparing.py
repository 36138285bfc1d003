"""Two paths of one tree side by side, from where they part."""

from __future__ import annotations

from itertools import zip_longest
from typing import NamedTuple

from markupsafe import Markup

from clew.base.messages import Usage
from clew.errors import Invalid
from clew.exports.render.message import Entry, Renderer, entry, money
from clew.store.session import Session
from clew.store.windows import number_of, window
from clew.web.views import many, snippet

SHOWN = 60
"""Messages of each side."""


class Side(NamedTuple):
    """One of the two paths after the fork."""

    title: str
    head: str
    total: int
    messages: int
    tokens: str
    cost: str
    articles: list[Markup]
    url: str


class Comparison(NamedTuple):
    """Two paths and the number of messages that both have."""

    common: int
    last: str
    a: Side
    b: Side
    pairs: list[tuple[Markup, Markup]]


def comparison(session: Session, a: str | None, b: str | None) -> Comparison:
    """The paths to two messages of the tree. Invalid if one is missing; NotFound."""
    a = a or session.head_id
    if a is None or b is None:
        raise Invalid("a comparison needs two branches", hint="Choose them beside a conversation.")
    common = _common(session, a, b)
    before = window(session, common, common, head=a).nodes if common else []
    sides = [_side(session, head, common) for head in (a, b)]
    pairs = list(zip_longest(sides[0].articles, sides[1].articles, fillvalue=Markup("")))
    return Comparison(common, snippet(before[0]) if before else "", sides[0], sides[1], pairs)


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


def _side(session: Session, head: str, common: int) -> Side:
    found = window(session, common + 1, common + SHOWN, head=head)
    entries = [entry(node) for node in found.nodes]
    renderer = Renderer(entries)
    articles = [Markup(html) for one in entries if (html := renderer.article(one))]
    title = snippet(entries[0].node, 60) if entries else "Nothing after the fork"
    tokens, cost = _usage_of(entries)
    url = f"/c/{session.id}?head={head}"
    return Side(title, head, found.total, found.total - common, tokens, cost, articles, url)


def _usage_of(entries: list[Entry]) -> tuple[str, str]:
    """Tokens and cost of the answers shown; unknown if one is unknown."""
    used = [one.message.usage or Usage() for one in entries if one.message and one.message.role == "assistant"]
    known = [one for one in used if one.input is not None and one.output is not None]
    tokens = f"{sum(one.input or 0 for one in known):,} in · {sum(one.output or 0 for one in known):,} out"
    costs = [one.cost for one in used if one.cost is not None]
    return (
        _say_known(tokens, len(known), len(used)),
        _say_known(money(sum(costs)), len(costs), len(used)),
    )


def _say_known(words: str, known: int, of: int) -> str:
    if known == of:
        return words
    unknown = f"unknown for {many(of - known, 'answer')}"
    return f"{words}, {unknown}" if known else unknown
