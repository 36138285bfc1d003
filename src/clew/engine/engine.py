"""The engine: a backend with its key, clock, ids and redaction rules. All stored data passes through it.

Also: the mark of a store whose cleanup is pending, and the steps to run if a transaction is rolled back.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from clew.backends import ID, POS, SEQ_BITS, Backend, NodeLocation, RunRow, Tail, Tx
from clew.backends.problems import ODD
from clew.base import ids
from clew.base.codec import Encoded
from clew.base.ids import IdSource
from clew.base.loading import loading
from clew.base.messages import AnyMessage, Message
from clew.base.values import Clock
from clew.engine.node import Node, RunInfo, node_row, run_info
from clew.engine.sealing.envelope import (
    MISTYPED,
    NO_BOX,
    NO_ID,
    Plain,
    Seal,
    run_fields,
    run_owner,
)
from clew.errors import ClewError, Corrupted, Invalid, Sealed, WrongKey
from clew.providers.neutral import encode

if TYPE_CHECKING:
    from clew.base.buckets import Bucket
    from clew.engine.sealing.header import Secrets
    from clew.engine.sealing.sealed import SealedSeal
    from clew.keys import Key
    from clew.redaction import Rules

RETRY_SECONDS = 1.0
"""Time between two attempts: an attempt with every write would slow each of them down."""
_MARK = "unclean"
"""Header that exists while files may hold traces of deleted data."""


class PendingCleanup:
    """Cleanup that one process still has to do. `after_write` retries it until it succeeds."""

    def __init__(self, in_transaction: Callable[[], bool]) -> None:
        self.marked = False
        """True if the store had the mark when its header was last read."""
        self._in_transaction = in_transaction
        self._finish: Callable[[], bool] | None = None
        self._last_try = 0.0

    @property
    def pending(self) -> bool:
        """True while scheduled cleanup has not succeeded."""
        return self._finish is not None

    def schedule(self, finish: Callable[[], bool]) -> None:
        """Retries `finish` after later writes until it returns True."""
        self._finish, self._last_try = finish, time.monotonic()

    def cancel(self) -> None:
        """Forgets what is scheduled. The mark stays in the store."""
        self._finish = None

    def after_write(self) -> None:
        """Retries the cleanup, if one is pending and the last attempt is long enough ago. Never raises ClewError."""
        finish = self._finish
        if finish is None or time.monotonic() - self._last_try <= RETRY_SECONDS or self._in_transaction():
            return
        self._last_try = time.monotonic()
        with suppress(ClewError):  # the write is committed, whether or not the cleanup succeeds
            if finish():
                self.cancel()


def cleanup_mark(tx: Tx) -> bytes | None:
    """The mark, or None if no traces of deleted data are left."""
    return tx.header(_MARK)


def mark_dirty(tx: Tx) -> None:
    """Sets a new mark. Each one differs, so that a cleanup removes only the mark it started with."""
    tx.set_header(_MARK, os.urandom(8))


def clear_mark(tx: Tx) -> None:
    """Removes the mark."""
    tx.set_header(_MARK, None)


Step = Callable[[], object]


class _Local(threading.local):
    """Per thread, the steps of its current transaction."""

    steps: dict[int, Step] | None = None
    after: dict[Hashable, Step]


class RollbackSteps:
    """The transactions of one store, and for each thread the steps to run on a rollback, and at the end."""

    def __init__(self, begin: Callable[[], AbstractContextManager[None]]) -> None:
        self._begin = begin
        self._local = _Local()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """See `Backend.transaction`."""
        outer = self._local.steps
        steps: dict[int, Step] = {}
        self._local.steps = steps
        if outer is None:
            self._local.after = {}
        try:
            with self._begin():
                yield
        except BaseException:
            self._local.steps = outer
            for step in steps.values():
                step()
            raise
        finally:
            self._local.steps = outer
            if outer is None:
                for step in self._local.after.values():
                    step()
        if outer is not None:
            outer.update({what: step for what, step in steps.items() if what not in outer})

    def on_rollback(self, what: object, step: Callable[[], Step]) -> None:
        """Inside a transaction: runs the result of `step` on a rollback, unless `what` already has one.

        `what` must live as long as its step.
        """
        steps = self._local.steps
        if steps is not None and id(what) not in steps:
            steps[id(what)] = step()

    def after(self, what: Hashable, step: Step) -> None:
        """Runs a step now, or at the end of this thread's transaction: once for each `what`, also after a rollback."""
        if self._local.steps is None:
            step()
        else:
            self._local.after[what] = step


