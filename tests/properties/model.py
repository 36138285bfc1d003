"""What a store should hold, as plain dicts and lists: slow, obvious, and without a database."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from clew.engine.node import Counters


@dataclass
class AnyMessage:
    """A node: what it says, where it stands, and what its path adds up to."""

    text: str
    parent: str | None
    derived: str | None
    counters: Counters
    saved: bool = False
    """Saved by id: nothing but deleting it by id takes it away."""


@dataclass
class Talk:
    """A session."""

    head: str | None
    title: str | None
    cwd: str | None
    labels: set[str] = field(default_factory=set)
    branches: list[str] = field(default_factory=list)
    """Heads of what it left behind, oldest first."""
    trashed: bool = False
    held: bool = False

    @property
    def heads(self) -> list[str]:
        return [head for head in (self.head, *self.branches) if head is not None]


class Model:
    """Nodes by id in the order they came, sessions by id, and the order in which sessions are listed."""

    def __init__(self) -> None:
        self.nodes: dict[str, AnyMessage] = {}
        self.talks: dict[str, Talk] = {}
        self.recent: list[str] = []
        """Ids of the sessions that are not in the trash, last active first."""

    # -- reading

    def path(self, node: str | None) -> list[str]:
        found: list[str] = []
        while node is not None:
            found.append(node)
            node = self.nodes[node].parent
        return found[::-1]

    def history(self, node: str | None) -> list[str]:
        found: list[str] = []
        while node is not None:
            found.append(node)
            at = self.nodes[node]
            node = at.derived if at.parent is None else at.parent
        return found[::-1]

    def children(self, node: str) -> list[str]:
        return [one for one, said in self.nodes.items() if said.parent == node]

    def subtree(self, node: str) -> set[str]:
        found = [node]
        for one in found:
            found.extend(self.children(one))
        return set(found)

    def counters(self, node: str | None) -> Counters:
        return Counters() if node is None else self.nodes[node].counters

    def reached(self, talks: Iterable[Talk]) -> set[str]:
        """Everything that sessions have on their paths, or left behind."""
        return {node for talk in talks for head in talk.heads for node in self.history(head)}

    def in_sight(self) -> set[str]:
        """All nodes but those that only the trash needs."""
        live = self.reached(talk for talk in self.talks.values() if not talk.trashed)
        return live.union(*(self.history(id) for id, said in self.nodes.items() if said.saved))

    # -- growing

    def add(
        self, id: str, text: str, role: str, parent: str | None, *, derived: str | None = None, saved: bool = False
    ) -> None:
        before = self.counters(parent if derived is None else derived)
        tokens = len(text) if role == "assistant" else 0
        counters = before._replace(
            messages=before.messages + 1,
            turns=before.turns + (role == "user"),
            tokens_in=before.tokens_in + tokens,
            tokens_out=before.tokens_out + 2 * tokens,
            cost=before.cost + 3 * tokens,
        )
        self.nodes[id] = AnyMessage(text, parent, derived, counters, saved)

    def touch(self, talk: str) -> None:
        if talk in self.recent:
            self.recent.remove(talk)
        self.recent.insert(0, talk)

    # -- deleting

    def needed(self, node: str) -> bool:
        """True while it has a child, a head, a branch, a compaction that stands for it, or was saved."""
        return (
            self.nodes[node].saved
            or any(node in (said.parent, said.derived) for said in self.nodes.values())
            or any(node == talk.head or node in talk.branches for talk in self.talks.values())
        )

    def delete_talk(self, id: str) -> int:
        talk = self.talks.pop(id)
        self.recent.remove(id)
        return self.prune(talk.heads)

    def prune(self, heads: list[str]) -> int:
        """Walks up from each, as far as nobody needs what is there."""
        before = len(self.nodes)
        while heads:
            node = heads.pop()
            if node in self.nodes and not self.needed(node):
                gone = self.nodes.pop(node)
                heads += [above for above in (gone.parent, gone.derived) if above is not None]
        return before - len(self.nodes)

    def delete_nodes(self, going: set[str]) -> list[str]:
        """Deletes these nodes, and what a session that is gone left only for them; returns the listed that moved."""

        def above(node: str | None) -> str | None:
            while node in going:
                at = self.nodes[node]
                node = at.derived if at.parent is None else at.parent
            return node

        moved = [id for id, talk in self.talks.items() if talk.head in going and not talk.trashed]
        for talk in self.talks.values():
            talk.head = above(talk.head)
            lifted = [above(branch) for branch in talk.branches]
            talk.branches = [branch for branch in lifted if branch is not None]
        for said in self.nodes.values():
            said.derived = above(said.derived)
        tops = [above(node) for node in going]
        for node in going:
            del self.nodes[node]
        self.prune([top for top in tops if top is not None])
        return moved
