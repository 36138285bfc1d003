"""Tokens and cost: of the store by day, project and model, drawn as SVG; and of one conversation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, timedelta
from html import escape
from threading import Lock
from typing import Any, NamedTuple

from clew.base.visible import plain
from clew.providers.prices import Prices
from clew.store.session import Session
from clew.store.stats import Stats, stats
from clew.store.store import Store
from clew.store.usage import ConversationUsage, Spent, conversation_usage, sum_of
from clew.turns.words import money, price_origin

DAYS = 60
"""Days of the chart, up to the last one with an answer."""
MOST = 12
"""Projects and models that are shown, those that took most; the others are summed up."""
KEPT = 256
"""Conversations whose sums are kept."""
AT_ONCE = 1000
"""Messages that are counted while a page waits, in about 15 milliseconds; more are counted when asked for."""
_WIDTH, _HEIGHT, _FOOT, _NAME = 720, 160, 18, 200


class StoreUsage(NamedTuple):
    """The answers of a store, summed up."""

    total: Spent
    subagents: Spent
    days: dict[str, Spent]
    projects: dict[str, Spent]
    models: dict[str, Spent]
    prices: str

    @property
    def by_cost(self) -> bool:
        """True if the charts show cost, and not tokens: a cost is known."""
        return self.total.cost > 0


def usage(store: Store, prices: Prices) -> StoreUsage:
    """The usage of a whole store, with the days of this machine. Reads every message."""
    return summed(stats(store, zone=datetime.now().astimezone().tzinfo, prices=prices))


def summed(found: Stats) -> StoreUsage:
    """The sums of statistics."""
    total, traces = Spent(), Spent()
    days: dict[str, Spent] = {}
    projects: dict[str, Spent] = {}
    models: dict[str, Spent] = {}
    for group, spent in found.usage.items():
        total = total.plus(spent)
        if group.subagent:
            traces = traces.plus(spent)
        for table, name in ((days, group.day), (projects, group.project), (models, group.model)):
            table[name] = table.get(name, Spent()).plus(spent)
    return StoreUsage(total, traces, dict(sorted(days.items())), projects, models, found.prices)


def rows(table: dict[str, Spent], unnamed: str) -> list[tuple[str, Spent]]:
    """The names that took most, and the sum of the others."""
    order = sorted(table.items(), key=lambda row: (-row[1].cost, -row[1].lanes.total))
    found = [(name or unnamed, one) for name, one in order[:MOST]]
    rest = sum_of(one for _, one in order[MOST:])
    return [*found, (f"{len(order) - MOST} others", rest)] if len(order) > MOST else found


def chart_of_days(found: StoreUsage) -> str:
    """A bar for each of the last days, as SVG."""
    if not found.days:
        return ""
    last = date.fromisoformat(max(found.days))
    days = [(last - timedelta(days=ago)).isoformat() for ago in reversed(range(DAYS))]
    values = [_size(found.days.get(day, Spent()), found.by_cost) for day in days]
    most, step = max(values) or 1, _WIDTH / DAYS
    parts = []
    for number, (day, value) in enumerate(zip(days, values, strict=True)):
        if value:
            height = max(1.0, value * (_HEIGHT - 14) / most)
            told = f"<title>{day}: {escape(_in_words(found.days[day]))}</title>"
            place = f'x="{number * step + 1:.1f}" y="{_HEIGHT - height:.1f}"'
            parts.append(f'<rect {place} width="{step - 2:.1f}" height="{height:.1f}">{told}</rect>')
    labels = [f'<text x="0" y="{_HEIGHT + _FOOT - 4}">{days[0]}</text>',
              f'<text x="{_WIDTH}" y="{_HEIGHT + _FOOT - 4}" text-anchor="end">{days[-1]}</text>',
              f'<text x="0" y="10">{escape(_value(most, found.by_cost))}</text>']  # fmt: skip
    base = f'<path d="M0 {_HEIGHT}.5H{_WIDTH}"/>'
    return _svg(f"{'Cost' if found.by_cost else 'Tokens'} by day", _HEIGHT + _FOOT, [*parts, base, *labels])


def chart_of(title: str, table: list[tuple[str, Spent]], *, by_cost: bool) -> str:
    """A bar for each row of a table, as SVG."""
    most = max((_size(one, by_cost) for _, one in table), default=0) or 1
    parts = []
    for number, (name, one) in enumerate(table):
        top, value = number * 26, _size(one, by_cost)
        width = max(1.0, value * (_WIDTH - _NAME - 100) / most) if value else 0
        size = cost_of(one) if by_cost else _value(value, by_cost)
        told = f"<title>{escape(plain(name))}: {escape(_in_words(one))}</title>"
        label = plain(name) if len(name) <= 28 else f"…{plain(name)[-27:]}"
        parts += [
            f'<text x="{_NAME - 8}" y="{top + 17}" text-anchor="end">{told}{escape(label)}</text>',
            f'<rect x="{_NAME}" y="{top + 4}" width="{width:.1f}" height="18">{told}</rect>',
            f'<text x="{_NAME + width + 8:.1f}" y="{top + 17}">{escape(size)}</text>',
        ]
    return _svg(title, 26 * len(table), parts)


def _svg(title: str, height: int, parts: Iterable[str]) -> str:
    head = f'<svg class="chart" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title)}">'
    return f"{head}{''.join(parts)}</svg>"


def _size(one: Spent, by_cost: bool) -> float:
    return one.cost if by_cost else one.lanes.total


def _value(size: float, by_cost: bool) -> str:
    return money(size) if by_cost else f"{round(size):,} tokens"


def _in_words(one: Spent) -> str:
    cost = f", {cost_of(one)}" if one.cost else ""
    return f"{one.lanes.all_input:,} tokens in, {one.lanes.output:,} out{cost}"


def cost_of(one: Spent) -> str:
    """A cost in words: with a plus if a part of it is unknown."""
    if not one.cost:
        return "unknown" if one.unpriced else "$0"
    return money(one.cost) + ("+" if one.unpriced else "")


def value_of(one: Spent) -> dict[str, Any]:
    """Sums as JSON; the cost is in millionths of a dollar, and null if unknown."""
    cost = round(one.cost) if one.cost or not one.unpriced else None
    return {"answers": one.answers, **one.lanes._asdict(), "cost": cost, "cost_unknown": one.unpriced}


def usage_value(found: StoreUsage) -> dict[str, Any]:
    """The page as JSON."""
    tables = {"days": found.days, "projects": found.projects, "models": found.models}
    shown = {name: {key: value_of(one) for key, one in table.items()} for name, table in tables.items()}
    return {"total": value_of(found.total), "subagents": value_of(found.subagents), **shown, "prices": found.prices}


def usage_lines(found: StoreUsage) -> Iterator[str]:
    """The page as Markdown."""
    yield f"- total: {_in_words(found.total)}"
    for title, table in (("day", found.days), ("project", found.projects), ("model", found.models)):
        yield from ("", f"## By {title}", "")
        yield from (f"- {plain(name) or 'unknown'}: {_in_words(one)}" for name, one in table.items())


class UsageCache:
    """The sums of conversations, kept until they or their subagents change."""

    def __init__(self, prices: Prices) -> None:
        self.prices = prices
        self._known: dict[tuple[Any, ...], ConversationUsage] = {}
        self._lock = Lock()

    def facts(self, session: Session, traces: Sequence[Session], *, anyway: bool) -> dict[str, Any]:
        """What the page of a conversation shows: tokens and cost in words.

        Of a long conversation only the number of messages, until it is asked for `anyway`.
        """
        key = (session.id, session.version, *((one.id, one.version) for one in traces))
        with self._lock:
            found = self._known.get(key)
        if found is None:
            messages = sum(one.counters.messages for one in (session, *traces))
            if messages > AT_ONCE and not anyway:
                return {"uncounted": messages}
            found = conversation_usage(session, self.prices)
            with self._lock:
                while len(self._known) >= KEPT:
                    del self._known[next(iter(self._known))]
                self._known[key] = found
        total, lanes = found.total, found.total.lanes
        return {
            "answers": total.answers,
            "tokens_known": not total.uncounted and not found.damaged,
            "tokens_in": f"{lanes.all_input:,}",
            "lanes": [
                (name, f"{count:,}")
                for name, count in (("cached", lanes.cached), ("written", lanes.cache_write))
                if count
            ],
            "tokens_out": f"{lanes.output:,}",
            "reasoning": f"{lanes.reasoning:,}" if lanes.reasoning else "",
            "cost": cost_of(total) if total.answers else "",
            "origin": price_origin(total, found.priced_on or ""),
            "unpriced": total.unpriced,
            "unknown": sorted(plain(name) for name, one in found.models.items() if one.unpriced and name),
            "subagents": cost_of(sum_of(found.subagents.values())) if found.subagents and total.cost else "",
        }