MAX_BODY = 64 * 1024 * 1024
"""Default limit for the bytes of one message. Larger content is stored as blobs."""

_ROTATED = "The key was rotated since the store was opened; no data is lost. Open it again with the new key."
T = TypeVar("T")


def wall_clock() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


class OwnError(Exception):
    """An error of a caller's function in a transaction. A backend would take a ValueError for a damaged value."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


class Draft(msgspec.Struct, frozen=True, gc=False):
    """A message with its id, encoded and validated, not stored yet."""

    id: bytes
    encoded: Encoded
    created_at: int


class CurrentTx(threading.local):
    """Per thread, the transaction of the unit of work that it runs: see `clew.store.unit`."""

    tx: Tx | None = None


class Engine:
    """A backend, with everything needed to read and write its rows."""

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
        self._read = backend.read
        self.current = CurrentTx()
        self.rollback_steps = RollbackSteps(backend.transaction)
        self.transaction = self.rollback_steps.transaction
        self.workspace = workspace
        self.clock = clock
        self.new_id = new_id
        self.max_body = max_body
        self.store_id = backend.read(lambda tx: tx.header("store_id")) or b""
        self.seal: Seal = Plain(self.store_id, self.reload)
        self._sealed: SealedSeal | None = None
        self.key = key
        """The key of a sealed store."""
        self.rules = redact
        """Rules applied to everything before it is stored."""
        self._lookup_key = b""
        self.bucket: Bucket | None = None
        """Where large blobs go: see `clew.engine.blob_objects`."""
        self.audits = False
        """True if the audit records every event, not only deletions and key changes: see `clew.engine.audit`."""
        self.actor: str | None = None
        """The name that audit entries carry."""
        self.cleanup = PendingCleanup(backend.in_transaction)
        backend.on_epoch = self._load_epoch
        state, self._change = backend.read(lambda tx: (self.renew(tx), tx.state().change))
        backend.allow_changes()
        if state == "plain" and key is not None:
            with loading:
                from clew.engine.sealing import header

            made = header.new_store_key(key)
            self.write(lambda tx: header.seal_empty(tx, self.store_id, made, backend.path))
            backend.refresh_epoch()

    @property
    def keyed(self) -> bool:
        """True if the store is sealed."""
        return self.seal.keyed

    def renew(self, tx: Tx) -> str:
        """Reads the current key state of the store and returns its name. Sealed, WrongKey."""
        state, lookup_key = tx.state().state, tx.header("lookup_key")
        if tx.header("copying") is not None:
            raise Invalid(f"{self.backend.path} is an incomplete copy", hint="Copy it again.")
        if state != "plain":
            secrets = self.secrets(tx)
            with loading:
                from clew.engine.sealing import sealed  # 20 ms at import, and most stores are plain

            lookup_key = secrets.lookup
            if self._sealed is None:
                self.seal = self._sealed = sealed.SealedSeal(self.store_id, secrets, self.reload)
                self._read = self._read_sealed
            self._sealed.load(secrets)
        elif self._sealed is not None:
            self._sealed.load_unsealed(tx, self.backend.path)
        if not self.store_id or lookup_key is None:
            raise Corrupted(self.backend.path, "its header is incomplete")
        self._lookup_key = lookup_key
        self.cleanup.marked = cleanup_mark(tx) is not None
        return state

    def _load_epoch(self, tx: Tx) -> None:
        """`renew` before a write, which sees the newest state. Corrupted if the state is older than one seen before."""
        change = tx.state().change
        if change >= self._change:
            self.renew(tx)
            self._change = max(change, self._change)
        # Another thread may have loaded a newer state since this read began: only a second read can tell.
        elif self.backend.read(lambda tx: tx.state().change) < self._change:
            raise Corrupted(self.backend.path, "an earlier state of its epoch was restored")

    def secrets(self, tx: Tx) -> Secrets:
        """The secrets of a sealed store, read in this transaction. Sealed, WrongKey, Corrupted."""
        if self.key is None:
            key_id = tx.state().key_id
            wanted = [key_id] if isinstance(key_id, bytes) else []  # a damaged row may hold anything
            raise Sealed(self.backend.path, wanted, passphrase=bool(tx.maintenance.headers("kdf ")))
        with loading:
            from clew.engine.sealing import header

        known = [] if self._sealed is None else self._sealed.secrets.keys
        try:
            return header.unlock(tx, self.store_id, self.key, known, self.backend.path)
        except WrongKey as wrong:
            hint = "" if self._sealed is None else _ROTATED
            raise WrongKey(wrong.path, wrong.expected, wrong.given, hint=hint) from None

    @property
    def held(self) -> frozenset[bytes]:
        """The held refs that the secrets of a sealed store list: see `clew.engine.refs`."""
        return frozenset() if self._sealed is None else self._sealed.held

    def read(self, work: Callable[[Tx], T], *, single: bool = False, tail: Tail | None = None) -> T:
        """`Backend.read`; inside a unit of work it reads in the unit's transaction."""
        tx = self.current.tx
        if tx is None:
            return self._read(work, single=single, tail=tail)
        try:
            return work(tx)
        except ODD as error:
            raise Corrupted(self.backend.path, "a value in it has a wrong type") from error

    def run_in(self, tx: Tx, work: Callable[[], T]) -> T:
        """Calls a function of a caller in a transaction, which all reads of this thread see meanwhile. OwnError."""
        current = self.current
        before, current.tx = current.tx, tx
        try:
            return work()
        except ODD as error:
            raise OwnError(error) from error
        finally:
            current.tx = before

    def write(self, work: Callable[[Tx], T], settle: Callable[[Tx], T | None] | None = None) -> T:
        """`Backend.write`, followed by pending cleanup."""
        result = self.backend.write(work, settle)
        self.cleanup.after_write()
        return result

    def write_settled(self, work: Callable[[Tx], T], kept: Callable[[Tx, T], bool]) -> T:
        """`write`. If the commit fails, `kept` decides from the result of `work` whether the store has it."""
        done: list[T] = []

        def step(tx: Tx) -> T:
            done.clear()
            done.append(work(tx))
            return done[0]

        return self.write(step, lambda tx: next((result for result in done if kept(tx, result)), None))

    def _read_sealed(self, work: Callable[[Tx], T], *, single: bool = False, tail: Tail | None = None) -> T:
        """`Backend.read`, repeated once if something looked damaged and the keys have changed meanwhile.

        A read sees the rows of one moment, and loads newer secrets if it finds a key that it does not know. These do
        not verify the rows that were signed before.
        """
        assert self._sealed is not None
        change = self._sealed.secrets.change
        try:
            return self.backend.read(work, single=single, tail=tail)
        except Corrupted:
            self.reload()
            if self._sealed.secrets.change == change:
                raise
        return self._read_sealed(work, single=single, tail=tail)

    def reload(self) -> None:
        """Reads the key state again: another process may have changed it. Sealed, WrongKey."""
        self.backend.read(self.renew)

    def lookup_hash(self, domain: str, value: bytes) -> bytes:
        """The lookup hash of a value: finds equal values without revealing them."""
        digest: bytes = self._hash(value, key=self._lookup_key, digest_size=16, person=domain.encode()).digest()
        return digest

    @cached_property
    def _hash(self) -> Any:
        with loading:
            from hashlib import blake2b  # 2 ms at import, and many programs need no lookups

        return blake2b

    # -- ids and handles

    def node_handle(self, id: bytes) -> str:
        """The shortest handle that is unique to this node."""
        return ids.handle_beside(id, self.read(lambda tx: tx.id_beside(id)))

    def resolve_node(self, typed: Node | str) -> bytes:
        """The id of a node, or for a full id or a handle. NotFound, Ambiguous."""
        if isinstance(typed, Node):
            return node_row(typed)[ID]
        exact = ids.maybe(typed)
        if exact is not None:
            return exact
        return ids.pick("node", typed, lambda low, high: self.read(lambda tx: tx.ids_between(low, high, 9)))

    def fresh_id(self, given: str | bytes | None) -> bytes:
        """The id a caller asked for, as text or 16 bytes, or a new one. Invalid."""
        if isinstance(given, bytes) and len(given) == len(NO_ID):
            return given
        return self.new_id() if given is None else ids.parse(cast(str, given))

    # -- drafts: encoding and validation fail before the transaction

    def draft(
        self,
        said: AnyMessage,
        id: str | bytes | None = None,
        created_at: int | None = None,
        *,
        stored: bool = False,
        seen: Message | None = None,
    ) -> Draft:
        """Redacts and encodes a message under the id it will have. Invalid if it cannot be stored.

        `stored` means that the message was read from this store and only has to be compared. `seen` is role and usage
        of a native message, for a caller that has read its JSON already.
        """
        encoded = encode(said, seen)
        redacted = said if stored else self.redacted_message(said)
        if redacted is not said:
            encoded = encode(redacted)
        if len(encoded.payload) > self.max_body:
            raise Invalid(
                f"the message has {len(encoded.payload):,} bytes, the limit is {self.max_body:,}",
                hint="Keep large content as a blob, or open the store with a larger max_body.",
            )
        return Draft(self.fresh_id(id), encoded, self.clock() if created_at is None else created_at)

    def redacted_message(self, said: AnyMessage) -> AnyMessage:
        """A message after redaction; the same object if nothing is found."""
        if self.rules is None:
            return said
        with loading:
            from clew import redaction

        return redaction.redact(said, self.rules, token=self.token).said

    def redacted(self, data: bytes, *, own: bool = False) -> bytes:
        """`data`, JSON or text, after redaction; `own` if it is JSON that clew wrote."""
        if self.rules is None:
            return data
        with loading:
            from clew import redaction

        return redaction.redact_bytes(data, self.rules, own=own)

    def token(self, rule: str, value: str) -> str:
        """A token that is equal for equal findings of a rule, and reveals nothing else."""
        found = b"\0".join((rule.encode(), value.encode(errors="surrogatepass")))
        return f"{rule}:{self.lookup_hash('redaction', found).hex()}"

    # -- nodes and runs

    def matches_seal(self, wrapped: bytes | None) -> bool:
        """True if new runs are keyed like this one. False for old runs while a store is being sealed or unsealed."""
        return (wrapped is not None) == self.seal.keyed

    def node(self, place: NodeLocation) -> Node:
        """The node at a location."""
        tree, depth, carried, wrapped, parent, row = place
        try:
            box = self.seal.box(wrapped, run_owner(tree, row[POS] >> SEQ_BITS))
        except MISTYPED:
            box = NO_BOX
        return Node(self.node_handle, RunInfo(tree, depth, carried, wrapped, box), parent, row)

    def nodes(self, places: Iterable[NodeLocation]) -> Iterator[Node]:
        """The nodes at these locations, in the same order. Nodes of one run share one `RunInfo`."""
        runs: dict[int, RunInfo] = {}
        handle = self.node_handle
        for place in places:
            _, _, _, _, parent, row = place
            info = runs.get(row[POS] >> SEQ_BITS)
            if info is None:
                info = runs[row[POS] >> SEQ_BITS] = run_info(self.node(place))
            yield Node(handle, info, parent, row)

    def verify_run(self, tx: Tx, run: RunRow) -> RunRow:
        """`run`, if its signature is valid. Corrupted."""
        if not self.is_signed(tx, run):
            self.reload()  # another process may have changed the keys
            if not self.is_signed(tx, run):
                raise Corrupted(f"run {run.run}")
        return run

    def is_signed(self, tx: Tx, run: RunRow) -> bool:
        """True if a run's signature is valid."""
        try:
            return self.seal.is_signed(self._run_fields(tx, run), run.wrapped_key, run.mac)
        except MISTYPED:
            return False

    def run_info(self, run: RunRow) -> RunInfo:
        """The data that the nodes of a run share."""
        box = self.seal.box(run.wrapped_key, run_owner(run.tree, run.run))
        return RunInfo(run.tree, run.depth, run.carried, run.wrapped_key, box)

    def change_run(self, tx: Tx, run: RunRow, **columns: Any) -> RunRow:
        """`run` with changed columns, signed again. A damaged run is not signed, so that the damage stays visible."""
        changed = run._replace(**columns)
        return self.sign_run(tx, changed) if self.is_signed(tx, run) else changed

    def sign_run(self, tx: Tx, run: RunRow) -> RunRow:
        """`run` with a new signature."""
        return run._replace(mac=self.seal.sign(self._run_fields(tx, run), run.wrapped_key))

    def _run_fields(self, tx: Tx, run: RunRow) -> bytes:
        tip = tx.node_at(run.run << SEQ_BITS | run.tip) if run.tip >= 0 else None
        return run_fields(run, tip.row[ID] if tip else None)

    def blob_hash(self, tree: int, digest: str) -> bytes:
        """The lookup hash of a blob in a tree."""
        return self.lookup_hash("blob", tree.to_bytes(8, "big") + digest.encode())

    def close(self) -> None:
        """Idempotent."""
        self.backend.close()
