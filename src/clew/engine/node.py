"""A stored message and its place in a tree."""

# No `from __future__ import annotations` here: Python would compile the type of each field at every start.
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zlib import crc32

import msgspec

from clew.backends import BODY, FACTS, ID, MAX_SEQ, POS, BodyRow, NodeRow
from clew.base import codec, ids
from clew.base.messages import REDACTION, ROLES, AnyMessage, Message, Native, Role
from clew.engine.sealing.envelope import (
    FACTS_SIZE,
    MISTYPED,
    NO_ID,
    PLAIN_HEAD,
    Box,
    Facts,
    facts,
    node_place,
    plain_context,
    plain_head,
)
from clew.errors import Corrupted, Invalid
from clew.providers.neutral import neutral

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNREADABLE = (*MISTYPED, *codec.UNREADABLE)
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC) - EPOCH, datetime.max.replace(tzinfo=UTC) - EPOCH


def moment(microseconds: int) -> datetime:
    """A stored time; exact, unlike `fromtimestamp`. Corrupted if it is out of range."""
    try:
        return EPOCH + timedelta(microseconds=microseconds)
    except (OverflowError, TypeError):
        raise Corrupted("a time", "it is out of range") from None


def microseconds(moment: datetime) -> int:
    """A time as it is stored. Invalid if it has no time zone."""
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise Invalid("a time must be a datetime with a time zone", hint="Use datetime.now(timezone.utc).")
    if not _FIRST <= (since := moment - EPOCH) <= _LAST:
        raise Invalid("in UTC this time is before the year 1 or after the year 9999")
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


class RunInfo(NamedTuple):
    """The data that the nodes of a run share."""

    tree: int
    depth: int
    """Depth of the run's first node."""
    carried: int
    wrapped_key: bytes | None
    box: Box
    """Opens their bodies."""


class Counters(NamedTuple):
    """Totals of a path, up to and including one node."""

    messages: int = 0
    """Includes messages that a compaction replaced."""
    turns: int = 0
    """User messages."""
    tokens_in: int = 0
    tokens_out: int = 0
    cost: int = 0
    """In millionths of the currency's unit."""
    tokens_known: bool = True
    """False if the tokens of an answer are unknown: the totals are then lower bounds."""
    cost_known: bool = True

    @property
    def tokens(self) -> int:
        """Tokens in and out."""
        return self.tokens_in + self.tokens_out


Handle = Callable[[bytes], str]
"""Makes the handle of a node from its id: the engine's `node_handle`."""


class Node(msgspec.Struct, eq=False, gc=False):
    """One stored message. It never changes. Its content is decrypted and checked on first access."""

    # A Struct, because its constructor is not Python code: a path of 10,000 takes 10.9 ms instead of 13.2.
    _handle: Handle
    _run: RunInfo
    _parent: bytes | None
    _row: NodeRow
    _said: AnyMessage | None = None

    @property
    def id(self) -> str:
        """Its id, a UUID."""
        return ids.text(self._row[ID])

    @property
    def handle(self) -> str:
        """A short id to type: at least six letters, more if another node shares them."""
        return self._handle(self._row[ID])

    @property
    def parent_id(self) -> str | None:
        """The id of the message it follows; None at a root."""
        return None if self._parent is None else ids.text(self._parent)

    @property
    def created_at(self) -> datetime:
        """When it was created, in UTC."""
        return moment(node_facts(self).created_at)

    @property
    def role(self) -> Role:
        """Who wrote it."""
        try:
            return ROLES[node_facts(self).role]
        except LookupError:
            raise Corrupted(f"node {self.id}", "its role is unknown") from None

    @property
    def depth(self) -> int:
        """Number of messages before it on its path."""
        try:
            return self._run.depth + (self._row[POS] & MAX_SEQ)
        except TypeError:
            raise Corrupted(f"node {self.id}", "its depth is not a number") from None

    @property
    def counters(self) -> Counters:
        """Totals of the path up to and including this message."""
        facts = node_facts(self)
        try:
            messages = self._run.carried + self.depth + 1
        except TypeError:
            raise Corrupted(f"node {self.id}", "its totals are not numbers") from None
        return Counters(
            messages, facts.turns, facts.tokens_in, facts.tokens_out, facts.cost, not facts.gaps & 1, not facts.gaps & 2
        )

    @property
    def size(self) -> int:
        """Bytes of its content as stored; 0 if it is in quarantine."""
        body = self._row[BODY]
        return len(body) if isinstance(body, bytes) else 0  # a damaged row: reading it raises

    @property
    def stamp(self) -> int:
        """Equal as long as the stored bytes are the same: a redaction replaces them. Only within one process."""
        return hash(self._row[BODY])

    @property
    def said(self) -> AnyMessage:
        """The stored message, neutral or native. Corrupted if the bytes differ from what was written."""
        said = self._said
        if said is None:
            said = self._said = read_plain(self._run, self._parent, self._row) or _read(self)
        return said

    @property
    def message(self) -> Message:
        """The message in neutral form."""
        said = self._said
        if said is None:  # as in `said`: a call of that property would take a tenth of the whole
            said = self._said = read_plain(self._run, self._parent, self._row) or _read(self)
        return said if type(said) is Message else neutral(said)

    @property
    def native(self) -> Native | None:
        """The provider's own message, byte for byte; None if it was stored in neutral form."""
        said = self.said
        return said if isinstance(said, Native) else None

    @property
    def redactions(self) -> tuple[str, ...]:
        """Ids of the redaction rules that matched when it was stored. See `clew.redaction.annotation`."""
        return redacted_by(self.said)

    @property
    def text(self) -> str:
        """Its text."""
        return self.message.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and self._row[ID] == other._row[ID]

    def __hash__(self) -> int:
        return hash(self._row[ID])

    def __repr__(self) -> str:
        # No content: a repr ends up in logs.
        return f"<Node {self.id} {self.role}>"


