"""What rows mean: ids, clock, envelopes, and how a tree grows. Everything that is stored passes through here."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from clew import codec, ids
from clew.backends import ID, MAX_SEQ, POS, SEQ_BITS, Backend, Ground, NodeRow, Place, RunRow, Tx
from clew.codec import Encoded
from clew.envelope import MISTYPED, NO_BOX, NO_ID, Plain, Seal, node_place, pack_facts, run_fields, run_owner, totals
from clew.errors import ClewError, Conflict, Invalid, NotFound, Sealed, Tampered, WrongKey, clip
from clew.ids import IdSource
from clew.loading import loading
from clew.model import ROLES, Said
from clew.node import Node, Stretch
from clew.undoing import Undoing

if TYPE_CHECKING:
    from clew.header import Secrets
    from clew.keys import Key
    from clew.objects import Bucket
    from clew.redaction import Rules
    from clew.sealed import SealedSeal

Clock = Callable[[], int]

MAX_BODY = 64 * 1024 * 1024
"""Bytes of one message at most, unless the store is opened with another limit. Larger things are blobs."""

_EXCHANGED = "The key was exchanged since the store was opened; nothing is lost. Open it again, with the new key."
AGAIN = 1.0
"""Seconds between two tries to finish what a reader was in the way of."""
T = TypeVar("T")

_USER, _ASSISTANT = ROLES.index("user"), ROLES.index("assistant")


def wall_clock() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


class Write(Protocol):
    """`Backend.write`."""

    def __call__(self, work: Callable[[Tx], T], settle: Callable[[Tx], T | None] | None = None) -> T: ...


class Draft(msgspec.Struct, frozen=True):
    """A message with its id, encoded and checked, before it has a place."""

    id: bytes
    encoded: Encoded
    created_at: int


class Engine:
    """A backend, and the rules by which it is read and written."""

    def __init__(
        self,
        backend: Backend,
        *,
        workspace: str = "",
        clock: Clock = wall_clock,
        new_id: IdSource = ids.new_id,
        max_body: int = MAX_BODY,
        key: Key | None = None,
        redact: Rules | None = None,
    ) -> None:
        self.backend = backend
        self.read = backend.read
        self.write: Write = backend.write
        self.undoing = Undoing(backend.transaction)
        self.transaction = self.undoing.transaction
        self.workspace = workspace
        self.clock = clock
        self.new_id = new_id
        self.max_body = max_body
        self.store_id = backend.read(lambda tx: tx.header("store_id")) or b""
        self.seal: Seal = Plain(self.store_id, self.reload)
        self._sealed: SealedSeal | None = None
        self.key = key
        """What opens the store, if it is sealed."""
        self.rules = redact
        """By which everything is redacted before it is stored."""
        self._lookup_key = b""
        self.bucket: Bucket | None = None
        """Where large blobs go: see `clew.outside`."""
        self.audits = False
        """True if the audit has all that is done, not only what takes away or touches keys: see `clew.audit`."""
        self.actor: str | None = None
        """Who the audit says it was."""
        self.unclean = False
        """True if traces of something deleted may be left: see `clew.purge`."""
        self.owes = False
        """True while something is left to do: see `owe`."""
        backend.on_epoch = self._follow
        state, self._change = backend.read(lambda tx: (self.renew(tx), tx.state().change))
        backend.unlocked()
        if state == "plain" and key is not None:
            with loading:
                from clew import header

            made = header.made(key)
            self.write(lambda tx: header.take(tx, self.store_id, made, backend.path))
            backend.look_anew()

    @property
    def keyed(self) -> bool:
        """True if the store is sealed."""
        return self.seal.keyed

    def renew(self, tx: Tx) -> str:
        """Learns how the store is kept at this moment, and returns that. Sealed, WrongKey."""
        state, lookup_key = tx.state().state, tx.header("lookup_key")
        if tx.header("copying") is not None:
            raise Invalid(f"{self.backend.path} is a copy that is not whole", hint="Copy it again.")
        if state != "plain":
            secrets = self.secrets(tx)
            with loading:
                from clew import sealed  # 20 ms at import, and most stores are plain

            lookup_key = secrets.lookup
            if self._sealed is None:
                self.seal = self._sealed = sealed.SealedSeal(self.store_id, secrets, self.reload)
            self._sealed.load(secrets)
        elif self._sealed is not None:
            self._sealed.unsealed(tx, self.backend.path)
        if not self.store_id or lookup_key is None:
            raise Tampered(self.backend.path, "its header is incomplete")
        self._lookup_key = lookup_key
        self.unclean = tx.header("unclean") is not None
        return state

    def _follow(self, tx: Tx) -> None:
        """`renew` before a write, which sees the newest state. Tampered if that is older than one seen before."""
        change = tx.state().change
        if change < self._change:
            raise Tampered(self.backend.path, "an earlier state of its epoch was put back")
        self.renew(tx)
        self._change = change

    def secrets(self, tx: Tx) -> Secrets:
        """The secrets of a sealed store, as they are in this transaction. Sealed, WrongKey, Tampered."""
        if self.key is None:
            key_id = tx.state().key_id
            wanted = [key_id] if isinstance(key_id, bytes) else []  # a damaged row may hold anything
            raise Sealed(self.backend.path, wanted, passphrase=bool(tx.headers("kdf ")))
        with loading:
            from clew import header

        known = [] if self._sealed is None else self._sealed.secrets.keys
        try:
            return header.unlock(tx, self.store_id, self.key, known, self.backend.path)
        except WrongKey as wrong:
            hint = "" if self._sealed is None else _EXCHANGED
            raise WrongKey(wrong.path, wrong.expected, wrong.given, hint=hint) from None

    @property
    def held(self) -> frozenset[bytes] | None:
        """What the secrets list as held: see `clew.holds`. None if there is no list."""
        return None if self._sealed is None else self._sealed.held

    def owe(self, finish: Callable[[], bool]) -> None:
        """Something is left to do: `finish` is tried after a write, now and then, until it returns True."""
        last = time.monotonic()

        def write(work: Callable[[Tx], T], settle: Callable[[Tx], T | None] | None = None) -> T:
            nonlocal last
            result = self.backend.write(work, settle)
            if time.monotonic() - last > AGAIN and not self.backend.in_transaction():
                last = time.monotonic()
                with suppress(ClewError):  # the write is done, whatever becomes of this
                    if finish():
                        self.write, self.owes = self.backend.write, False
            return result

        self.write, self.owes = write, True

    def write_settled(self, work: Callable[[Tx], T], kept: Callable[[Tx, T], bool]) -> T:
        """`write`. If the commit fails, `kept` says of what `work` has returned whether the store has it."""
        done: list[T] = []

        def step(tx: Tx) -> T:
            done.clear()
            done.append(work(tx))
            return done[0]

        return self.write(step, lambda tx: next((result for result in done if kept(tx, result)), None))

    def reload(self) -> None:
        """Looks at how the store is kept: another process may have changed it. Sealed, WrongKey."""
        self.backend.read(self.renew)

    def look(self, domain: str, value: bytes) -> bytes:
        """The keyed hash under which equal values are found without being shown."""
        digest: bytes = self._hash(value, key=self._lookup_key, digest_size=16, person=domain.encode()).digest()
        return digest

    @cached_property
    def _hash(self) -> Any:
        with loading:
            from hashlib import blake2b  # 2 ms at import, and many programs never look anything up

        return blake2b

    # -- ids and handles

    def node_handle(self, id: bytes) -> str:
        """The shortest handle that means this node alone."""
        return ids.handle_beside(id, self.read(lambda tx: tx.id_beside(id)))

    def resolve_node(self, typed: str) -> bytes:
        """The id that a full id or a handle means. NotFound, Ambiguous."""
        exact = ids.maybe(typed)
        if exact is not None:
            return exact
        return ids.pick("node", typed, lambda low, high: self.read(lambda tx: tx.ids_between(low, high, 9)))

    def fresh_id(self, given: str | None) -> bytes:
        """The id a caller asked for, or a new one."""
        return self.new_id() if given is None else ids.parse(given)

    # -- drafting: everything that can fail fails before the transaction

    def draft(self, said: Said, id: str | None = None, created_at: int | None = None, *, stored: bool = False) -> Draft:
        """Encodes a message, redacted, under the id it will have. Invalid if it cannot be stored.

        `stored` says that it came out of this store, and only has to be compared with what is there.
        """
        encoded = codec.encode(said)
        if self.rules is not None and not stored:
            with loading:
                from clew import redaction

            redacted = redaction.redact(said, self.rules, token=self.token).said
            if redacted is not said:
                encoded = codec.encode(redacted)
        if len(encoded.payload) > self.max_body:
            raise Invalid(
                f"the message has {len(encoded.payload):,} bytes, the limit is {self.max_body:,}",
                hint="Keep large content as a blob, or open the store with a larger max_body.",
            )
        return Draft(self.fresh_id(id), encoded, self.clock() if created_at is None else created_at)

    def redacted(self, data: bytes, *, own: bool = False) -> bytes:
        """`data`, JSON or text, without what the rules find; `own` if it is JSON of clew's."""
        if self.rules is None:
            return data
        with loading:
            from clew import redaction

        return redaction.redact_bytes(data, self.rules, own=own)

    def token(self, rule: str, value: str) -> str:
        """What tells that a rule found the same again, and tells nothing else."""
        found = b"\0".join((rule.encode(), value.encode(errors="surrogatepass")))
        return f"{rule}:{self.look('redaction', found).hex()}"

    # -- growing

    def grow(self, tx: Tx, ground: Ground, drafts: Sequence[Draft], derived: int | None = None) -> list[Node]:
        """Stores `drafts` as a chain after the ground's node, or as a root. Conflict if an id is in use.

        The chain goes on in the node's run where it can; else it begins a new run. A root that is `derived` from the
        node at that position carries its totals forward: they are the ground's.
        """
        tree, pos, parent, run_depth, carried, above, extends, wrapped = ground
        if extends and pos is not None and pos & MAX_SEQ != MAX_SEQ and self.kept_so(wrapped):
            box = self.seal.box(wrapped, run_owner(tree, pos >> SEQ_BITS))
            stretch = Stretch(tree, run_depth or 0, carried or 0, wrapped, box)
            pos += 1
        else:
            pos, stretch = self._new_run(tx, ground, derived)
        return self.lay(tx, stretch, pos, parent, above, drafts)

    def lay(
        self, tx: Tx, stretch: Stretch, pos: int, parent: bytes | None, above: bytes | None, drafts: Sequence[Draft]
    ) -> list[Node]:
        """Stores `drafts` as a chain from `pos` on, which is the end of a run; `above` are the facts of its parent."""
        tree, depth, _, _, box = stretch
        turns, tokens_in, tokens_out, cost, gaps = _totals(above)
        rows: list[NodeRow] = []
        nodes: list[Node] = []
        shown: list[tuple[Node, frozenset[str]]] = []
        for draft in drafts:
            encoded = draft.encoded
            role, (used_in, used_out, spent) = encoded.role, encoded.usage
            turns += role == _USER
            tokens_in += used_in or 0
            tokens_out += used_out or 0
            cost += spent or 0
            if role == _ASSISTANT:
                gaps |= (used_in is None or used_out is None) | (spent is None) << 1
            id, created_at = draft.id, draft.created_at
            if tokens_in | tokens_out | cost >= 1 << 62:
                raise Invalid("the totals of this path are beyond reason")
            above = pack_facts(created_at, role, encoded.kind, turns, tokens_in, tokens_out, cost, gaps)
            context = node_place(tree, id, parent or NO_ID, depth + (pos & MAX_SEQ)) + above
            row = (pos, above, id, box.close(encoded.payload, context))
            rows.append(row)
            nodes.append(Node(self, stretch, parent, row))
            parent = id
            pos += 1
            if encoded.blobs:
                shown.append((nodes[-1], encoded.blobs))
            if not pos & MAX_SEQ and draft is not drafts[-1]:  # the run is full: 16 million messages
                tx.add_nodes(rows)
                rows = []
                pos, stretch = self._new_run(tx, Ground(tree, pos - 1, parent, depth, stretch.carried), None)
                depth, box = stretch.depth, stretch.box
        tx.add_nodes(rows)
        for node, blobs in shown:
            self._use_blobs(tx, tree, node, blobs)
        return nodes

    def kept_so(self, wrapped: bytes | None) -> bool:
        """True if a run with this data key is kept as new ones are; False on the way to or from a sealed store."""
        return (wrapped is not None) == self.seal.keyed

    def known(self, tx: Tx, drafts: Sequence[Draft], tree: int | None) -> list[Node] | None:
        """The nodes that `drafts` became when they were stored before; None if none of them is known.

        Conflict if an id is taken by other content, by another tree, or if only some of the ids are known.
        """
        places = [tx.node(draft.id) for draft in drafts]
        if not any(places):
            return None
        nodes = []
        for draft, place in zip(drafts, places, strict=True):
            if place is None:
                raise Conflict("some of these messages are stored and some are not", hint="Append the new ones alone.")
            node = self.node(place)
            if node._payload() != draft.encoded.payload or tree not in (None, place.tree):
                raise Conflict(f"id {node.id} is taken by another message")
            nodes.append(node)
        return nodes

    def node(self, place: Place) -> Node:
        """The node that stands at a place."""
        tree, depth, carried, wrapped, parent, row = place
        try:
            box = self.seal.box(wrapped, run_owner(tree, row[POS] >> SEQ_BITS))
        except MISTYPED:
            box = NO_BOX
        return Node(self, Stretch(tree, depth, carried, wrapped, box), parent, row)

    def nodes(self, places: Iterable[Place]) -> Iterator[Node]:
        """The nodes that stand at these places, in their order; those of one run share what they have in common."""
        stretches: dict[int, Stretch] = {}
        for place in places:
            _, _, _, _, parent, row = place
            stretch = stretches.get(row[POS] >> SEQ_BITS)
            if stretch is None:
                stretch = stretches[row[POS] >> SEQ_BITS] = self.node(place)._stretch
            yield Node(self, stretch, parent, row)

    def checked(self, tx: Tx, run: RunRow) -> RunRow:
        """`run`, if its signature is right. Tampered."""
        if not self.signed(tx, run):
            self.reload()  # the store may be kept in another way since
            if not self.signed(tx, run):
                raise Tampered(f"run {run.run}")
        return run

    def signed(self, tx: Tx, run: RunRow) -> bool:
        """True if a run's signature is right."""
        try:
            return self.seal.signed(self._run_fields(tx, run), run.wrapped_key, run.mac)
        except MISTYPED:
            return False

    def stretch(self, run: RunRow) -> Stretch:
        """What the nodes of a run share."""
        box = self.seal.box(run.wrapped_key, run_owner(run.tree, run.run))
        return Stretch(run.tree, run.depth, run.carried, run.wrapped_key, box)

    def changed(self, tx: Tx, run: RunRow, **columns: Any) -> RunRow:
        """`run` with other columns, signed; but one that is damaged stays so, and shows."""
        changed = run._replace(**columns)
        return self.sign_run(tx, changed) if self.signed(tx, run) else changed

    def sign_run(self, tx: Tx, run: RunRow) -> RunRow:
        """`run` with its signature renewed."""
        return run._replace(mac=self.seal.sign(self._run_fields(tx, run), run.wrapped_key))

    def _run_fields(self, tx: Tx, run: RunRow) -> bytes:
        tip = tx.node_at(run.run << SEQ_BITS | run.tip) if run.tip >= 0 else None
        return run_fields(run, tip.row[ID] if tip else None)

    def _new_run(self, tx: Tx, ground: Ground, derived: int | None) -> tuple[int, Stretch]:
        """Begins a run after the ground's node: the position of its first node, and what its nodes share."""
        depth = 0 if ground.pos is None else (ground.run_depth or 0) + (ground.pos & MAX_SEQ) + 1
        carried = ground.carried or 0
        number = tx.add_run(RunRow(0, ground.tree, ground.pos, derived, depth, carried, -1, 0, None, b""))
        box, wrapped = self.seal.new_box(run_owner(ground.tree, number))
        run = RunRow(number, ground.tree, ground.pos, derived, depth, carried, -1, 0, wrapped, b"")
        tx.set_run(self.sign_run(tx, run))
        return number << SEQ_BITS, Stretch(ground.tree, depth, carried, wrapped, box)

    def _use_blobs(self, tx: Tx, tree: int, node: Node, digests: Iterable[str]) -> None:
        used = []
        for digest in sorted(digests):
            row = tx.blob(tree, self.blob_look(tree, digest))
            if row is None:
                raise NotFound("blob", digest, hint="Put the blob into the same session first.")
            used.append(row.blob)
        tx.add_uses(node._row[POS], used)

    def blob_look(self, tree: int, digest: str) -> bytes:
        """The keyed hash under which a tree knows a blob."""
        return self.look("blob", tree.to_bytes(8, "big") + digest.encode())

    def close(self) -> None:
        """Idempotent."""
        self.backend.close()


def whole_number(name: str, value: object, least: int) -> int:
    """`value`, if it is a whole number from `least` on. Invalid."""
    if not isinstance(value, int) or not least <= value <= 1 << 60:
        raise Invalid(f"{name} is a whole number from {least} on, not {clip(str(value))}")
    return value


def _totals(above: bytes | None) -> tuple[int, int, int, int, int]:
    """Turns, tokens in and out, cost and gaps, as the facts of the node above have them. Tampered."""
    try:
        return (0, 0, 0, 0, 0) if above is None else totals(above)
    except MISTYPED:
        raise Tampered("a node", "what its row says of it cannot be read") from None
