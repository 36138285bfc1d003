"""The tokens and the cost of answers, each counted once however many lines and copies of it are stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from clew.engine.node import Node
from clew.errors import Corrupted
from clew.providers.prices import Prices
from clew.providers.usage import AnswerUsage, Lanes, usage_of
from clew.store.nodes import Nodes
from clew.store.parts import Parts
from clew.store.session import Session

COST = "cost"
"""Key in a session's free data for the cost of the whole conversation, as its program noted it, in millionths."""


class UsageGroup(NamedTuple):
    """Where an answer belongs."""

    day: str
    """ISO 8601."""
    model: str
    """Empty if unknown."""
    project: str = ""
    tool: str = ""
    branch: str = ""
    subagent: bool = False


class Spent(NamedTuple):
    """What several answers took."""

    answers: int = 0
    lanes: Lanes = Lanes()
    noted: float = 0.0
    """The cost that programs noted, in millionths of a dollar."""
    own: float = 0.0
    """The cost of other answers at the user's own prices."""
    listed: float = 0.0
    """The cost of all others at list price."""
    unpriced: int = 0
    """Answers whose cost is unknown. If there are any, `cost` is a lower bound."""
    uncounted: int = 0
    """Answers whose tokens are unknown. If there are any, the tokens are lower bounds."""

    @property
    def cost(self) -> float:
        """In millionths of a dollar: as the programs noted it, else at the user's own prices or at list price."""
        return self.noted + self.own + self.listed

    def plus(self, other: Spent) -> Spent:
        """The sums of both."""
        answers, lanes, noted, own, listed, unpriced, uncounted = other
        return Spent(
            self.answers + answers, self.lanes.plus(lanes), self.noted + noted, self.own + own, self.listed + listed,
            self.unpriced + unpriced, self.uncounted + uncounted,
        )  # fmt: skip


def sum_of(parts: Iterable[Spent]) -> Spent:
    """The sums of all."""
    total = Spent()
    for one in parts:
        total = total.plus(one)
    return total


class Answers:
    """Counts answers. Those with an id of their provider are kept until the end, to find their other lines and copies.

    That takes about 400 bytes for each; all others are added to the sums at once.
    """

    def __init__(self, prices: Prices) -> None:
        self._prices = prices
        self._sums: dict[UsageGroup, Spent] = {}
        self._named: dict[int, tuple[UsageGroup, Lanes | None, int | None]] = {}

    def add(self, used: AnswerUsage, group: UsageGroup) -> None:
        """Adds an answer, or one line of it. The group is that of its first line."""
        if used.id is None:
            self._count(group, used.lanes, used.cost)
            return
        key = hash((used.id, used.model))
        before = self._named.get(key)
        if before is not None:
            group, lanes, cost = before
            used = used.joined(AnswerUsage(used.id, used.model, lanes, cost))
        self._named[key] = group, used.lanes, used.cost

    def groups(self) -> dict[UsageGroup, Spent]:
        """The sums so far, by group."""
        named, self._named = self._named, {}
        for group, lanes, cost in named.values():
            self._count(group, lanes, cost)
        return self._sums

    def _count(self, group: UsageGroup, lanes: Lanes | None, noted: int | None) -> None:
        one = Spent(1, lanes or Lanes(), uncounted=int(lanes is None))
        if noted is not None:
            one = one._replace(noted=float(noted))
        elif lanes is None or (cost := self._prices.cost(lanes, group.model, group.day)) is None:
            one = one._replace(unpriced=1)
        else:
            one = one._replace(own=cost) if self._prices.is_own(group.model) else one._replace(listed=cost)
        before = self._sums.get(group)
        self._sums[group] = one if before is None else before.plus(one)


class ConversationUsage(NamedTuple):
    """What a conversation took, with its subagents."""

    own: Spent
    """Without its subagents."""
    subagents: dict[str, Spent]
    """For each subagent, by the id of its trace, what it took without its own subagents."""
    total: Spent
    """Everything, each answer once. Its cost is the one that the program noted for all of it, if it did."""
    models: dict[str, Spent]
    """The answers by model; "" for those without one."""
    priced_on: str | None
    """The day of the list prices in `total`; None if they are not needed."""
    is_noted_whole: bool
    """True if the program noted one cost for all of it, which is that of `total`."""
    damaged: int
    """Messages that cannot be read. They are not counted."""


def conversation_usage(session: Session, prices: Prices | None = None) -> ConversationUsage:
    """The tokens and the cost of a conversation: of its messages, of its branches, and of its subagents.

    An answer counts once, in the part where it was found first. `prices` are a user's own and the list; without them
    the list alone.
    """
    prices = prices or Prices()
    answers, left, damaged = Answers(prices), [session], set[Node]()
    while left:
        part = left.pop(0)
        name = "" if part is session else part.id
        for node in _nodes(part):
            try:
                used = usage_of(node.said) if node.role == "assistant" else None
            except Corrupted:
                damaged.add(node)
                continue
            if used is not None:
                answers.add(used, UsageGroup(node.created_at.date().isoformat(), used.model, name))
        left += part.subagents()
    total, parts, models = Spent(), {"": Spent()}, dict[str, Spent]()
    for group, spent in answers.groups().items():
        total = total.plus(spent)
        parts[group.project] = parts.get(group.project, Spent()).plus(spent)
        models[group.model] = models.get(group.model, Spent()).plus(spent)
    noted = (session.extra or {}).get(COST)
    is_noted_whole = type(noted) is int
    if type(noted) is int:
        total = total._replace(noted=float(noted), own=0.0, listed=0.0, unpriced=0)
    return ConversationUsage(
        parts.pop(""), parts, total, models, prices.date if total.listed else None, is_noted_whole, len(damaged)
    )


def _nodes(session: Session) -> Iterator[Node]:
    """The messages of a session, then those that only its branches have."""
    branches, nodes_of = session.branches(), Nodes(Parts.of(session)).path
    seen = set[str]()
    for node in session.history():
        if branches:
            seen.add(node.id)
        yield node
    for branch in branches:
        size = 32
        while True:
            nodes = nodes_of(branch.head_id, last=size)
            if len(nodes) < size or nodes[0].id in seen:
                break
            size *= 4
        yield from (node for node in nodes if node.id not in seen)
        seen.update(node.id for node in nodes)