# -- for modules of clew: the parts of a node


def read_plain(run: RunInfo, parent: bytes | None, row: NodeRow) -> Message | None:
    """The message of a row if it is intact and neutral, the common case, in one function. Otherwise None.

    It checks what `node_payload` and `codec.decode` check, and leaves everything else to them, errors included. Called
    one by one, these functions take a sixth more time for a path of 10,000 messages.
    """
    pos, facts, id, body = row
    tree, depth, _, _, box = run
    try:
        if len(id) != 16 or len(parent or id) != 16 or len(facts) != FACTS_SIZE:
            return None
        seed = box.seed
        if seed is None:
            payload = box.open(body, node_place(tree, id, parent or NO_ID, depth + (pos & MAX_SEQ)) + facts)
            return codec.decode_neutral(payload[1:]) if payload and payload[0] == codec.NEUTRAL else None
        json = body[PLAIN_HEAD:]
        bound = plain_context(tree, id, parent or NO_ID, depth + (pos & MAX_SEQ), facts, codec.NEUTRAL)
        if body[:PLAIN_HEAD] == plain_head(1, crc32(json, crc32(bound, seed)), codec.NEUTRAL):
            return codec.decode_neutral(json)
    except _UNREADABLE:
        pass
    return None


def read_bodies(
    handle: Handle, run: RunInfo, parent: bytes | None, first: int, rows: Iterable[BodyRow]
) -> list[Message]:
    """The messages of adjacent rows of a run. `read_plain` as one loop: a call for each takes a sixth more."""
    tree, depth, _, _, box = run
    seed, above, depth, tag = box.seed, parent or NO_ID, depth + (first & MAX_SEQ), codec.NEUTRAL
    found: list[Message] = []
    add, decode, bind, head, crc = found.append, codec.decode_neutral, plain_context, plain_head, crc32
    for stored, id, body in rows:
        try:
            if seed is not None and len(id) == 16 == len(above) and len(stored) == FACTS_SIZE:
                json = body[PLAIN_HEAD:]
                if body[:PLAIN_HEAD] == head(1, crc(json, crc(bind(tree, id, above, depth, stored, tag), seed)), tag):
                    add(decode(json))
                    above = id
                    depth += 1
                    continue
        except _UNREADABLE:
            pass
        add(Node(handle, run, None if above is NO_ID else above, (first + len(found), stored, id, body)).message)
        above = id
        depth += 1
    return found


def _read(node: Node) -> AnyMessage:
    """The message of a node. Corrupted."""
    body = node_payload(node)
    try:
        return codec.decode(body, "")
    except Corrupted as error:  # adds the id here, because formatting it for each message is slow
        raise Corrupted(f"node {node.id}", error.why) from None


def redacted_by(said: AnyMessage) -> tuple[str, ...]:
    """Ids of the redaction rules that matched in a message."""
    note = (said.extra or {}).get(REDACTION)
    return tuple(note.get("redactionRulesApplied", ())) if isinstance(note, dict) else ()


def is_clean_version(node: Node, said: AnyMessage) -> bool:
    """True if the stored message is a redacted version of this one."""
    return not {*node.redactions} <= {*redacted_by(said)}


def node_row(node: Node) -> NodeRow:
    """The row of a node."""
    return node._row


def run_info(node: Node) -> RunInfo:
    """The data that a node shares with the other nodes of its run."""
    return node._run


def parent_key(node: Node) -> bytes | None:
    """The id of a node's parent, as stored."""
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
    """The location and facts that a node's body is bound to. MISTYPED if the row is damaged."""
    pos, facts, id, _ = node._row
    tree, depth, _, _, _ = node._run
    if len(id) != 16 or len(node._parent or id) != 16 or len(facts) != FACTS_SIZE:  # packing would truncate
        raise TypeError("its facts, its id or its parent's id has the wrong length")
    return node_place(tree, id, node._parent or NO_ID, depth + (pos & MAX_SEQ)) + facts
