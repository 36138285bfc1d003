"""A message that is stored: what was said, and its place in a tree."""

# No `from __future__ import annotations` here: the type of each field would be compiled by itself, at every start.
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

from clew.backends import BODY, FACTS, ID, MAX_SEQ, POS, NodeRow
from clew.base import codec, ids
from clew.base.messages import ROLES, AnyMessage, Message, Native, Role
from clew.engine.sealing.envelope import FACTS_SIZE, MISTYPED, NO_ID, Box, Facts, facts, node_place
from clew.errors import Corrupted, Invalid
from clew.providers.neutral import neutral

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC) - EPOCH, datetime.max.replace(tzinfo=UTC) - EPOCH


def moment(microseconds: int) -> datetime:
    """A stored time; exact, unlike `fromtimestamp`. Corrupted if it is none that could have been stored."""
    try:
        return EPOCH + timedelta(microseconds=microseconds)
    except (OverflowError, TypeError):
        raise Corrupted("a time", "there is no such time") from None


def microseconds(moment: datetime) -> int:
    """A time as it is stored. Invalid if it does not say its time zone."""
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise Invalid("a time must be a datetime with its time zone", hint="Use datetime.now(timezone.utc).")
    if not _FIRST <= (since := moment - EPOCH) <= _LAST:
        raise Invalid("in UTC this time is before the year 1 or after the year 9999")
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


class RunInfo(NamedTuple):
    """What the nodes of a run share."""

    tree: int
    depth: int
    """Depth of the run's first node."""
    carried: int
    wrapped_key: bytes | None
    box: Box
    """Opens their bodies."""


class Counters(NamedTuple):
    """Totals of a path, down to and with one node."""

    messages: int = 0
    """With those that compactions left behind."""
    turns: int = 0
    """Messages from the person."""
    tokens_in: int = 0
    tokens_out: int = 0
    cost: int = 0
    """In millionths of the currency's unit."""
    tokens_known: bool = True
    """False if some answer did not say its tokens: the totals are then lower bounds."""
    cost_known: bool = True

    @property
    def tokens(self) -> int:
        """Tokens in and out."""
        return self.tokens_in + self.tokens_out


class Handles(Protocol):
    """Where a node's short name comes from: the engine."""

    def node_handle(self, id: bytes) -> str:
        """The shortest beginning of an id, at least six letters, that no other node shares."""


class Node:
    """One stored message. It never changes; its content is read, and checked, when it is first asked for."""

    __slots__ = ("_handles", "_parent", "_row", "_run", "_said")

    def __init__(self, handles: Handles, run: RunInfo, parent: bytes | None, row: NodeRow) -> None:
        self._handles = handles
        self._run = run
        self._parent = parent
        self._row = row
        self._said: AnyMessage | None = None

    @property
    def id(self) -> str:
        """Its id, a UUID."""
        return ids.text(self._row[ID])

    @property
    def handle(self) -> str:
        """The short name people type for it: at least six letters, more if another node begins with the same."""
        return self._handles.node_handle(self._row[ID])

    @property
    def parent_id(self) -> str | None:
        """The id of the message it follows; None at a root."""
        return None if self._parent is None else ids.text(self._parent)

    @property
    def created_at(self) -> datetime:
        """When it was said, in UTC."""
        return moment(node_facts(self).created_at)

    @property
    def role(self) -> Role:
        """Who said it."""
        try:
            return ROLES[node_facts(self).role]
        except LookupError:
            raise Corrupted(f"node {self.id}", "it has no such role") from None

    @property
    def depth(self) -> int:
        """How many messages stand above it in its path."""
        try:
            return self._run.depth + (self._row[POS] & MAX_SEQ)
        except TypeError:
            raise Corrupted(f"node {self.id}", "its depth is not a number") from None

    @property
    def counters(self) -> Counters:
        """Totals of the path down to here."""
        facts = node_facts(self)
        try:
            messages = self._run.carried + self.depth + 1
        except TypeError:
            raise Corrupted(f"node {self.id}", "its totals are not numbers") from None
        return Counters(
            messages, facts.turns, facts.tokens_in, facts.tokens_out, facts.cost, not facts.gaps & 1, not facts.gaps & 2
        )

    @property
    def said(self) -> AnyMessage:
        """What was stored: a neutral message, or a native one. Corrupted if the bytes are not what was written."""
        said = self._said
        if said is None:
            body = node_payload(self)
            try:
                said = self._said = codec.decode(body, "")
            except Corrupted as error:  # only then is the id worth writing out
                raise Corrupted(f"node {self.id}", error.why) from None
        return said

    @property
    def message(self) -> Message:
        """The neutral view of what was said."""
        said = self._said or self.said
        return said if type(said) is Message else neutral(said)

    @property
    def native(self) -> Native | None:
        """The provider's own message, byte for byte; None if it was stored in neutral form."""
        said = self.said
        return said if isinstance(said, Native) else None

    @property
    def redactions(self) -> tuple[str, ...]:
        """The ids of the rules that found something in it when it was stored; `clew.redaction.annotation` says more."""
        note = (self.said.extra or {}).get("clew.redaction")
        return tuple(note.get("redactionRulesApplied", ())) if isinstance(note, dict) else ()

    @property
    def text(self) -> str:
        """Its words."""
        return self.message.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and self._row[ID] == other._row[ID]

    def __hash__(self) -> int:
        return hash(self._row[ID])

    def __repr__(self) -> str:
        # No content: a repr ends up in logs.
        return f"<Node {self.id} {self.role}>"


# -- for modules of clew: what a node is made of


def node_row(node: Node) -> NodeRow:
    """The row of a node."""
    return node._row


def run_info(node: Node) -> RunInfo:
    """What a node shares with the other nodes of its run."""
    return node._run


def parent_key(node: Node) -> bytes | None:
    """The id of the message that a node follows, as stored."""
    return node._parent


def node_facts(node: Node) -> Facts:
    """Time, role and totals of a node. Corrupted."""
    try:
        return facts(node._row[FACTS])
    except MISTYPED:
        raise Corrupted(f"node {node.id}", "its facts cannot be decoded") from None


def node_payload(node: Node) -> bytes:
    """The body of a node, decrypted and checked. Corrupted."""
    body = node._row[BODY]
    try:
        payload = node._run.box.open(body, body_context(node))
    except MISTYPED:
        payload = None
    if payload is None and body == b"":
        raise Corrupted(f"node {node.id}", "it is in quarantine")
    if payload is None:
        raise Corrupted(f"node {node.id}")
    return payload


def body_context(node: Node) -> bytes:
    """The place and the facts that a node's body is bound to. MISTYPED if the row is damaged."""
    pos, facts, id, _ = node._row
    tree, depth, _, _, _ = node._run
    if len(id) != 16 or len(node._parent or id) != 16 or len(facts) != FACTS_SIZE:  # packing would cut off the rest
        raise TypeError("its facts, its id, or that of the one above it, are too long or too short")
    return node_place(tree, id, node._parent or NO_ID, depth + (pos & MAX_SEQ)) + facts
